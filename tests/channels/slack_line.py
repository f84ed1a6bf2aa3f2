"""A Slack channel against the peer, with a house of paper behind it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from channels.messages import ChatAddress, Outbound
from channels.protocol import HookRequest
from channels.slack.channel import SlackChannel
from channels.slack.settings import SlackSettings
from tests.peers.door import BookDoor
from tests.peers.hasty import FastClock
from tests.peers.slack import APP_TOKEN, BOT, BOT_TOKEN, SIGNING_SECRET, SlackPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime

ANNA = "UANNA0001"
BEN = "UBEN00001"
ROOM = "CROOM0001"
POST = "chat.postMessage"
DIRECT = ChatAddress(channel="slack", kind="direct", id=ANNA)


class PunctualClock(FastClock):
    """Sleeps as hastily, but knows what time it is: a signature has to."""

    def now(self) -> datetime:
        from gateway.base.clock import SystemClock

        return SystemClock().now()


class Log:
    """Keeps what was logged."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **facts: Any) -> None:
        self.lines.append((event, facts))

    warning = info

    def told(self, part: str) -> bool:
        return any(part in event for event, _ in self.lines)


class Line:
    """A channel against a peer. ``http`` has Slack call the channel, with nothing in between but the request."""

    def __init__(
        self,
        peer: SlackPeer,
        cursors: dict[str, str] | None = None,
        *,
        http: bool = False,
        clock: FastClock | None = None,
        **settings: Any,
    ) -> None:
        self.peer = peer
        self.door = BookDoor(cursors)
        self.clock: FastClock = clock or (PunctualClock() if http else FastClock())
        self.recorded: list[str] = []
        self.log = Log()
        given = {"botToken": BOT_TOKEN, "apiRoot": peer.root, "timeoutSeconds": 2, "pingSeconds": 0.5}
        given |= {"mode": "http", "signingSecret": SIGNING_SECRET} if http else {"appToken": APP_TOKEN}
        found = SlackSettings.model_validate({**given, **settings})
        self.channel = SlackChannel(found, "default", clock=self.clock, log=self.log, random=lambda: 1.0)
        if http:
            peer.call_at(self.request)

    async def request(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        answer = await self.channel.hear(HookRequest(method="POST", query="", headers=headers, body=body))
        return answer.status, answer.body

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        ready = asyncio.ensure_future(self.door.until_ready())
        task = asyncio.ensure_future(self.channel.run(self.door))
        try:
            await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
            yield task
        finally:
            task.cancel()
            ready.cancel()
            await asyncio.gather(task, ready, return_exceptions=True)

    async def record(self, noted: str) -> None:
        self.recorded.append(noted)

    async def send(self, text: str, *, to: ChatAddress = DIRECT, key: str = "k1", **more: Any) -> str:
        return (await self.channel.send(Outbound(key=key, conversation=to, text=text, **more), self.record)).platform_id

    async def quiet(self) -> None:
        """Wait until everything that happened was acknowledged."""
        await self.peer.until(lambda: not self.peer.waiting)

    async def heard(self, condition: Callable[[], bool]) -> None:
        await self.door.until(condition)


def shown(peer: SlackPeer, channel: str = "") -> list[dict[str, Any]]:
    """Return the app's messages in a channel, or in Anna's private one."""
    return [one for one in peer.messages.get(channel or peer.dm(ANNA), []) if one["user"] == BOT]
