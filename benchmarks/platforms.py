"""Measures a channel against its peer on loopback, with the platform's limits off.

    PYTHONPATH=. python benchmarks/platforms.py --channel telegram
    PYTHONPATH=. python benchmarks/platforms.py --channel telegram --messages 2000 --chats 100

Another platform is added by a class with the methods of ``Telegram`` and a row in ``PLATFORMS``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import time

from channels.conformance import RecordingDoor
from channels.messages import Conversation, Outbound
from gateway.clock import SystemClock

FIRST = 5000


class Telegram:
    """The peer runs in this process, so that it can be watched; its share of the time counts too."""

    async def __aenter__(self):
        from channels.telegram.channel import TelegramChannel
        from channels.telegram.settings import TelegramSettings
        from tests.peers.telegram import TOKEN, TelegramPeer

        self.peer = await TelegramPeer().__aenter__()
        given = {"botToken": TOKEN, "apiRoot": self.peer.root, "pacing": False}
        self.channel = TelegramChannel(TelegramSettings.model_validate(given), "default", clock=SystemClock())
        return self

    async def __aexit__(self, *_):
        await self.channel.close()
        await self.peer.__aexit__()

    async def say(self, person: int, text: str) -> None:
        await self.peer.say(person, text)

    def typed(self) -> int:
        return len(self.peer.chats.actions)

    async def until_typed(self, count: int) -> None:
        await self.peer.until(lambda: self.typed() >= count)

    def heard(self) -> int:
        return sum(len(self.peer.chats.said(chat)) for chat in self.peer.chats.messages)

    def place(self, person: int) -> Conversation:
        return Conversation(channel="telegram", kind="direct", id=str(person))


class Discord:
    """The peer runs in this process, as Telegram's does."""

    async def __aenter__(self):
        from channels.discord.channel import DiscordChannel
        from channels.discord.settings import DiscordSettings
        from tests.peers.discord import TOKEN, DiscordPeer

        self.peer = await DiscordPeer().__aenter__()
        given = {"token": TOKEN, "apiRoot": self.peer.root, "gatewayUrl": self.peer.gateway}
        self.channel = DiscordChannel(DiscordSettings.model_validate(given), "default", clock=SystemClock())
        return self

    async def __aexit__(self, *_):
        await self.channel.close()
        await self.peer.__aexit__()

    async def say(self, person: int, text: str) -> None:
        await self.peer.say(str(person), text)

    def typed(self) -> int:
        return len(self.peer.typed)

    async def until_typed(self, count: int) -> None:
        await self.peer.until(lambda: self.typed() >= count)

    def heard(self) -> int:
        return sum(len(self.peer.said(place)) for place in self.peer.channels.values())

    def place(self, person: int) -> Conversation:
        return Conversation(channel="discord", kind="direct", id=str(person))


PLATFORMS = {"discord": Discord, "telegram": Telegram}


class TypingDoor(RecordingDoor):
    """A house that shows typing as soon as it has a message, as ours does when a turn begins."""

    def __init__(self, channel) -> None:
        super().__init__()
        self._channel = channel
        self.types = True
        self._tasks = set()

    async def accept(self, messages, cursor=None) -> None:
        await super().accept(messages, cursor)
        for message in messages if self.types else ():
            task = asyncio.create_task(self._channel.typing(message.conversation))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


def say(name: str, figure: str, bar: str = "") -> None:
    print(f"{name:60} {figure:>24}   {bar}")


async def typing(stage, count: int) -> None:
    took = []
    for number in range(count):
        began, before = time.perf_counter(), stage.typed()
        await stage.say(FIRST, f"message {number}")
        await stage.until_typed(before + 1)
        took.append(1000 * (time.perf_counter() - began))
    took.sort()
    figures = f"p50 {statistics.median(took):.1f}, p95 {took[int(len(took) * 0.95)]:.1f} ms"
    say(f"written to typing shown, {count} messages", figures, "p50 at most 30 ms")


async def receiving(stage, door, messages: int, chats: int) -> None:
    door.types = False
    before, began = len(door.messages), time.perf_counter()
    for number in range(messages):
        await stage.say(FIRST + number % chats, f"message {number}")
    await door.until(lambda: len(door.messages) >= before + messages, "all were taken in")
    say(f"{messages} messages of {chats} chats taken in", f"{messages / (time.perf_counter() - began):.0f}/s")


async def sending(stage, messages: int, chats: int, parallel: int = 8) -> None:
    queue = list(range(messages))
    began = time.perf_counter()

    async def record(_: str) -> None: ...

    async def worker() -> None:
        while queue:
            number = queue.pop()
            text = f"**answer** {number} to <you>"
            await stage.channel.send(
                Outbound(key=f"k{number}", conversation=stage.place(FIRST + number % chats), text=text), record
            )

    await asyncio.gather(*(worker() for _ in range(parallel)))
    say(
        f"{stage.heard()} answers to {chats} chats, {parallel} at once",
        f"{messages / (time.perf_counter() - began):.0f}/s",
        "at least 100/s",
    )


async def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--channel", choices=PLATFORMS, default="telegram")
    options.add_argument("--messages", type=int, default=1000)
    options.add_argument("--chats", type=int, default=100)
    given = options.parse_args()
    async with PLATFORMS[given.channel]() as stage:
        door = TypingDoor(stage.channel)
        running = asyncio.ensure_future(stage.channel.run(door))
        await door.is_ready.wait()
        await typing(stage, 100)
        await receiving(stage, door, given.messages, given.chats)
        await sending(stage, given.messages, given.chats)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


asyncio.run(main())
