"""Reads missed and edited messages over the REST API. Importing this module loads the library.

A channel that cannot be read delays the others, and sending, for a few attempts only. After that it is retried in the background, and
its read mark stays where it is until a read succeeds.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import discord

from channels.common.backoff import Backoff
from channels.common.event_guard import MALFORMED, BackgroundTasks, EventGuard
from channels.common.log import Log
from channels.discord.api_errors import TROUBLE, meaning
from channels.discord.auto_threads import with_thread
from channels.discord.channel_directory import SLACK_SECONDS, ChannelDirectory, made_at
from channels.discord.gateway_client import GatewayClient
from channels.discord.inbound import Place, edited, is_snowflake, place_of
from channels.discord.missed_reactions import MissedReactions
from channels.discord.settings import DiscordAccount
from channels.messages import Inbound
from channels.protocol import Clock

PAGE = 100
AT_ONCE = 8
"""Channels that are read on at the same time."""
PEOPLE = 20
"""Listed people whose private channel is looked at after a start."""
LOOK_BACK = 50
"""Messages of a channel that are looked at for changes."""
RECENT = timedelta(days=1)
"""How long ago a channel was written to, or a message changed, for that to be looked at."""
TRIES_IN_ORDER = 3
"""Attempts at reading a channel during which nothing newer is taken."""
_UNREAD = (*TROUBLE, *MALFORMED)

Reading = Callable[[str, str], Awaitable[str | None]]
"""Reads a part of a channel from a mark on; returns the mark to go on from, None at the end. Raises one of ``_UNREAD``."""


class Backfill:
    """Reads missed messages for one connection. ``take`` is called with pages, ``store`` with edits; both return when they are stored.

    ``ready`` is called when reading is delayed, so that sending does not wait for it.
    """

    def __init__(
        self,
        settings: DiscordAccount,
        link: GatewayClient,
        places: Callable[[], ChannelDirectory],
        guard: EventGuard,
        *,
        take: Callable[[list[dict[str, Any]]], Awaitable[None]],
        store: Callable[[list[Inbound]], Awaitable[None]],
        ready: Callable[[], None],
        clock: Clock,
        random: Callable[[], float],
        log: Log,
        account: str,
    ) -> None:
        self._settings = settings
        self._link = link
        self._places_now = places
        self._guard = guard
        self._take = take
        self._store = store
        self._ready = ready
        self._clock = clock
        self._random = random
        self._log = log
        self._account = account
        self._aside = BackgroundTasks(log, account)
        self._reactions = MissedReactions(settings, link, clock=clock, log=log, account=account)
        self._looked_up = False

    @property
    def _places(self) -> ChannelDirectory:
        return self._places_now()

    @property
    def trouble(self) -> str:
        """What is wrong, in words; empty when nothing is left to read."""
        held = ", ".join(sorted(self._places.held))
        return f"what was missed cannot be read yet, and is tried again: {held}" if held else ""

    async def catch_up(self, gap: int, *, anew: bool) -> None:
        """Read missed messages in every channel read before, and in private channels of listed people.

        ``gap`` is where it began, 0 for none. In a new session what was changed is looked at first: where the gap began is known only
        until something newer is stored.
        """
        await self._aside.close()
        self._reactions.begin(after_gap=anew and gap > 0)
        if anew and gap:
            await self._read_all(self._places.marks.all(), self._looking_again(gap))
        await self.read_on(self._places.marks.all())
        if gap and not self._looked_up:
            self._looked_up = True
            for person in [one for one in self._settings.dm.allow_from if one != "*"][:PEOPLE]:
                await self._look_up(person, gap)
        self._aside.begin("missed reactions could not be read", self._tell_reactions())

    async def _tell_reactions(self) -> None:
        async for found in self._reactions.found(self._places.reads):
            if found:
                await self._store(found)

    async def read_on(self, channels: dict[str, str]) -> None:
        """Read the messages in these channels since their marks."""
        await self._read_all(channels, self._next_page, holds=True)

    async def close(self) -> None:
        """Cancel what is not read yet."""
        await self._aside.close()

    def edited(self, message: dict[str, Any], place: Place) -> Inbound | None:
        """Return the message as edited, if somebody edited it."""
        found = edited(message, place, self._account, self._link.me, bots=self._settings.allow_bots)
        return None if found is None else with_thread(found, place, self._settings)

    async def _look_up(self, person: str, gap: int) -> None:
        """Read what listed people without a known private channel wrote in the gap: Discord does not list such channels."""
        with contextlib.suppress(*_UNREAD):
            channel: dict[str, Any] = dict(await self._link.http.start_private_message(int(person)))
            identity, last = str(channel["id"]), int(channel.get("last_message_id") or 0)
            self._places.dms[person] = identity
            place = self._places.note(Place(identity))
            if self._places.reads(place) and identity not in self._places.marks.all() and last > gap:
                await self.read_on({identity: str(gap)})

    async def _read_all(self, channels: dict[str, str], reading: Reading, *, holds: bool = False) -> None:
        """Read a few channels at a time: a bot may be in hundreds."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def in_turn(channel: str, mark: str) -> None:
            async with turns:
                await self._read(
                    channel, mark, reading, Backoff(self._clock, self._random, self._log, self._account), holds=holds
                )

        async with asyncio.TaskGroup() as all_of_them:
            for channel, mark in channels.items():
                all_of_them.create_task(in_turn(channel, mark))

    async def _read(
        self, channel: str, mark: str, reading: Reading, backoff: Backoff, *, holds: bool, tries: int | None = TRIES_IN_ORDER
    ) -> None:
        """Read a channel with a limited number of attempts, then continue in the background."""
        following: str | None = mark
        failures = 0
        while following is not None:
            mark = following
            try:
                following = await reading(channel, mark)
            except (discord.Forbidden, discord.NotFound) as error:
                text, hint = meaning(error)
                self._log.warning("a channel is no longer read", channel=channel, error=text, hint=hint, account=self._account)
                self._places.gone(channel)
                return
            except _UNREAD as error:
                failures += 1
                if holds:
                    self._places.held.add(channel)
                self._ready()
                if failures == tries:
                    rest = self._read(channel, mark, reading, backoff, holds=holds, tries=None)
                    self._aside.begin("missed messages of a channel could not be read", rest)
                    return
                await backoff.wait(
                    "missed messages of a channel could not be read", f"{channel}: {str(error) or type(error).__name__}"
                )
        if holds:
            self._places.held.discard(channel)

    async def _next_page(self, channel: str, mark: str) -> str | None:
        place = await self._where(channel)
        page, full = await self._page(place, PAGE, after=int(mark))
        self._reactions.note(page, place)
        await self._take(page)
        return str(page[-1]["id"]) if full and page else None

    def _looking_again(self, gap: int) -> Reading:
        """Return the edits made in the gap to messages stored before it.

        The gateway skips edits that it has stored already, by their keys.
        """

        async def look(channel: str, mark: str) -> None:
            if made_at(mark) < self._clock.now() - RECENT:
                return
            since = max(made_at(str(gap)) - timedelta(seconds=SLACK_SECONDS), self._clock.now() - RECENT)
            place = await self._where(channel)
            page, _ = await self._page(place, LOOK_BACK, before=int(mark) + 1)
            self._reactions.note(page, place)
            about = {"kind": "message", "channel": channel}
            changes = [self._guard.read(about, self.edited, one, place) for one in page]
            changes_since = [one for one in changes if one is not None and one.at >= since]
            if changes_since:
                await self._store(changes_since)

        return look

    async def _where(self, channel: str) -> Place:
        """Return a channel of which a message was stored. Raises one of ``_UNREAD``."""
        known = self._places.known(channel)
        return self._places.note(known or place_of(dict(await self._link.http.get_channel(int(channel)))))

    async def _page(self, place: Place, most: int, **where: Any) -> tuple[list[dict[str, Any]], bool]:
        """Return messages of a channel, oldest first, and whether there may be more; none where the settings do not let them be read.

        Raises one of ``_UNREAD``.
        """
        if not self._places.reads(place):
            return [], False
        listed: Any = await self._link.http.logs_from(int(place.id), most, **where)
        found = [dict(one) for one in listed if isinstance(one, dict) and is_snowflake(one.get("id"))]
        return sorted(found, key=lambda one: int(one["id"])), len(listed) >= most
