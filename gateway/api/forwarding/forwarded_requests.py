"""What comes in at one gateway for another: webhooks on TCP, and terminals on the unix socket."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, unquote

from starlette.requests import Request

from gateway.api.answers import Refusal
from gateway.api.forwarding.forwarded_calls import ForwardedCalls, Member
from gateway.api.forwarding.passing import PassedOn
from gateway.api.forwarding.peers import LOOK_SECONDS, Peers
from gateway.api.middleware import HOOKS
from gateway.base.errors import StorageFailed
from gateway.cluster.cells import ACCOUNT, AGENT

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from gateway.cluster.directory import Peer

_OWN_HOOKS: Final = "in/"
_CHAT: Final = re.compile(r"/chat/([0-9A-Za-z]{16,64})/(\w+)")
"""A terminal's further requests, by the name of its connection."""
EVENTS: Final = "/chat/events"


class ForwardedWebhooks:
    """Middleware: passes calls of platforms, and of the owner's own webhooks, on to the gateway that holds the account or agent.

    ``agent_of_hook`` returns whose a webhook is, by its name; None for one that there is not.
    """

    def __init__(
        self,
        app: ASGIApp,
        forwarding: ForwardedCalls,
        peers: Peers,
        member: Member,
        agent_of_hook: Callable[[str], Awaitable[str | None]],
    ) -> None:
        self.app = app
        self._forwarding = forwarding
        self._peers = peers
        self._member = member
        self._agent_of_hook = agent_of_hook

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or let it through."""
        path: str = scope["path"]
        token = await self._token(path.removeprefix(HOOKS)) if path.startswith(HOOKS) else None
        if token is None or self._member.holds(token) or not self._member.known(token):
            await self.app(scope, receive, send)
        else:
            await PassedOn(self._forwarding, self._peers, token)(scope, receive, send)

    async def _token(self, rest: str) -> str | None:
        if not rest.startswith(_OWN_HOOKS):
            channel, _, account = rest.partition("/")
            return f"{ACCOUNT}{channel}:{account}"
        try:
            agent = await self._agent_of_hook(unquote(rest.removeprefix(_OWN_HOOKS)))
        except StorageFailed:
            return None  # the route says that it cannot be stored
        return f"{AGENT}{agent}" if agent is not None else None


class ForwardedTerminals:
    """Middleware of the unix socket: a terminal is attached to the gateway that holds the agent that answers it.

    A connection ends when another gateway takes the agent; the terminal attaches anew then. ``agent_of`` returns who answers in a
    conversation of a terminal.
    """

    def __init__(
        self, app: ASGIApp, forwarding: ForwardedCalls, peers: Peers, member: Member, agent_of: Callable[[str], str]
    ) -> None:
        self.app = app
        self._forwarding = forwarding
        self._peers = peers
        self._member = member
        self._agent_of = agent_of
        self._at: dict[str, Peer] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or let it through."""
        if scope["path"] == EVENTS:
            await self._attach(scope, receive, send)
            return
        found = _CHAT.fullmatch(scope["path"])
        peer = self._at.get(found[1]) if found is not None else None
        if found is None or peer is None:
            await self.app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        if found[2] == "messages" and _has_files(body):
            hint = f"Use the page, or run `homebody chat` where {peer.label} runs."
            refusal = Refusal(
                400, "file-elsewhere", f"{peer.label}, which holds this agent, may not see files of this machine", hint
            )
            await refusal.response()(scope, receive, send)
            return
        await PassedOn(self._forwarding, self._peers, "", body=body, to=peer)(scope, receive, send)

    async def _attach(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        connection = asked.get("connection", [""])[0]
        meant = asked.get("agent", [""])[0].lower()
        token = f"{AGENT}{meant or self._agent_of(asked.get('conversation', ['local'])[0])}"
        here = self._member.holds(token) or not self._member.known(token)

        def reached(peer: Peer) -> None:
            self._at[connection] = peer

        app = self.app if here else PassedOn(self._forwarding, self._peers, token, reached=reached)
        attached = asyncio.ensure_future(app(scope, receive, send))
        try:
            while not (await asyncio.wait([attached], timeout=LOOK_SECONDS))[0]:
                if not await self._still(token, self._at.get(connection), here=here):
                    return
            attached.result()
        finally:
            attached.cancel()
            await asyncio.gather(attached, return_exceptions=True)
            self._at.pop(connection, None)

    async def _still(self, token: str, peer: Peer | None, *, here: bool) -> bool:
        """Return whether a terminal is attached where its agent is."""
        if here:
            return self._member.holds(token) or not self._member.known(token)
        if peer is None:
            return True
        try:
            found = await self._forwarding.holder(token, fresh=False)
        except StorageFailed:
            return True
        return found is not None and found.name == peer.name


def _has_files(body: bytes) -> bool:
    try:
        fields = json.loads(body)
    except ValueError:
        return False
    return isinstance(fields, dict) and bool(fields.get("files"))
