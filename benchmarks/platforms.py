"""Measures a channel, and a whole house with an instant model behind it, against the platform's peer on loopback, limits off.

    PYTHONPATH=. python benchmarks/platforms.py --channel telegram
    PYTHONPATH=. python benchmarks/platforms.py --channel slack --messages 2000 --chats 100

Another platform is added by a class with the methods of ``Telegram`` and a row in ``PLATFORMS``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from pathlib import Path

from agent.models.scripted import ScriptedModel
from channels.messages import ChatAddress, Outbound
from channels.testing import RecordingSink
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings

FIRST = 5000
PATIENCE = 300


class Telegram:
    """The peer runs in this process, so that it can be watched; its share of the time counts too."""

    async def __aenter__(self):
        from channels.telegram.channel import TelegramChannel
        from channels.telegram.settings import TelegramSettings
        from tests.peers.telegram import TOKEN, TelegramPeer

        self.peer = await TelegramPeer().__aenter__()
        self.given = {"botToken": TOKEN, "apiRoot": self.peer.root, "pacing": False, "dmPolicy": "open", "allowFrom": ["*"]}
        self.channel = TelegramChannel(TelegramSettings.model_validate(self.given), "default", clock=SystemClock())
        return self

    async def __aexit__(self, *_):
        await self.channel.close()
        await self.peer.__aexit__()

    async def say(self, person: int, text: str) -> None:
        await self.peer.say(person, text)

    say_where_typing_shows = say

    def said(self, person: int) -> list[str]:
        return self.peer.chats.said(person)

    def typed(self) -> int:
        return len(self.peer.chats.actions)

    async def until_typed(self, count: int) -> None:
        await self.peer.until(lambda: self.typed() >= count)

    def heard(self) -> int:
        return sum(len(self.peer.chats.said(chat)) for chat in self.peer.chats.messages)

    def place(self, person: int) -> ChatAddress:
        return ChatAddress(channel="telegram", kind="direct", id=str(person))


class Discord:
    """The peer runs in this process, as Telegram's does."""

    async def __aenter__(self):
        from channels.discord.channel import DiscordChannel
        from channels.discord.settings import DiscordSettings
        from tests.peers.discord import TOKEN, DiscordPeer

        self.peer = await DiscordPeer().__aenter__()
        self.given = {"token": TOKEN, "apiRoot": self.peer.root, "gatewayUrl": self.peer.gateway}
        self.given["dm"] = {"policy": "open", "allowFrom": ["*"]}
        self.channel = DiscordChannel(DiscordSettings.model_validate(self.given), "default", clock=SystemClock())
        return self

    async def __aexit__(self, *_):
        await self.channel.close()
        await self.peer.__aexit__()

    async def say(self, person: int, text: str) -> None:
        await self.peer.say(str(person), text)

    say_where_typing_shows = say

    def said(self, person: int) -> list[str]:
        return self.peer.said(self.peer.dm(str(person)))

    def typed(self) -> int:
        return len(self.peer.typed)

    async def until_typed(self, count: int) -> None:
        await self.peer.until(lambda: self.typed() >= count)

    def heard(self) -> int:
        return sum(len(self.peer.said(place)) for place in self.peer.channels.values())

    def place(self, person: int) -> ChatAddress:
        return ChatAddress(channel="discord", kind="direct", id=str(person))


class Slack:
    """The peer runs in this process, as Telegram's does. Typing is shown in threads alone."""

    async def __aenter__(self):
        from channels.slack.channel import SlackChannel
        from channels.slack.settings import SlackSettings
        from tests.peers.slack import SlackPeer

        self.peer = await SlackPeer(ack_seconds=30).__aenter__()
        tokens = {"botToken": self.peer.bot_token, "appToken": self.peer.app_token}
        self.given = {**tokens, "apiRoot": self.peer.root, "dm": {"policy": "open", "allowFrom": ["*"]}, "channels": {ROOM: {}}}
        self.channel = SlackChannel(SlackSettings.model_validate(self.given), "default", clock=SystemClock())
        self._root = ""
        return self

    async def __aexit__(self, *_):
        await self.channel.close()
        await self.peer.__aexit__()

    async def say(self, person: int, text: str) -> None:
        await self.peer.say(f"U{person:08d}", text)

    async def say_where_typing_shows(self, person: int, text: str) -> None:
        stamp = await self.peer.say(f"U{person:08d}", text, channel=ROOM, thread=self._root)
        self._root = self._root or stamp

    def said(self, person: int) -> list[str]:
        return self.peer.said(self.peer.dm(f"U{person:08d}"))

    def typed(self) -> int:
        return len(self.peer.statuses)

    async def until_typed(self, count: int) -> None:
        await self.peer.until(lambda: self.typed() >= count)

    def heard(self) -> int:
        return sum(len(self.peer.said(place)) for place in self.peer.people.values())

    def place(self, person: int) -> ChatAddress:
        return ChatAddress(channel="slack", kind="direct", id=self.peer.dm(f"U{person:08d}"))


class Email:
    """A real dovecot, and a real SMTP server in this process. Each person writes in one thread. Nothing shows typing."""

    async def __aenter__(self):
        from channels.email.channel import EmailChannel
        from channels.email.settings import EmailSettings
        from tests.fire.mailbox import WatchedMail, dovecot
        from tests.fire.platforms import nobody

        self.peer = await WatchedMail().__aenter__()
        self.peer.watcher = nobody
        people = {"dmPolicy": "open", "allowFrom": ["*"], "mostPerMinute": 10_000}
        self.given = {**self.peer.settings(), **people}
        self.given["imap"]["port"] = dovecot().port
        self.channel = EmailChannel(EmailSettings.model_validate(self.given), "default", clock=SystemClock())
        return self

    async def __aexit__(self, *_):
        await self.channel.close()
        await self.peer.__aexit__()

    async def say(self, person: int, text: str) -> None:
        await self.peer.write(_address(person), text)

    def said(self, person: int) -> list[str]:
        return self.peer.shown(_address(person))

    def heard(self) -> int:
        return len(self.peer.taken)

    def place(self, person: int) -> ChatAddress:
        return ChatAddress(channel="email", kind="direct", id=_address(person))


def _address(person: int) -> str:
    return f"p{person}@example.org"


class WhatsApp:
    """The peer runs in this process, as Telegram's does. It calls the gateway, at ``hook``."""

    async def __aenter__(self):
        from channels.protocol import HookRequest
        from channels.whatsapp.channel import WhatsAppChannel
        from channels.whatsapp.settings import WhatsAppSettings
        from tests.peers.whatsapp import APP_SECRET, NUMBER_ID, TOKEN, WhatsAppPeer

        self.peer = await WhatsAppPeer().__aenter__()
        self.given = {"phoneNumberId": NUMBER_ID, "accessToken": TOKEN, "appSecret": APP_SECRET, "apiRoot": self.peer.root}
        self.given |= {"dmPolicy": "open", "allowFrom": ["*"]}
        self.channel = WhatsAppChannel(WhatsAppSettings.model_validate(self.given), "default", clock=SystemClock())

        async def called(method: str, query: str, headers: dict, body: bytes) -> tuple[int, bytes]:
            answer = await self.channel.hear(HookRequest(method=method, query=query, headers=headers, body=body))
            return answer.status, answer.body

        self.peer.call_at(called)
        return self

    async def __aexit__(self, *_):
        await self.peer.__aexit__()

    def call_at(self, port: int) -> None:
        self.peer.call_at(f"http://127.0.0.1:{port}/hooks/whatsapp/default")

    async def say(self, person: int, text: str) -> None:
        await self.peer.say(f"4915100{person:05d}", text)

    say_where_typing_shows = say

    def said(self, person: int) -> list[str]:
        return self.peer.said(f"4915100{person:05d}")

    def typed(self) -> int:
        return len(self.peer.seen)

    async def until_typed(self, count: int) -> None:
        await self.peer.until(lambda: self.typed() >= count)

    def heard(self) -> int:
        return sum(len(self.peer.said(place)) for place in self.peer.home.chats)

    def place(self, person: int) -> ChatAddress:
        return ChatAddress(channel="whatsapp", kind="direct", id=f"4915100{person:05d}")


class Matrix:
    """The light homeserver runs in this process, as Telegram's peer does. Rooms are plain: it knows no keys."""

    async def __aenter__(self):
        from channels.matrix.channel import MatrixChannel
        from channels.matrix.settings import MatrixSettings
        from tests.peers.matrix import TOKEN, MatrixPeer
        from tests.peers.matrix_state import BOT

        self.peer = await MatrixPeer().__aenter__()
        self.given = {"homeserver": self.peer.root, "userId": BOT, "accessToken": TOKEN, "encryption": False, "syncSeconds": 5}
        self.given["dm"] = {"policy": "open", "allowFrom": ["*"]}
        self._rooms = {}
        self._state = tempfile.TemporaryDirectory()
        self.channel = MatrixChannel(
            MatrixSettings.model_validate(self.given), "default", clock=SystemClock(), state=Path(self._state.name)
        )
        return self

    async def __aexit__(self, *_):
        await self.channel.close()
        await self.peer.__aexit__()
        self._state.cleanup()

    def room(self, person: int):
        if person not in self._rooms:
            self._rooms[person] = self.peer.home.made(self._person(person), direct=True)
        return self._rooms[person]

    def _person(self, person: int) -> str:
        return f"@p{person}:test.local"

    async def say(self, person: int, text: str) -> None:
        await self.peer.say(self.room(person), self._person(person), text)

    say_where_typing_shows = say

    def said(self, person: int) -> list[str]:
        return self.peer.said(self.room(person))

    def typed(self) -> int:
        return sum(len(room.typing) for room in self._rooms.values())

    async def until_typed(self, count: int) -> None:
        await self.peer.until(lambda: self.typed() >= count)

    def heard(self) -> int:
        return sum(len(self.peer.said(room)) for room in self._rooms.values())

    def place(self, person: int) -> ChatAddress:
        self.room(person)
        return ChatAddress(channel="matrix", kind="direct", id=self._person(person))


ROOM = "CROOM0001"
PLATFORMS = {"discord": Discord, "email": Email, "matrix": Matrix, "slack": Slack, "telegram": Telegram, "whatsapp": WhatsApp}


class TypingDoor(RecordingSink):
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
    await stage.say_where_typing_shows(FIRST, "the first one warms up, and may begin a thread")
    await asyncio.sleep(1)
    for number in range(count):
        began, before = time.perf_counter(), stage.typed()
        await stage.say_where_typing_shows(FIRST, f"message {number}")
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
    rate = messages / (time.perf_counter() - began)
    texts = [(one.conversation.id, int(one.text.split()[1])) for one in door.messages[before:]]
    held = all(
        numbers == sorted(numbers) for chat in {chat for chat, _ in texts} for numbers in [[n for c, n in texts if c == chat]]
    )
    say(f"{messages} messages of {chats} chats taken in", f"{rate:.0f}/s, {'in order' if held else 'OUT OF ORDER'}")


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


async def through_a_house(name: str, messages: int, chats: int) -> None:
    """Write everything at once, and wait until each message has its answer."""
    async with PLATFORMS[name]() as stage:
        with tempfile.TemporaryDirectory() as folder:
            given = {
                "agents": {"defaults": {"workspace": f"{folder}/workspace", "model": "scripted/model"}},
                "channels": {name: stage.given},
                "messages": {"queue": {"mode": "followup"}},
                "gateway": {"port": 0},
                "logging": {"consoleLevel": "error"},
            }
            paths = Paths(Path(folder) / "home")
            house = await Gateway.open(
                Dependencies(settings=Settings.model_validate(given), paths=paths, env={}, clock=SystemClock(), serving=True)
            )
            house.model_registry.put(
                "scripted/model", ScriptedModel(lambda request: request.messages[-1].text.splitlines()[-1])
            )
            running = asyncio.ensure_future(house.run())
            while not stage.said(FIRST - 1):  # who is not connected yet is told nothing on some platforms
                await stage.say(FIRST - 1, "warm up")
                await asyncio.sleep(0.5)
            began, worked = time.perf_counter(), time.process_time()
            for number in range(messages):
                await stage.say(FIRST + number % chats, f"message {number}")
            people = range(FIRST, FIRST + chats)

            def answers(person: int) -> list[str]:
                return [said for said in stage.said(person) if not said.startswith("⏳")]  # how many are ahead is told once

            while (  # noqa: ASYNC110 - the same
                sum(len(answers(person)) for person in people) < messages and time.perf_counter() - began < PATIENCE
            ):
                await asyncio.sleep(0.05)
            took, worked = time.perf_counter() - began, 1000 * (time.process_time() - worked) / messages
            lost = messages - sum(len(answers(person)) for person in people)
            wrong = sum(
                answers(person) != [f"message {number}" for number in range(person - FIRST, messages, chats)]
                for person in people
            )
            say(
                f"{messages} messages of {chats} chats answered by a house",
                f"{messages / took:.0f}/s ({worked:.1f} ms of CPU each, peer and all), {lost} lost, {wrong} chats out of order",
                "at least 100/s, none, none",
            )
            house.stop()
            await running
            await house.close()


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
        if hasattr(stage, "typed"):
            await typing(stage, 100)
        await receiving(stage, door, given.messages, given.chats)
        await sending(stage, given.messages, given.chats)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
    await through_a_house(given.channel, given.messages, given.chats)


if __name__ == "__main__":
    asyncio.run(main())
