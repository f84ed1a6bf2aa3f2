"""How Slack tells an app what happens: over its sockets, or as signed requests; and again when it is not acknowledged in time."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import aiohttp

if TYPE_CHECKING:
    from tests.peers.relay import Socket

ATTEMPTS = 3
SOON = 0.02
"""Seconds between offers of a request that was refused; Slack waits longer: it asks at once, after a minute and after five."""
_OK = 200
Hook = Callable[[bytes, dict[str, str]], Awaitable[tuple[int, bytes]]]
"""What takes a request: its raw body and headers. Returns the status and the body of the answer."""


@dataclass
class Envelope:
    """``kind`` is that of Socket Mode: events_api, interactive or slash_commands. Only events are offered again."""

    id: str
    payload: dict[str, Any]
    kind: str = "events_api"
    attempt: int = 0
    reason: str = ""


@dataclass
class Delivery:
    """What is on its way. ``hook``, when set, is where requests go, as an address or as a function; else sockets are used."""

    ack_seconds: Callable[[], float]
    signing_secret: str
    changed: Callable[[], Awaitable[None]]
    hook: str | Hook | None = None
    waiting: dict[str, Envelope] = field(default_factory=dict)
    given_up: list[str] = field(default_factory=list)
    answers: list[tuple[str, int, str]] = field(default_factory=list)
    responses: list[dict[str, Any]] = field(default_factory=list)
    skew: float = 0
    """Seconds by which the clock of the signatures goes wrong."""

    def __post_init__(self) -> None:
        self.sockets: list[Socket] = []
        self._ids = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    async def offer(
        self, payload: dict[str, Any], kind: str = "events_api", attempt: int = 0, reason: str = "", held: float = 0.0
    ) -> None:
        """Tell the app of something, ``held`` seconds from now: Slack promises no order."""
        envelope = Envelope(f"env-{next(self._ids)}", payload, kind, attempt, reason)
        self.waiting[envelope.id] = envelope
        if held:
            self._later(self._send_in(held, envelope))
        else:
            await self.send(envelope)

    async def _send_in(self, seconds: float, envelope: Envelope) -> None:
        await asyncio.sleep(seconds)
        if envelope.id in self.waiting:
            await self.send(envelope)

    async def send(self, envelope: Envelope) -> None:
        if self.hook is not None:
            self._later(self._request(envelope))
        elif self.sockets:
            await self._frame(envelope)

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def acknowledged(self, answer: dict[str, Any]) -> bool:
        """Note what came back over a socket. Returns False for what was never sent."""
        envelope = self.waiting.pop(answer.get("envelope_id", ""), None)
        if envelope is None:
            return False
        if "payload" in answer:
            self.responses.append(answer["payload"])
        return True

    # -- over a socket -----------------------------------------------------------------------------------------------

    async def _frame(self, envelope: Envelope) -> None:
        frame = {
            "type": envelope.kind,
            "envelope_id": envelope.id,
            "payload": envelope.payload,
            "accepts_response_payload": envelope.kind != "events_api",
            "retry_attempt": envelope.attempt,
            "retry_reason": envelope.reason,
        }
        try:
            await self.sockets[-1].send_str(json.dumps(frame))
        except ConnectionError:
            return
        self._later(self._expire(envelope))

    async def _expire(self, envelope: Envelope) -> None:
        await asyncio.sleep(self.ack_seconds())
        await self._again(envelope, "timeout")

    async def _again(self, envelope: Envelope, reason: str) -> None:
        """Offer an envelope again that was not acknowledged in time, under a new name, and give it up at last."""
        if self.waiting.pop(envelope.id, None) is None:
            return
        if envelope.attempt >= ATTEMPTS or envelope.kind != "events_api":
            self.given_up.append(envelope.id)
        else:
            await self.offer(envelope.payload, envelope.kind, envelope.attempt + 1, reason)
        await self.changed()

    # -- as a request ------------------------------------------------------------------------------------------------

    def signed(self, envelope: Envelope) -> tuple[bytes, dict[str, str]]:
        """Return a request's raw body and headers."""
        match envelope.kind:
            case "interactive":
                body, kind = urlencode({"payload": json.dumps(envelope.payload)}), "application/x-www-form-urlencoded"
            case "slash_commands":
                body, kind = urlencode(envelope.payload), "application/x-www-form-urlencoded"
            case _:
                body, kind = json.dumps(envelope.payload), "application/json"
        stamp = str(int(time.time() + self.skew) + envelope.attempt)  # a later attempt is signed anew
        digest = hmac.new(self.signing_secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
        headers = {"content-type": kind, "x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={digest}"}
        if envelope.attempt:
            headers |= {"x-slack-retry-num": str(envelope.attempt), "x-slack-retry-reason": envelope.reason}
        return body.encode(), headers

    async def _request(self, envelope: Envelope) -> None:
        body, headers = self.signed(envelope)
        try:
            async with asyncio.timeout(self.ack_seconds()):
                status, answer = await self._posted(body, headers)
        except TimeoutError:
            await self._again(envelope, "http_timeout")
            return
        except aiohttp.ClientError:
            await self._again(envelope, "connection_failed")
            return
        self.answers.append((envelope.kind, status, answer.decode()))
        if status != _OK:
            await asyncio.sleep(SOON * envelope.attempt)
            await self._again(envelope, "http_error")
        elif self.waiting.pop(envelope.id, None) is not None:
            if answer:
                self.responses.append(json.loads(answer) if answer.startswith(b"{") else {"text": answer.decode()})
            await self.changed()

    async def _posted(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        if callable(self.hook):
            return await self.hook(body, headers)
        assert self.hook is not None
        async with aiohttp.ClientSession() as session, session.post(self.hook, data=body, headers=headers) as answer:
            return answer.status, await answer.read()

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
