"""A Discord channel against the peer, with a house of paper behind it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from channels.discord.channel import DiscordChannel
from channels.discord.settings import DiscordSettings
from channels.messages import ChatAddress, Outbound
from tests.patience import PATIENCE
from tests.peers.discord import TOKEN, DiscordPeer
from tests.peers.door import BookDoor
from tests.peers.hasty import FastClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from channels.messages import Inbound

ANNA = "700000000000000042"
BEN = "700000000000000043"
GUILD = "800000000000000007"
POST = "POST channels/*/messages"
DIRECT = ChatAddress(channel="discord", kind="direct", id=ANNA)


class Log:
    """Keeps what was logged."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self._news = asyncio.Event()

    def info(self, event: str, **facts: Any) -> None:
        self.lines.append((event, facts))
        self._news.set()

    warning = info

    def told(self, part: str) -> dict[str, Any]:
        """Return the facts of the line that says this; fails when none does."""
        return next(facts for event, facts in self.lines if part in event)

    async def until(self, part: str) -> dict[str, Any]:
        """Wait for that line."""
        async with asyncio.timeout(PATIENCE):
            while not any(part in event for event, _ in self.lines):
                self._news.clear()
                await self._news.wait()
        return self.told(part)


class PresentClock(FastClock):
    """Sleeps as hastily, and began now: the peer's ids carry the time."""

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.monotonic())


class Line:
    """A channel against a peer."""

    def __init__(
        self, peer: DiscordPeer, cursors: dict[str, str] | None = None, *, clock: PresentClock | None = None, **settings: Any
    ) -> None:
        self.peer = peer
        self.door = BookDoor(cursors)
        self.clock = clock or PresentClock()
        self.log = Log()
        self.recorded: list[str] = []
        given = {"token": TOKEN, "apiRoot": peer.root, "gatewayUrl": peer.gateway, "timeoutSeconds": 2, **settings}
        self.channel = DiscordChannel(
            DiscordSettings.model_validate(given), "default", clock=self.clock, log=self.log, random=lambda: 1.0
        )

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

    async def taken(self, event: str = "message") -> Inbound:
        """Wait for the first event of a kind, and return it."""
        await self.door.until(lambda: any(one.event == event for one in self.door.messages))
        return next(one for one in self.door.messages if one.event == event)

    async def untroubled(self) -> None:
        """Wait until the channel has read what it could not: where nothing new was found, no accept tells of that."""
        async with asyncio.timeout(PATIENCE):
            while self.channel.trouble:  # noqa: ASYNC110 - a property tells nobody
                await asyncio.sleep(0.001)

    async def send(self, text: str, *, to: ChatAddress | None = None, key: str = "k1", **more: Any) -> str:
        async def record(noted: str) -> None:
            self.recorded.append(noted)

        return (await self.channel.send(Outbound(key=key, conversation=to or DIRECT, text=text, **more), record)).platform_id
