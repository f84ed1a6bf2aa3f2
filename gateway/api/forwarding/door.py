"""Where other gateways of the cluster ask this one: below ``/cluster/``, with a proof instead of the checks of browsers and proxies.

POST /cluster/call/NAME   a call of the command line: arguments as a JSON object
POST /cluster/page/NAME   a call of the page, whose rights the gateway checked that the browser reached
*    /cluster/pass/...    any other request, as it came
GET  /cluster/events      what open pages are told, as server-sent events

Nothing is passed on from here, so no request takes more than one step. What is asked for has to be held by this very process: ``token``
in the header ``ASKED``, or the answer is 421, and the one that asks looks up who holds it now.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request

from gateway.api.answers import Refusal, json_answer
from gateway.api.forwarding.forwarded_calls import Call, Member
from gateway.api.forwarding.peers import CALLS, EVENTS, NOT_HERE, PAGE_CALLS, UNPROVEN
from gateway.api.forwarding.signed_answer import SignedAnswer
from gateway.api.middleware import CLUSTER, PASSED_ON
from gateway.base.errors import HomebodyError, UsageError, as_homebody_error
from gateway.cluster.peer_proof import ASKED, PROOF, Misdirected, Proven, Secret, Unproven, Verifier

if TYPE_CHECKING:
    import structlog
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_OURS: Final = (PROOF.encode(), ASKED.encode())


class Door:
    """Middleware of the TCP listener. ``calls`` and ``page_calls`` are those of this gateway alone, ``inner`` answers what is passed on."""

    def __init__(
        self,
        app: ASGIApp,
        log: structlog.typing.FilteringBoundLogger,
        *,
        own: str,
        secret: Secret,
        member: Member,
        calls: Callable[[], Mapping[str, Call]],
        page_calls: Callable[[], Mapping[str, Call]],
        events: Callable[[str], Response],
        inner: ASGIApp,
    ) -> None:
        self.app = app
        self._log = log
        self._secret = secret
        self._verifier = Verifier(own, secret)
        self._member = member
        self._calls = {CALLS: calls, PAGE_CALLS: page_calls}
        self._events = events
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer other gateways, and pass everything else on that does not pretend to be of one."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"] if name in _OURS}
        if not scope["path"].startswith(CLUSTER):
            if headers:
                await self._refuse(scope, receive, send, "a request of a gateway has nothing to look for here")
            else:
                await self.app(scope, receive, send)
            return
        proof, asked = headers.get(PROOF.encode(), ""), headers.get(ASKED.encode(), "")
        try:
            proven = await self._verifier.check(proof, scope["method"], _target(scope), asked)
        except Unproven as error:
            await self._refuse(scope, receive, send, str(error))
            return
        except Misdirected:
            await Refusal(NOT_HERE, "not-here", "this is another gateway", "Look up the address.").response()(
                scope, receive, send
            )
            return
        except HomebodyError as error:
            await Refusal(503, "not-now", error.message, error.hint).response()(scope, receive, send)
            return
        proving = SignedAnswer(send, self._secret, proof, bodiless=scope["method"] == "HEAD")
        facts = _facts(proven)
        token = str(facts.get("token", ""))
        if token and not self._member.holds(token):
            refusal = Refusal(NOT_HERE, "not-here", f"this gateway does not hold {token}", "Look up who does.")
            await refusal.response()(scope, receive, proving)
            return
        await self._answer(scope, receive, proving, proven, facts)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, proven: Proven, facts: Mapping[str, Any]) -> None:
        path: str = scope["path"]
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            return
        except Refusal as refusal:  # it is too large
            await refusal.response()(scope, receive, send)
            return
        if not proven.holds_for(body):
            self._log.warning("request refused", reason="other-body", path=path[:200])
            await Refusal(
                400, "other-body", "the body is not the one that was signed", "Call again.", {UNPROVEN: "1"}
            ).response()(scope, receive, send)
            return
        try:
            for space, calls in self._calls.items():
                if path.startswith(space):
                    answer = await self._call(body, calls(), path.removeprefix(space))
                    await answer(scope, receive, send)
                    return
            if path == EVENTS:
                await self._events(proven.sender)(scope, receive, send)
                return
        except Refusal as refusal:
            await refusal.response()(scope, receive, send)
            return
        await self._inner(_as_it_came(scope, facts), _again(body, receive), send)

    async def _call(self, body: bytes, calls: Mapping[str, Call], name: str) -> Response:
        try:
            call, given = calls[unquote(name)], json.loads(body)
        except (KeyError, ValueError) as error:
            why = UsageError(f"this gateway knows no call {name!r}: {error}", hint="Give all gateways the same version.")
            return _failed(why)
        try:
            return json_answer({"result": await call(**given)})
        except Exception as error:  # noqa: BLE001 -- a defect must reach the one who asked, and the log, and no further
            known = as_homebody_error(error)
            if known is None:
                self._log.exception("a call of another gateway failed", call=name)
            return _failed(known or HomebodyError("the gateway failed over this", hint="Its log tells more."))

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, why: str) -> None:
        client = scope.get("client") or ("", 0)
        self._log.warning(
            "request refused", reason="not-of-this-cluster", error=why, path=scope["path"][:200], address=client[0]
        )
        hint = "Only gateways of this cluster ask here (docs/cluster.md)."
        refusal = Refusal(401, "not-of-this-cluster", "this is for gateways of the same cluster", hint, {UNPROVEN: "1"})
        await refusal.response()(scope, receive, send)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return what receives a body that was read already, and then whatever comes."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return left.pop() if left else await receive()

    return received


def _failed(error: HomebodyError) -> Response:
    return json_answer({**error.as_json(), "kind": type(error).__name__}, 500)


def _facts(proven: Proven) -> dict[str, Any]:
    """Return what the gateway that asks says of the request; it is proven."""
    asked = json.loads(proven.asked or "{}")
    return asked if isinstance(asked, dict) else {}


def _target(scope: Scope) -> str:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string", b"")
    return (path + (b"?" + query if query else b"")).decode("latin-1")


def _as_it_came(scope: Scope, facts: Mapping[str, Any]) -> Scope:
    """Return the scope of a request as the first gateway received it: its path, host and client, and who asks."""
    path: str = scope["path"].removeprefix(PASSED_ON)
    raw: bytes = (scope.get("raw_path") or scope["path"].encode()).removeprefix(PASSED_ON.encode())
    host = str(facts.get("host", "")).encode("latin-1", "replace")
    headers = [(name, value) for name, value in scope["headers"] if name not in (*_OURS, b"host")]
    return {
        **scope,
        "path": path,
        "raw_path": raw,
        "headers": [(b"host", host), *headers],
        "client": (str(facts.get("client", "")), 0),
        "owner": False,
        "caller": facts.get("caller"),
        "passed_on": True,
    }
