"""Receiving from Discord: events in their order, and by REST what was written while nobody listened.

Discord never asks whether a message was stored. So the newest message taken from each channel is the cursor, and after every
connection the channels are read on from there, before anything is said to be ready. A new session also looks at the last ones that
were taken, for what was changed meanwhile. Importing this module loads the library.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import discord

from channels.discord.asking import Asking
from channels.discord.client import Link
from channels.discord.happenings import reaction
from channels.discord.inbound import Place, edited, inbound, place_of, starter
from channels.discord.places import SLACK_SECONDS, Places, first_id, made_at
from channels.discord.refusals import TROUBLE, meaning
from channels.messages import Cursor
from channels.pauses import Pauses
from channels.reading import CURSOR

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from channels.clock import Clock
    from channels.discord.reacting import Reacting
    from channels.discord.rival import Rival
    from channels.discord.settings import DiscordAccount
    from channels.log import Log
    from channels.messages import Inbound
    from channels.protocol import Door

PAGE = 100
AT_ONCE = 8
"""Channels that are read on at the same time."""
PEOPLE = 20
"""Listed people whose private channel is looked at after a start."""
BEGUN = "begun"
"""The cursor that keeps since when this bot is listened to: of whom never wrote before, what is newer than that was missed."""
LOOK_BACK = 50
"""Messages of a channel that are looked at for changes."""
RECENT = timedelta(days=1)
"""How long ago a channel was written to, or a message changed, for that to be looked at."""
_MESSAGE = "MESSAGE_CREATE"
_CHANGED = {"MESSAGE_UPDATE", "MESSAGE_REACTION_ADD"}
_CONNECTED = {"READY", "RESUMED"}
_QUEUED = {_MESSAGE, *_CHANGED, *_CONNECTED, "GUILD_CREATE"}


class Receiver:
    """One bot's ear. ``dms`` is filled with the private channel of each person who was heard, ``reacting`` is told of each message."""

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
        reacting: Reacting,
        rival: Rival,
    ) -> None:
        self._settings = settings
        self._account = account
        self._door = door
        self._clock = clock
        self._log = log
        self._reacting = reacting
        self._rival = rival
        self._events: deque[tuple[str, dict[str, Any], str]] = deque()
        self._news = asyncio.Event()
        self._places = Places(settings, None, dms)
        self._session = ""
        self._gap = 0
        self._looked_up = False
        self._random = random
        self._pauses = self._new_pauses()
        self._taking = asyncio.Lock()
        self.link = Link(settings, self._heard, clock=clock, pauses=self._new_pauses())
        self._asking = Asking(account, door=door, clock=clock, log=log, link=self.link, reacting=reacting)

    async def run(self) -> None:
        """Listen until cancelled or the connection ends. Raises ChannelBroken, or one of ``TROUBLE``."""
        stored, begun = await self._door.cursor(CURSOR), await self._door.cursor(BEGUN)
        now = first_id(self._clock.now() - timedelta(seconds=SLACK_SECONDS))
        self._places = Places(self._settings, stored, self._places.dms, begun=int(begun or now), first=begun is None)
        tasks = [asyncio.ensure_future(self.link.listen()), asyncio.ensure_future(self._work())]
        aside = [] if begun else [asyncio.ensure_future(self._accepted([], Cursor(name=BEGUN, value=str(now))))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*tasks, *aside):
                task.cancel()
            await asyncio.gather(*tasks, *aside, return_exceptions=True)
            await self._asking.close()

    def _new_pauses(self) -> Pauses:
        return Pauses(self._clock, self._random, self._log, self._account)

    def _heard(self, name: str, content: dict[str, Any], number: int) -> None:
        self._door.alive()
        match name:
            case "MESSAGE_CREATE":
                self._rival.heard(content, self.link.me)
            case "READY":
                self._session = str(content.get("session_id"))
                self._gap = self._places.connected()
            case "GUILD_CREATE":
                self._places.joined(content)
            case "GUILD_DELETE" if not content.get("unavailable"):
                self._log.warning("the bot was removed from a server", server=content.get("id"), account=self._account)
                self._places.left(str(content.get("id")))
            case "CHANNEL_CREATE" | "THREAD_CREATE":
                self._places.made(content)
            case "CHANNEL_DELETE" | "THREAD_DELETE":
                self._places.gone(str(content.get("id")))
            case "INTERACTION_CREATE":
                self._asking.take(content, self._places)
            case "ERROR":
                self._log.warning("an event could not be read", account=self._account, **content)
        if name in _QUEUED:
            self._events.append((name, content, f"{self._session}:{number}"))
            self._news.set()

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            name, content, stamp = self._events[0]
            if name == _MESSAGE:
                await self._take(self._batch())
            else:
                self._events.popleft()
                await self._other(name, content, stamp)
            if not self._events:
                self._news.clear()

    async def _other(self, name: str, content: dict[str, Any], stamp: str) -> None:
        if name in _CONNECTED:
            if name == "READY" and self._gap:  # at first, for where the gap began is known only until something newer is stored
                await self._read_all(self._places.marks.all(), self._look_again)
            await self._catch_up()
            self._door.ready()
        elif name == "GUILD_CREATE":
            unread, self._places.unread = self._places.unread, []
            await self._read_all(dict(unread), self._read_on)
            await self._store([])
        elif (place := await self._place(content)) is not None and self._places.reads(place):
            found = await self._changed(name, content, place, stamp)
            if found is not None:
                await self._store([found])

    def _batch(self) -> list[dict[str, Any]]:
        batch: list[dict[str, Any]] = []
        while self._events and self._events[0][0] == _MESSAGE and len(batch) < PAGE:
            batch.append(self._events.popleft()[1])
        return batch

    async def _catch_up(self) -> None:
        """Read on, in every channel that was read before, and in those of listed people who may have written first."""
        await self._read_all(self._places.marks.all(), self._read_on)
        if self._gap and not self._looked_up:
            self._looked_up = True
            for person in [one for one in self._settings.dm.allow_from if one != "*"][:PEOPLE]:
                await self._look_up(person)

    async def _look_up(self, person: str) -> None:
        """Read what a listed person wrote in the gap who had no private channel before: Discord tells a bot of none."""
        with contextlib.suppress(*TROUBLE):
            channel: dict[str, Any] = dict(await self.link.http.start_private_message(int(person)))
            identity, last = str(channel["id"]), int(channel.get("last_message_id") or 0)
            self._places.dms[person] = identity
            place = self._places.note(Place(identity))
            if self._places.reads(place) and identity not in self._places.marks.all() and last > self._gap:
                await self._read_on(identity, str(self._gap))

    async def _read_all(self, channels: dict[str, str], read: Callable[[str, str], Awaitable[None]]) -> None:
        """Read in some channels at a time: a bot may be in hundreds."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def in_turn(channel: str, mark: str) -> None:
            async with turns:
                await read(channel, mark)

        async with asyncio.TaskGroup() as reading:
            for channel, mark in channels.items():
                reading.create_task(in_turn(channel, mark))

    async def _read_on(self, channel: str, mark: str) -> None:
        pauses = self._new_pauses()
        while True:
            try:
                place = await self._where(channel)
                page = await self._page(place, PAGE, after=int(mark))
            except (discord.Forbidden, discord.NotFound) as error:
                text, mend = meaning(error)
                self._log.warning(
                    "a channel is not read any more", channel=channel, error=text, mend=mend, account=self._account
                )
                self._places.gone(channel)
                return
            except TROUBLE as error:
                await pauses.wait("a channel could not be read on", str(error))
                continue
            await self._take(page)
            if len(page) < PAGE:
                return
            mark = str(page[-1]["id"])

    async def _look_again(self, channel: str, mark: str) -> None:
        """Tell what people changed in the gap of what was taken before it. What the house has heard of, it passes over by its key."""
        if made_at(mark) < self._clock.now() - RECENT:
            return
        since = max(made_at(str(self._gap)) - timedelta(seconds=SLACK_SECONDS), self._clock.now() - RECENT)
        pauses = self._new_pauses()
        while True:
            try:
                place = await self._where(channel)
                page = await self._page(place, LOOK_BACK, before=int(mark) + 1)
                break
            except (discord.Forbidden, discord.NotFound):
                return
            except TROUBLE as error:
                await pauses.wait("what was changed in a channel could not be looked at", str(error))
        changes = [found for one in page if (found := self._edited(one, place)) is not None and found.at >= since]
        if changes:
            await self._store(changes)

    async def _where(self, channel: str) -> Place:
        """Return a channel of which a message was taken. Raises one of ``TROUBLE``."""
        return self._places.note(self._places.known(channel) or place_of(dict(await self.link.http.get_channel(int(channel)))))

    async def _page(self, place: Place, most: int, **where: Any) -> list[dict[str, Any]]:
        """Return messages of a channel, oldest first; none where the settings do not let them be read. Raises one of ``TROUBLE``."""
        if not self._places.reads(place):
            return []
        found = await self.link.http.logs_from(int(place.id), most, **where)
        return sorted(map(dict, found), key=lambda one: int(one["id"]))

    def _edited(self, message: dict[str, Any], place: Place) -> Inbound | None:
        return edited(message, place, self._account, self.link.me, bots=self._settings.allow_bots)

    async def _take(self, batch: list[dict[str, Any]]) -> None:
        """Hand on what people wrote where this bot reads. Events carry the server they come from; private ones have none.

        One batch at a time: no mark may be stored of a message that is not.
        """
        async with self._taking:
            await self._take_in_turn(batch)

    async def _take_in_turn(self, batch: list[dict[str, Any]]) -> None:
        messages: list[Inbound] = []
        for one in batch:
            place = await self._place(one)
            if place is None or not self._places.reads(place):
                continue
            self._places.marks.note(place.id, str(one["id"]))
            if about := starter(one, self.link.me):
                self._places.about[place.id] = about
            message = inbound(one, place, self._account, self.link.me, bots=self._settings.allow_bots)
            if message is not None:
                messages.append(self._places.with_beginning(message))
                change = None if message.text.startswith("/") else self._edited(one, place)
                if change is not None:  # it was read as it is now, and must not be told once more
                    messages.append(change)
                self._reacting.taken(message.message_id)
                if not place.guild:
                    self._places.dms[message.sender.id] = place.id
        if messages:
            await self._store(messages)

    async def _changed(self, name: str, content: dict[str, Any], place: Place, stamp: str) -> Inbound | None:
        """Return what a person did to a message, when it is to be told."""
        if name == "MESSAGE_UPDATE":
            return self._edited(content, place)
        which = self._settings.reactions_told(place.guild)
        if which == "off" or str(content.get("user_id")) == self.link.me:
            return None
        mine = await self._is_mine(content)
        if which == "own" and not mine:
            return None
        found = reaction(content, place, self._account, self._clock.now(), f"r:{stamp}", mine=mine)
        return found if self._settings.allow_bots or not found.from_bot else None

    async def _is_mine(self, reaction: dict[str, Any]) -> bool:
        """Tell whether a reaction stands under a message of the bot's."""
        author = reaction.get("message_author_id")
        if author is None:
            try:
                message = await self.link.http.get_message(int(reaction["channel_id"]), int(reaction["message_id"]))
                author = message["author"]["id"]
            except TROUBLE as error:
                self._log.info("it is not known under whose message a reaction stands", error=str(error), account=self._account)
        return str(author) == self.link.me

    async def _store(self, messages: list[Inbound]) -> None:
        """Hand messages to the house, until it has them."""
        await self._accepted(messages, None)

    async def _accepted(self, messages: list[Inbound], cursor: Cursor | None) -> None:
        """Hand messages and a cursor to the house; without one, it is how far was read by then."""
        while True:
            try:
                await self._door.accept(messages, cursor or Cursor(name=CURSOR, value=self._places.marks.written()))
            except Exception as error:  # noqa: BLE001 - whatever the house could not store must be offered again
                await self._pauses.wait("messages could not be stored, and are offered again", str(error))
            else:
                self._pauses.over()
                return

    async def _place(self, content: dict[str, Any]) -> Place | None:
        """Return where an event happened; Discord is asked about a channel or thread that was not heard of."""
        channel = str(content["channel_id"])
        known = self._places.known(channel) or (Place(channel) if "guild_id" not in content else None)
        while known is None:
            try:
                known = place_of(dict(await self.link.http.get_channel(int(channel))))
            except (discord.Forbidden, discord.NotFound):
                return None
            except TROUBLE as error:
                await self._pauses.wait("a channel could not be looked up", str(error))
        return self._places.note(known)

    async def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(*TROUBLE):
            await self.link.close()
