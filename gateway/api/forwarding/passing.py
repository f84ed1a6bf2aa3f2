"""Requests that are passed on to another gateway as they came, and its answer: streams come as they are written."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import anyio
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from gateway.api.answers import HEADERS, OPENAI, Refusal
from gateway.api.api_client import HOLDER_AWAY, NO_HOLDER
from gateway.api.forwarding.forwarded_calls import AGAIN, ForwardedCalls, away
from gateway.api.forwarding.peers import Elsewhere, Peers
from gateway.api.middleware import PASSED_ON
from gateway.base.errors import HolderAway, HomebodyError

if TYPE_CHECKING:
    import httpx
    from starlette.types import Receive, Scope, Send

    from gateway.cluster.directory import Peer

log = logging.getLogger(__name__)

RETRY_AFTER: Final = "10"
_OF_ONE_STEP: Final = frozenset(
    b"connection keep-alive proxy-connection te trailer transfer-encoding upgrade content-length host expect".split()
)
"""Headers of a connection, which are not passed on."""
_SETTLED_THERE: Final = frozenset({401, 403, 404})
"""Refusals of ``/v1`` that are mended at the gateway that answers."""
_BODILESS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class PassedOn(Response):
    """The answer of another gateway to a request. ``body``: the one that was read already; otherwise it is read first.

    ``reached`` is told which gateway answers. ``caller``: who asks, as this gateway found by a token.
    """

    def __init__(
        self,
        forwarding: ForwardedCalls,
        peers: Peers,
        token: str,
        *,
        body: bytes | None = None,
        to: Peer | None = None,
        reached: Callable[[Peer], None] = lambda _: None,
        caller: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._forwarding = forwarding
        self._peers = peers
        self._token = token
        self._given = body
        self._to = to
        self._reached = reached
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on; once more, if its holder has changed. Where nobody can answer: 503, so that whoever calls does so again."""
        if scope.get("passed_on"):
            await _not_now("what it is about has just gone to another gateway")(scope, receive, send)
            return
        why, read = "", _Body(receive, self._given, bodiless=scope["method"] in _BODILESS)
        for fresh in (False, True):
            try:
                peer = self._to or await self._forwarding.holder(self._token, fresh=fresh)
                if peer is None:
                    continue
                await self._pass(peer, scope, receive, send, read)
            except Elsewhere as error:
                why = str(error)
            except ClientDisconnect:
                return
            except Refusal as refusal:  # the body is too large
                await refusal.response(scope["path"])(scope, receive, send)
                return
            except HomebodyError as error:
                why = str(error)
                break
            else:
                return
        message = away(self._token, why).message if self._token else why
        await _not_now(message, HOLDER_AWAY if why else NO_HOLDER)(scope, receive, send)

    async def _pass(self, peer: Peer, scope: Scope, receive: Receive, send: Send, read: _Body) -> None:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        query: bytes = scope.get("query_string", b"")
        target = (PASSED_ON.encode() + raw + (b"?" + query if query else b"")).decode("latin-1")
        headers = [(name, value) for name, value in scope["headers"] if name not in _OF_ONE_STEP]
        body = await read.whole()
        asked = json.dumps({**_told(scope, self._token), "caller": self._caller})
        async with self._peers.request(peer, scope["method"], target, asked=asked, body=body, headers=headers) as answer:
            self._reached(peer)
            chunks = self._peers.chunks(peer, answer)
            if scope["path"].startswith(OPENAI) and answer.status_code in _SETTLED_THERE:
                message = refused_at(peer.label, b"".join([chunk async for chunk in chunks]))
                await Response(message, answer.status_code, HEADERS, "application/json")(scope, receive, send)
                return
            await _as_it_comes(answer, chunks, receive, send)


class _Body:
    """A request's body, which is read once and signed as a whole. Its size was limited before."""

    def __init__(self, receive: Receive, given: bytes | None, *, bodiless: bool) -> None:
        self._receive = receive
        self._kept = [given] if given else []
        self._ended = given is not None or bodiless

    async def whole(self) -> bytes:
        """Return all of it. Raises ClientDisconnect."""
        while not self._ended:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self._ended = not message.get("more_body", False)
            self._kept.append(message.get("body", b""))
        return b"".join(self._kept)


async def _as_it_comes(answer: httpx.Response, chunks: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    """Send an answer on, until it ends or nobody takes it any more."""
    headers = [(name.lower(), value) for name, value in answer.headers.raw if name.lower() not in _OF_ONE_STEP]
    if (length := answer.headers.get("content-length")) is not None:
        headers.append((b"content-length", length.encode()))
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        try:
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except HolderAway as error:  # the answer ends in the middle, and the connection with it
            log.warning("an answer that is passed on ended: %s", error)
        group.cancel_scope.cancel()


def refused_at(label: str, body: bytes) -> bytes:
    """Return OpenAI's form of an error with the gateway named whose settings or tokens it is about."""
    try:
        fields = json.loads(body)
        fields["error"]["message"] = f"at {label}: {fields['error']['message']}"
    except (ValueError, LookupError, TypeError):
        return body
    return json.dumps(fields).encode()


def _told(scope: Scope, token: str) -> dict[str, Any]:
    """Return what the other gateway is told of a request: what it is about, and from where it came."""
    client = scope.get("client") or ("", 0)
    host = next((value for name, value in scope["headers"] if name == b"host"), b"")
    return {
        "token": token,
        "client": client[0],
        "host": host.decode("latin-1"),
    }


def _not_now(why: str, reason: str = HOLDER_AWAY) -> Response:
    return Refusal(503, reason, why, AGAIN, {"retry-after": RETRY_AFTER}).response()
