"""Builds what passes requests on to the gateway of a cluster that holds what they are about. Loaded only where there is a cluster."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from inspect import signature as _signature
from typing import TYPE_CHECKING, Any, Final

from channels.messages import ChatAddress
from gateway.api.forwarding.forwarded_calls import EACH_SECONDS, Call, ForwardedCalls
from gateway.api.forwarding.listener_middleware import Entries
from gateway.api.forwarding.live_events import PeerEvents, events_of
from gateway.api.forwarding.passing import PassedOn
from gateway.api.forwarding.peers import Elsewhere, Peers
from gateway.base.errors import HomebodyError
from gateway.cluster.cells import AGENT
from gateway.outbound.owner_notifications import OwnerNotifications, read_address

if TYPE_CHECKING:
    from gateway.app.cluster_member import ClusterMember
    from gateway.app.page_parts import PageParts
    from gateway.approvals.decisions import Choice, Decisions
    from gateway.cluster.directory import Peer
    from gateway.hooks.receiver import HookReceiver
    from gateway.routing.router import Router
    from gateway.settings.root import Settings

log = logging.getLogger(__name__)

HOOKS: Final = "hooks"
BROWSER: Final = "browser:"
"""Notices to all gateways of the cluster: webhooks were changed, a browser is let in no more."""


class ForwardingParts:
    """``own_calls`` returns the calls of this gateway alone, ``settings`` those in force."""

    def __init__(
        self,
        member: ClusterMember,
        settings: Callable[[], Settings],
        *,
        page: PageParts,
        hooks: HookReceiver,
        router: Callable[[], Router],
        own_calls: Callable[[], Mapping[str, Call]],
        owner: OwnerNotifications,
        decisions: Decisions,
    ) -> None:
        decisions.others = self
        self._owner = owner
        owner.elsewhere = self.owner_place
        self._member = member
        self._settings = settings
        self._page = page
        self._hooks = hooks
        self._router = router
        self._own_calls = own_calls
        self._directory = member.directory
        self._peers = Peers(self._directory)
        self._calls = ForwardedCalls(self._directory, self._peers, member, settings, member.member.label)
        self._events = PeerEvents(lambda: page.hub, self._directory, self._peers)

    def calls(self) -> dict[str, Call]:
        """Return the owner's calls, for all agents of the cluster."""
        return self._telling(self._calls.around(self._own_calls()))

    def own_calls(self) -> dict[str, Call]:
        """Return the calls about the cluster itself."""
        return {"cluster.ping": self._ping, "cluster.reach": self._reach, "cluster.ownerPlace": self._owner_place}

    async def _ping(self) -> dict[str, Any]:
        """Answer another gateway that looks whether it reaches this one."""
        return {"gateway": self._member.member.label}

    async def _reach(self) -> dict[str, Any]:
        """Return for each other gateway whether it is reached from here, and why not."""

        async def reached(peer: Peer) -> dict[str, Any]:
            why = ""
            try:
                async with asyncio.timeout(EACH_SECONDS):
                    await self._peers.call(peer, "call", "cluster.ping", {})
            except TimeoutError:
                why = f"{peer.label} did not answer within {EACH_SECONDS:g} seconds"
            except (Elsewhere, HomebodyError) as error:
                why = str(error)
            return {"gateway": peer.label, "address": peer.address, "why": why}

        others = await self._directory.others(fresh=True)
        return {"gateways": await asyncio.gather(*(reached(peer) for peer in others))}

    async def _owner_place(self, agent: str = "") -> dict[str, Any]:
        """Tell another gateway where the owner last wrote, to an agent if one is named, as far as this one knows."""
        place = await (self._owner.own_place_of(agent) if agent else self._owner.own_place())
        return {"address": place.address if place is not None else ""}

    async def owner_place(self, agent: str | None) -> ChatAddress | None:
        """Return where the owner last wrote, to an agent or any, as far as another gateway knows: one that holds one they talk with."""
        asked = {} if agent is None else {"agent": agent}

        async def known(peer: Peer) -> str:
            try:
                async with asyncio.timeout(EACH_SECONDS):
                    return str((await self._peers.call(peer, "call", "cluster.ownerPlace", asked))["address"])
            except (TimeoutError, Elsewhere, HomebodyError) as error:
                log.info("%s does not say where the owner is reached: %s", peer.label, error)
                return ""

        try:
            others = await self._directory.others(fresh=True)
        except HomebodyError:
            return None
        addresses = await asyncio.gather(*(known(peer) for peer in others))
        return next((place for one in addresses if (place := read_address(one)) is not None), None)

    async def decide(self, name: str, choice: Choice) -> str | None:
        """Decide a question that was asked in a chat of this gateway, for an agent that another one holds; None where there is none."""

        async def here(**_: Any) -> None:
            """Nothing is decided: it came here meanwhile."""

        given = {"name": name, "choice": choice, "source": "chat"}
        try:
            async with asyncio.timeout(EACH_SECONDS):
                token = await self._calls.token_of("approvals.decide", given)
                answer = await self._calls.at(token, "approvals.decide", given, here, "call") if token else None
        except TimeoutError:
            return f"The gateway that asked #{name} did not answer within {EACH_SECONDS:g} seconds. Answer again in a moment."
        except HomebodyError as error:
            return f"#{name} could not be decided: {error}. Answer again in a moment."
        return None if answer is None else str(answer["told"])

    async def open_questions(self) -> tuple[list[tuple[str, str]], list[str]]:
        """Return name and summary of the open questions of agents that other gateways hold, and which gateways did not say theirs."""

        async def none_of_ours(**_: Any) -> dict[str, Any]:
            return {"approvals": []}

        try:
            found = await self._calls.around({"approvals.list": none_of_ours})["approvals.list"]()
        except HomebodyError as error:
            return [], [str(error)]
        return [(one["name"], one["summary"]) for one in found["approvals"]], found.get("unreached", [])

    async def resume(self) -> dict[str, Any]:
        """End the pauses of all gateways; return what ``Pause.resume`` does."""
        found: dict[str, Any] = await self._calls.around({"resume": self._own_calls()["resume"]})["resume"]()
        return found

    def page_calls(self, own: Mapping[str, Call]) -> dict[str, Call]:
        """Return the calls of the page, likewise."""
        return self._telling(self._calls.around(own, "page"))

    def page_opened(self) -> None:
        """Follow what other gateways tell pages."""
        self._events.begin()

    def request(self, agent: str, body: bytes, caller: Mapping[str, str]) -> PassedOn | None:
        """Return the answer to a request about an agent that another gateway holds; None for one that is here, or is none."""
        token = f"{AGENT}{agent}"
        if self._member.holds(token) or not self._member.known(token):
            return None
        return PassedOn(self._calls, self._peers, token, body=body, caller=caller)

    def entries(self) -> Entries:
        """Return what the listeners need."""
        return Entries(
            own=self._directory.own,
            secret=self._directory.secret,
            forwarding=self._calls,
            peers=self._peers,
            member=self._member,
            calls=self._own_calls,
            page_calls=lambda: self._page.page_calls(self._own_calls()),
            events=lambda reader: events_of(self._page.watched_hub(), reader),
            agent_of_hook=self._agent_of_hook,
            agent_of_terminal=self._agent_of_terminal,
        )

    def listening(self, port: int, *, everywhere: bool) -> None:
        """Tell the others where this gateway is reached, if the settings do not say so."""
        self._member.reached_at(f"http://{socket.gethostname() if everywhere else '127.0.0.1'}:{port}")

    def heard(self, notice: str) -> None:
        """Take a notice of another gateway."""
        if notice == HOOKS:
            self._hooks.changed()
        elif notice.startswith(BROWSER):
            self._page.end_browser(notice.removeprefix(BROWSER))

    async def close(self) -> None:
        """Close all connections."""
        self._events.stop()
        await self._peers.close()

    def _telling(self, calls: dict[str, Call]) -> dict[str, Call]:
        """Have the other gateways told after calls that change what they keep in memory."""

        def told(call: Call, notices: Callable[[Any], list[str]]) -> Call:
            async def telling(**given: Any) -> Any:
                result = await call(**given)
                for notice in notices(result):
                    await self._member.tell(notice)
                return result

            telling.__signature__ = _signature(call)  # type: ignore[attr-defined]  # the API checks arguments by it
            return telling

        changing = [f"hooks.{do}" for do in ("add", "change", "rotate", "pause", "resume", "remove")]
        more = {name: told(calls[name], lambda _: [HOOKS]) for name in changing if name in calls}
        if "page.revoke" in calls:
            more["page.revoke"] = told(calls["page.revoke"], lambda gone: [f"{BROWSER}{one['id']}" for one in gone])
        return {**calls, **more}

    async def _agent_of_hook(self, name: str) -> str | None:
        found = (await self._hooks.load()).get(name)
        return None if found is None else found.agent

    def _agent_of_terminal(self, conversation: str) -> str:
        place = ChatAddress(channel="terminal", kind="direct", id=conversation)
        return next(iter(self._router().answering(place)), self._settings().default_agent)
