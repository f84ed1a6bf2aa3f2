"""Receives events from Discord in order, and reads missed messages over the REST API.

Discord does not ask whether a message was stored, so the newest message stored from each channel is the cursor. After each
connection the channels are read from there before the channel reports ready. A new session also reads the last stored messages
again, for edits made meanwhile. Importing this module loads the library.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import discord
from msgspec.structs import replace

from channels.common.backoff import Backoff
from channels.common.event_guard import EventGuard
from channels.common.log import Log
from channels.common.read_marks import CURSOR
from channels.discord.api_errors import TROUBLE
from channels.discord.auto_threads import with_thread
from channels.discord.bot_reactions import BotReactions
from channels.discord.channel_directory import SLACK_SECONDS, ChannelDirectory, first_id
from channels.discord.gateway_client import GatewayClient
from channels.discord.inbound import Place, facts, inbound, is_snowflake, place_of, starter
from channels.discord.interactions import InteractionHandler, reaction
from channels.discord.message_backfill import PAGE, Backfill
from channels.discord.settings import DiscordAccount
from channels.discord.token_conflict import TokenConflict
from channels.discord.unread_places import UnreadPlaces
from channels.messages import ChatAddress, Cursor, Inbound
from channels.protocol import Clock, InboundSink

BEGUN = "begun"
"""The cursor that keeps since when this bot is listened to: of whom never wrote before, what is newer than that was missed."""
_MESSAGE = "MESSAGE_CREATE"
_CHANGED = {"MESSAGE_UPDATE", "MESSAGE_REACTION_ADD"}
_CONNECTED = {"READY", "RESUMED"}
_JUST_NOW = timedelta(minutes=10)
"""After so long a server counts as one that the bot was on before."""
_QUEUED = {_MESSAGE, *_CHANGED, *_CONNECTED, "GUILD_CREATE"}


class Receiver:
    """Receives for one bot. Fills ``dms`` with the private channel of each person who wrote, and reports each message to ``reactions``."""

    def __init__(
        self,
        settings: DiscordAccount,
        account: str,
        *,
        sink: InboundSink,
        clock: Clock,
        random: Callable[[], float],
        log: Log,
        dms: dict[str, str],
        reactions: BotReactions,
        conflict: TokenConflict,
    ) -> None:
        self._settings = settings
        self._account = account
        self._sink = sink
        self._clock = clock
        self._log = log
        self._guard = EventGuard(log, account)
        self._reactions = reactions
        self._conflict = conflict
        self._events: deque[tuple[str, dict[str, Any], str]] = deque()
        self._news = asyncio.Event()
        self._places = ChannelDirectory(settings, None, dms)
        self._session = ""
        self._gap = 0
        self._unread = UnreadPlaces(settings, account, log)
        self._backoff = Backoff(clock, random, log, account)
        self._taking = asyncio.Lock()
        self.link = GatewayClient(settings, self._heard, clock=clock, backoff=Backoff(clock, random, log, account))
        self._asking = InteractionHandler(account, sink=sink, clock=clock, log=log, link=self.link, reactions=reactions)
        self._missed = Backfill(
            settings,
            self.link,
            lambda: self._places,
            self._guard,
            take=self._take,
            store=self._store,
            ready=sink.ready,
            clock=clock,
            random=random,
            log=log,
            account=account,
        )

    def opened_on(self, conversation: ChatAddress, message: str) -> bool:
        """Return whether a message is the one in the channel that the bot opened, or will open, a thread on."""
        if message != conversation.thread or not self._settings.threaded(conversation.space or "", conversation.id):
            return False
        thread = self._places.known(message)
        return thread is None or thread.owner == self.link.me

    def knows(self, channel: str) -> bool:
        """Return whether a channel or thread is known to exist."""
        return self._places.known(channel) is not None

    @property
    def trouble(self) -> str:
        """What is wrong although Discord is reached, in words; empty when nothing is wrong."""
        return self._missed.trouble

    async def run(self) -> None:
        """Listen until cancelled or the connection ends. Raises ChannelBroken, or one of ``TROUBLE``."""
        stored, begun = await self._sink.cursor(CURSOR), await self._sink.cursor(BEGUN)
        now = first_id(self._clock.now() - timedelta(seconds=SLACK_SECONDS))
        self._places = ChannelDirectory(
            self._settings, stored, self._places.dms, begun=int(begun) if is_snowflake(begun) else now, first=begun is None
        )
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
            await self._missed.close()

    def _heard(self, name: str, content: dict[str, Any], number: int) -> None:
        self._sink.alive()
        self._guard.read(facts(name, content), self._noted, name, content)
        if name in _QUEUED:
            self._events.append((name, content, f"{self._session}:{number}"))
            self._news.set()

    def _noted(self, name: str, content: dict[str, Any]) -> None:
        """Update what is known of channels from an event at once, before the queued events are read."""
        match name:
            case "MESSAGE_CREATE":
                self._conflict.heard(content, self.link.me)
            case "READY":
                self._session = str(content.get("session_id"))
                self._gap = self._places.connected()
            case "GUILD_CREATE":
                self._unread.joined(content)
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
            await self._missed.catch_up(self._gap, anew=name == "READY")
            self._sink.ready()
        elif name == "GUILD_CREATE":
            unread, self._places.unread = self._places.unread, []
            await self._missed.read_on(dict(unread))
            await self._store([])
            await self._added(content)
        else:
            found = None
            with self._guard.reading(facts(name, content)):
                if (place := await self._place(content)) is not None and self._places.reads(place):
                    found = await self._changed(name, content, place, stamp)
            if found is not None:
                await self._store([found])

    async def _added(self, guild: dict[str, Any]) -> None:
        """Tell the gateway of a server that the bot came onto just now. It is welcomed in the channel for news of the server."""
        with self._guard.reading({"kind": "server", "server": guild.get("id")}):
            joined = datetime.fromisoformat(str(guild["joined_at"]))
            channel = str(guild.get("system_channel_id") or "")
            if not is_snowflake(channel) or self._clock.now() - joined > _JUST_NOW:
                return
            server, title = str(guild["id"]), str(guild.get("name") or "")
            group = ChatAddress(channel="discord", account=self._account, kind="group", id=channel, space=server)
            await self._sink.added(group, key=f"joined:{joined.isoformat()}", title=title)

    def _batch(self) -> list[dict[str, Any]]:
        batch: list[dict[str, Any]] = []
        while self._events and self._events[0][0] == _MESSAGE and len(batch) < PAGE:
            batch.append(self._events.popleft()[1])
        return batch

    async def _take(self, batch: list[dict[str, Any]]) -> None:
        """Deliver messages from the channels that this bot reads. Events carry their server; private ones have none.

        One batch at a time, because a mark must not be stored before its message.
        """
        async with self._taking:
            await self._take_in_turn(batch)

    async def _take_in_turn(self, batch: list[dict[str, Any]]) -> None:
        messages: list[Inbound] = []
        for one in batch:
            with self._guard.reading(facts(_MESSAGE, one)):
                place = await self._place(one)
                if place is not None and self._places.reads(place):
                    messages += self._read(one, place)
                elif place is not None:
                    self._unread.note(one, place, self.link.me)
        if messages:
            await self._store(messages)

    def _read(self, one: dict[str, Any], place: Place) -> list[Inbound]:
        """Record a message as stored, and return it, with its edit if it was edited before it was read."""
        self._places.taken(place.id, str(one["id"]))
        if place.owner != self.link.me and (about := starter(one, self.link.me)):
            self._places.about[place.id] = about
        message = inbound(one, place, self._account, self.link.me, bots=self._settings.allow_bots)
        if message is None:
            return []
        messages = [self._places.with_beginning(with_thread(message, place, self._settings))]
        change = None if message.text.startswith("/") else self._missed.edited(one, place)
        if change is not None:  # it was read as it is now, and must not be told once more
            messages.append(change)
        self._reactions.taken(message.message_id)
        if not place.guild:
            self._places.dms[message.sender.id] = place.id
        return messages

    async def _changed(self, name: str, content: dict[str, Any], place: Place, stamp: str) -> Inbound | None:
        """Return a reaction, if the settings want it."""
        if name == "MESSAGE_UPDATE":
            return self._missed.edited(content, place)
        which = self._settings.reactions_told(place.guild)
        if which == "off" or str(content.get("user_id")) == self.link.me:
            return None
        mine = await self._is_mine(content)
        if which == "own" and not mine:
            return None
        found = reaction(content, place, self._account, self._clock.now(), f"r:{stamp}", mine=mine)
        if self._reactions.told_before(found.alias):
            found = replace(found, alias=found.key)
        return found if self._settings.allow_bots or not found.from_bot else None

    async def _is_mine(self, reaction: dict[str, Any]) -> bool:
        """Return whether a reaction is on a message of the bot."""
        author = reaction.get("message_author_id")
        if author is None:
            try:
                message = await self.link.http.get_message(int(reaction["channel_id"]), int(reaction["message_id"]))
                author = message["author"]["id"]
            except TROUBLE as error:
                self._log.info("it is unknown whose message a reaction is on", error=str(error), account=self._account)
        return str(author) == self.link.me

    async def _store(self, messages: list[Inbound]) -> None:
        """Deliver messages until they are stored."""
        await self._accepted(messages, None)

    async def _accepted(self, messages: list[Inbound], cursor: Cursor | None) -> None:
        """Deliver messages and a cursor until they are stored; the default cursor is the current read position."""
        await self._backoff.until_stored(
            lambda: self._sink.accept(messages, cursor or Cursor(name=CURSOR, value=self._places.marks.written()))
        )

    async def _place(self, content: dict[str, Any]) -> Place | None:
        """Return the channel of an event; an unknown channel or thread is requested from Discord."""
        channel = str(content["channel_id"])
        known = self._places.known(channel) or (Place(channel) if "guild_id" not in content else None)
        while known is None:
            try:
                known = place_of(dict(await self.link.http.get_channel(int(channel))))
            except (discord.Forbidden, discord.NotFound):
                return None
            except TROUBLE as error:
                await self._backoff.wait("a channel could not be looked up", str(error))
        return self._places.note(known)

    async def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(*TROUBLE):
            await self.link.close()
