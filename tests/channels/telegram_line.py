"""A Telegram channel against the peer, with a house that keeps what it hears and a clock that passes by sleeping."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from channels.messages import ChatAddress, Inbound, Outbound
from channels.telegram.channel import TelegramChannel
from channels.telegram.settings import TelegramSettings
from tests.peers.door import BookDoor
from tests.peers.hasty import FastClock
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ANNA = 42
BEN = 43
FAMILY = -1001234567890
PRIVATE = ChatAddress(channel="telegram", kind="direct", id=str(ANNA))
GROUP = ChatAddress(channel="telegram", kind="group", id=str(FAMILY))


class Notes:
    """A log that keeps what it was told."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def info(self, event: str, **facts: Any) -> None:
        self.events.append(f"{event} {facts}")

    def warning(self, event: str, **facts: Any) -> None:
        self.events.append(f"{event} {facts}")


class Line:
    """A channel against a peer."""

    def __init__(self, peer: TelegramPeer, *, clock: FastClock | None = None, **settings: Any) -> None:
        self.peer = peer
        self.door = BookDoor()
        self.clock = clock or FastClock()
        self.log = Notes()
        self.recorded: str | None = None
        given = {"botToken": TOKEN, "apiRoot": peer.root, "pollTimeoutSeconds": 5, "timeoutSeconds": 5, **settings}
        self.channel = TelegramChannel(
            TelegramSettings.model_validate(given), "default", clock=self.clock, log=self.log, random=lambda: 1.0
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.ensure_future(self.channel.run(self.door))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Run, and begin once the peer knows what kinds of update are wanted."""
        async with self.running():
            await self.peer.until(lambda: self.peer.asked)
            yield

    async def send(self, text: str, to: ChatAddress = PRIVATE, *, key: str = "k1", **more: Any) -> str:
        """Send as the outbox does; an attempt that is not the first knows what was recorded."""
        self.recorded = self.recorded if more.get("attempt", 1) > 1 else None
        outbound = Outbound(key=key, conversation=to, text=text, recorded=self.recorded, **more)
        return (await self.channel.send(outbound, self.record)).platform_id

    async def record(self, text: str) -> None:
        self.recorded = text

    async def heard(self, count: int = 1) -> list[Inbound]:
        """Wait for as many messages, and return them."""
        await self.door.until(lambda: len(self.door.messages) >= count)
        return self.door.messages


@asynccontextmanager
async def opened(**settings: Any) -> AsyncIterator[Line]:
    """A channel with these settings against a peer of its own, in which Anna wrote before."""
    async with TelegramPeer() as peer:
        peer.chats.hear(ANNA, "hi", name="Anna")
        line = Line(peer, **settings)
        try:
            yield line
        finally:
            await line.channel.close()
