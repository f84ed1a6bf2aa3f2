"""Reads the messages that were missed, channel by channel and thread by thread. Importing this module loads the client library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from slack_sdk.errors import SlackApiError

from channels.common.backoff import Backoff
from channels.common.event_guard import EventGuard, whereabouts
from channels.common.log import Log
from channels.messages import Inbound
from channels.protocol import Clock
from channels.slack.api_errors import TROUBLE, code_of, passing, waiting
from channels.slack.inbound import Identity, inbound, newer, order, stamped
from channels.slack.user_actions import changed, reactions_to

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

    from channels.common.shared_settings import Reactions

    Found = list[tuple[dict[str, Any], Inbound | None]]


PAGE = 200
MOVES = "moves"
"""The cursor that keeps which group had which id before."""
THREADS_FOR = 2 * 24 * 3600.0
"""Seconds for which a thread is read on after its last message; a channel is read on however old its last one is."""
MOST_THREADS = 50
"""Threads that are read on at once, for each takes a call, and Slack grants some fifty a minute."""
REACTIONS_FOR = 2 * 24 * 3600.0
"""Seconds after a message for which reactions to it are looked for, among the messages that are read anyway."""
LOOK_BACK = 15
"""Messages before a mark that are looked at again: one call a channel."""
MOST_LOOKED_BACK = 20
"""Channels in which that is done, those that were used last."""
_BETWEEN = "/"


def thread_mark(channel: str, thread: str) -> str:
    """Return the key of a thread's read mark."""
    return f"{channel}{_BETWEEN}{thread}"


def opened_since(messages: Sequence[dict[str, Any]], mark: str, marks: Collection[str]) -> list[str]:
    """Return the threads under these messages in which something was written after the mark, without those that are read anyway."""
    threads = [thread_mark(one["channel"], one["ts"]) for one in messages if newer(one.get("latest_reply"), mark)]
    return [thread for thread in threads if thread not in marks][-MOST_THREADS:]


def channel_of(place: str) -> str:
    """Return the channel of a read mark, or of its thread."""
    return place.partition(_BETWEEN)[0]


def moves(stored: str | None) -> dict[str, str]:
    """Read the cursor of ``MOVES``: the former id of each group, by its present one."""
    try:
        found = json.loads(stored or "{}")
    except ValueError:
        return {}
    return {str(present): str(former) for present, former in found.items()} if isinstance(found, dict) else {}


class HistoryReader:
    """Reads messages after a mark. ``held_up`` is called before a wait that Slack asks for."""

    def __init__(self, web: AsyncWebClient, clock: Clock, log: Log, held_up: Callable[[], None]) -> None:
        self._web = web
        self._clock = clock
        self._log = log
        self._held_up = held_up

    def worth(self, marks: dict[str, str]) -> dict[str, str]:
        """Return the marks to read from: those of all channels, and of the most recent threads."""
        oldest = self._clock.now().timestamp() - THREADS_FOR
        threads = [place for place, mark in marks.items() if _BETWEEN in place and float(mark) >= oldest]
        left_out = {place for place in marks if _BETWEEN in place} - set(threads[-MOST_THREADS:])
        return {place: mark for place, mark in marks.items() if place not in left_out}

    async def since(self, place: str, mark: str) -> list[dict[str, Any]]:
        """Return the messages in a channel or thread since the mark, oldest first; none if it may not be read.

        Raises one of ``TROUBLE`` when that is not known now.
        """
        channel, _, thread = place.partition(_BETWEEN)
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            try:
                page = await self._page(channel, thread, mark, cursor)
            except SlackApiError as error:
                wait = waiting(error)
                if wait is None and passing(error):
                    raise
                if wait is None:
                    self._log.warning("missed messages of a channel could not be read", error=code_of(error), channel=place)
                    return []
                self._held_up()
                await self._clock.sleep(wait)
            else:
                found += page.get("messages") or []
                cursor = (page.get("response_metadata") or {}).get("next_cursor") or None
                if cursor is None:
                    break
        return [one for one in stamped(found, channel) if newer(one["ts"], mark)]

    def looked_back(self, marks: dict[str, str]) -> set[str]:
        """Return the channels in which messages before the mark are read again."""
        channels = [place for place in marks if _BETWEEN not in place]
        return set(sorted(channels, key=lambda place: order(marks[place]))[-MOST_LOOKED_BACK:])

    async def before(self, channel: str, mark: str) -> list[dict[str, Any]]:
        """Return the last messages up to the mark as they are now, oldest first; nothing where there is trouble: it is an extra."""
        try:
            page: Any = await self._web.conversations_history(channel=channel, latest=mark, inclusive=True, limit=LOOK_BACK)
        except TROUBLE as error:
            self._log.info("edits made meanwhile in a channel are unknown", error=type(error).__name__, channel=channel)
            return []
        return stamped(page.get("messages"), channel)

    async def thread_of(self, channel: str, message: str) -> str:
        """Return the thread of a message; an empty string if it is in none or the thread is unknown."""
        try:
            page: Any = await self._web.conversations_replies(channel=channel, ts=message, limit=1)
        except TROUBLE as error:
            self._log.info("the thread of a message is unknown", error=type(error).__name__)
            return ""
        found: dict[str, Any] = next(iter(page.get("messages") or []), {})
        thread = str(found.get("thread_ts") or "")
        return thread if thread != message else ""

    async def _page(self, channel: str, thread: str, mark: str, cursor: str | None) -> Any:
        if thread:
            return await self._web.conversations_replies(channel=channel, ts=thread, oldest=mark, limit=PAGE, cursor=cursor)
        return await self._web.conversations_history(channel=channel, oldest=mark, limit=PAGE, cursor=cursor)


TRIES_IN_ORDER = 3
"""Attempts at reading during which nothing newer is taken; after them what is written now goes before what could not be read."""


class CatchUp:
    """What is not read yet, by place. ``take`` hands messages to the gateway; ``pauses`` waits between attempts."""

    def __init__(
        self,
        who: Identity,
        web: AsyncWebClient,
        guard: EventGuard,
        backoff: Backoff,
        take: Callable[[Found], Awaitable[bool]],
        *,
        reactions: Reactions,
        clock: Clock,
        log: Log,
    ) -> None:
        self.in_order = asyncio.Lock()
        self._reactions = reactions
        self._clock = clock
        self.reading = HistoryReader(web, clock, log, self._held_up)
        self._who = who
        self._guard = guard
        self._backoff = backoff
        self._take = take
        self._log = log
        self._marks: dict[str, str] = {}
        self._unread: dict[str, str] = {}
        self._taking = False
        self._ready: Callable[[], None] = lambda: None

    @property
    def trouble(self) -> str:
        """What is wrong, in words; empty when nothing is left to read."""
        channels = sorted({channel_of(place) for place in self._unread})
        return f"what was missed cannot be read yet, and is tried again: {', '.join(channels)}" if channels else ""

    def holds(self, channel: str) -> bool:
        """Return whether something older than what is written now is still to be read in a channel: its mark must stay."""
        return not self._taking and any(channel_of(place) == channel for place in self._unread)

    async def take(self, marks: dict[str, str], ready: Callable[[], None]) -> None:
        """Take what was written since these marks, if Slack still has it; returns when all of it was read.

        ``ready`` is called then, or as soon as reading is held up.
        """
        self._ready = ready
        async with self.in_order:
            self._marks = marks | self._unread
            self._unread = self.reading.worth(self._marks)
            for _ in range(TRIES_IN_ORDER):
                await self._read_all()
                if not self._unread:
                    break
                await self._wait()
        ready()
        while self._unread:
            async with self.in_order:
                await self._read_all()
            if self._unread:
                await self._wait()
        self._backoff.over()

    async def _wait(self) -> None:
        self._held_up()
        await self._backoff.wait("what was missed could not be read", self.trouble)

    def _held_up(self) -> None:
        self._ready()

    async def _read_all(self) -> None:
        """Read on in every place that is still to be read. One that fails keeps none of the others waiting."""
        looked_back = self.reading.looked_back(self._marks)
        for place, mark in list(self._unread.items()):
            try:
                messages = await self._read(place, mark, look_back=place in looked_back)
            except TROUBLE as error:
                self._tell(place, str(error) or type(error).__name__)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must end neither in the library nor the other channels' reading
                self._tell(place, whereabouts(error))
            else:
                self._taking = True
                try:
                    await self._take(messages)
                finally:
                    self._taking = False
                del self._unread[place]

    def _tell(self, place: str, error: str) -> None:
        self._log.warning(
            "missed messages of a channel could not be read", error=error, channel=place, account=self._who.account
        )

    async def _read(self, place: str, mark: str, *, look_back: bool) -> Found:
        before = await self.reading.before(place, mark) if look_back else []
        found = await self.reading.since(place, mark)
        for thread in opened_since([*before, *found], mark, self._marks):
            found += await self.reading.since(thread, mark)
        once = {one["ts"]: one for one in found}  # a thread is read with the message that it began with
        about = {"kind": "message", "channel": place}
        changes = [(one, self._guard.read(about, changed, one, mark, self._who)) for one in before]
        changes += [(one, each) for one in (*before, *once.values()) for each in self._reacted(about, one)]
        return changes + [(one, self._guard.read(about, inbound, one, self._who)) for _, one in sorted(once.items(), key=_when)]

    def _reacted(self, about: dict[str, Any], message: dict[str, Any]) -> list[Inbound]:
        """Return the reactions to a message that is not old; those that were told before are known to the gateway by their alias."""
        own = message.get("user") == self._who.user
        if self._reactions == "off" or (self._reactions == "own" and not own):
            return []
        if not newer(message["ts"], str(self._clock.now().timestamp() - REACTIONS_FOR)):
            return []
        return self._guard.read(about, reactions_to, message, self._who) or []


def _when(stamped: tuple[str, dict[str, Any]]) -> Any:
    return order(stamped[0])
