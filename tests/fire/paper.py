"""A chat platform in memory that outlives every house: it offers again what was not acknowledged, loses answers, and asks to wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from channels.errors import NotSent, Uncertain
from channels.messages import ChatAddress, Inbound, Sender, Sent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from channels.messages import Outbound
    from channels.protocol import InboundSink

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLACE = ChatAddress(channel="paper", kind="direct", id="anna")


@dataclass
class Shown:
    """What the person sees. ``marked``: it says itself that it may be a repeat."""

    text: str
    marked: bool


@dataclass
class Platform:
    """``keyed``: it recognises a message that was sent before by its key. ``troubles`` wait for the next sends, the last one first."""

    keyed: bool
    shown: list[Shown] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    queue: list[Inbound] = field(default_factory=list)
    forgetful: bool = False
    """Forgets what it hands out, as if it had been acknowledged at once: what a house does that acknowledges too early."""
    said: int = 0
    _keys: set[str] = field(default_factory=set)

    def message(self, text: str) -> Inbound:
        self.said += 1
        number = str(self.said)
        sender = Sender(id="anna", name="Anna")
        return Inbound(
            conversation=PLACE,
            sender=sender,
            text=text,
            at=NOON,
            key=f"u:{number}",
            alias=f"m:{number}",
            message_id=number,
            mentioned=True,
        )

    def take(self, outbound: Outbound) -> None:
        """Show a message, or meet with trouble before or after that."""
        trouble = self.troubles.pop() if self.troubles else ""
        if trouble == "429":
            raise NotSent("slow down", retry_after=3)
        if not (self.keyed and outbound.key in self._keys):
            self._keys.add(outbound.key)
            self.shown.append(Shown(outbound.text, marked=outbound.uncertain and not self.keyed))
        if trouble == "lost":
            raise Uncertain("the answer was lost")


class Line:
    """The channel of one house to the platform. Once ``dead``, nothing of its house reaches anybody any more."""

    name = "paper"
    account = "default"

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self.repeats_safely = platform.keyed
        self.dead = False
        self._door: asyncio.Future[InboundSink] = asyncio.get_running_loop().create_future()

    async def run(self, door: InboundSink) -> None:
        self._door.set_result(door)
        door.ready()
        await asyncio.get_running_loop().create_future()

    async def offer(self) -> None:
        """Hand in what the platform has, one by one; what is not acknowledged stays."""
        door = await self._door
        while self._platform.queue and not self.dead:
            first = self._platform.queue[0]
            if self._platform.forgetful:
                self._platform.queue.remove(first)
            await door.accept([first])
            if not self.dead and not self._platform.forgetful:
                self._platform.queue.remove(first)

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        del record
        if not self.dead:
            self._platform.take(outbound)
        if self.dead:
            await asyncio.get_running_loop().create_future()
        return Sent(platform_id=outbound.key)

    def chunks(self, markdown: str) -> list[str]:
        return [markdown] if markdown.strip() else []

    async def typing(self, conversation: ChatAddress) -> None:
        del conversation

    async def close(self) -> None:
        return
