"""Receiving from Discord: events in their order, and by REST what was written while nobody listened.

Discord never asks whether a message was stored. So the newest message taken from each channel is the cursor, and after every
connection the channels are read on from there, before anything is said to be ready. Importing this module loads the library.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any

import discord

from channels.discord.client import TROUBLE, Link
from channels.discord.inbound import Place, inbound, place_of
from channels.messages import Cursor
from channels.reading import CURSOR, ReadingMarks

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.clock import Clock
    from channels.discord.settings import DiscordAccount
    from channels.log import Log
    from channels.messages import Inbound
    from channels.protocol import Door

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
PAGE = 100
_MESSAGE = "MESSAGE_CREATE"
_CONNECTED = {"READY", "RESUMED"}
_QUEUED = {_MESSAGE, *_CONNECTED, "GUILD_CREATE"}


class Receiver:
    """One bot's ear. ``dms`` is filled with the private channel of each person who was heard."""

    def __init__(
        self,
        settings: DiscordAccount,
        account: str,
        *,
        door: Door,
        clock: Clock,
        random: Callable[[], float],
        log: Log,
        dms: dict[str, str],
    ) -> None:
        self._settings = settings
        self._account = account
        self._door = door
        self._clock = clock
        self._random = random
        self._log = log
        self._dms = dms
        self._events: deque[tuple[str, dict[str, Any]]] = deque()
        self._news = asyncio.Event()
        self._marks = ReadingMarks(int)
        self._places: dict[str, Place] = {}
        self._failures = 0
        self.link = Link(settings, self._heard)

    async def run(self) -> None:
        """Listen until cancelled or the connection ends. Raises ChannelBroken, or one of ``TROUBLE``."""
        self._marks = ReadingMarks(int, await self._door.cursor(CURSOR))
        tasks = [asyncio.ensure_future(self.link.listen()), asyncio.ensure_future(self._work())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _heard(self, name: str, content: dict[str, Any]) -> None:
        self._door.alive()
        match name:
            case "GUILD_CREATE":
                for channel in [*content.get("channels", ()), *content.get("threads", ())]:
                    self._seen({**channel, "guild_id": content["id"]})
            case "CHANNEL_CREATE" | "THREAD_CREATE":
                self._seen(content)
            case "ERROR":
                self._log.warning("an event could not be read", account=self._account, **content)
        if name in _QUEUED:
            self._events.append((name, content))
            self._news.set()

    def _seen(self, channel: dict[str, Any]) -> None:
        """Learn of a channel; from its newest message on, nothing in it will be missed."""
        place = place_of(channel)
        self._places[place.id] = place
        if self._reads(place) and place.id not in self._marks.all():
            self._marks.note(place.id, str(channel.get("last_message_id") or place.id))

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            name = self._events[0][0]
            if name == _MESSAGE:
                await self._take(self._batch())
            else:
                self._events.popleft()
                if name in _CONNECTED:
                    await self._catch_up()
                    self._door.ready()
                else:
                    await self._store([])
            if not self._events:
                self._news.clear()

    def _batch(self) -> list[dict[str, Any]]:
        batch: list[dict[str, Any]] = []
        while self._events and self._events[0][0] == _MESSAGE and len(batch) < PAGE:
            batch.append(self._events.popleft()[1])
        return batch

    async def _catch_up(self) -> None:
        """Read on, in every channel that was read before."""
        for channel, mark in self._marks.all().items():
            await self._read_on(channel, mark)

    async def _read_on(self, channel: str, mark: str) -> None:
        while True:
            try:
                place = self._places.get(channel) or place_of(dict(await self.link.http.get_channel(int(channel))))
                self._places[channel] = place
                page = await self.link.http.logs_from(int(channel), PAGE, after=int(mark)) if self._reads(place) else []
            except (discord.Forbidden, discord.NotFound):
                self._marks.forget(channel)
                return
            except TROUBLE as error:
                await self._pause("a channel could not be read on", error)
                continue
            found: list[dict[str, Any]] = sorted(map(dict, page), key=lambda one: int(one["id"]))
            await self._take(found)
            if len(found) < PAGE:
                return
            mark = str(found[-1]["id"])

    async def _take(self, batch: list[dict[str, Any]]) -> None:
        """Hand on what people wrote where this bot reads. Events carry the server they come from; private ones have none."""
        messages: list[Inbound] = []
        for one in batch:
            channel = str(one["channel_id"])
            known = self._places.get(channel) or (Place(channel) if "guild_id" not in one else await self._asked(channel))
            if known is None or not self._reads(known):
                continue
            self._places[channel] = known
            self._marks.note(channel, str(one["id"]))
            message = inbound(one, known, self._account, self.link.me)
            if message is not None:
                messages.append(message)
                if not known.guild:
                    self._dms[message.sender.id] = channel
        if messages:
            await self._store(messages)

    async def _store(self, messages: list[Inbound]) -> None:
        """Hand messages to the house, until it has them."""
        while True:
            try:
                await self._door.accept(messages, Cursor(name=CURSOR, value=self._marks.written()))
            except Exception as error:  # noqa: BLE001 - whatever the house could not store must be offered again
                await self._pause("messages could not be stored, and are offered again", error)
            else:
                self._failures = 0
                return

    async def _asked(self, channel: str) -> Place | None:
        """Ask Discord about a channel or thread that was not heard of."""
        while True:
            try:
                return place_of(dict(await self.link.http.get_channel(int(channel))))
            except (discord.Forbidden, discord.NotFound):
                return None
            except TROUBLE as error:
                await self._pause("a channel could not be looked up", error)

    def _reads(self, place: Place) -> bool:
        if place.guild:
            return self._settings.reads(place.guild, place.parent or place.id)
        return self._settings.dm.enabled and self._settings.dm.policy != "disabled"

    async def _pause(self, event: str, error: Exception) -> None:
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        pause = longest * (0.5 + self._random() / 2)
        self._log.warning(event, error=str(error), pause=round(pause, 1), account=self._account)
        await self._clock.sleep(pause)

    async def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(*TROUBLE):
            await self.link.close()
