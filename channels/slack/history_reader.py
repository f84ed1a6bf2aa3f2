"""Reading what was written while nobody listened, channel by channel and thread by thread. Importing this module loads the library."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from slack_sdk.errors import SlackApiError

from channels.slack.api_errors import TROUBLE, code_of, passing, waiting
from channels.slack.inbound import newer, order, stamped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from slack_sdk.web.async_client import AsyncWebClient

    from channels.common.log import Log
    from channels.protocol import Clock

PAGE = 200
MOVES = "moves"
"""The cursor that keeps which group had which id before."""
THREADS_FOR = 2 * 24 * 3600.0
"""Seconds for which a thread is read on after its last message; a channel is read on however old its last one is."""
MOST_THREADS = 50
"""Threads that are read on at once, for each takes a call, and Slack grants some fifty a minute."""
LOOK_BACK = 15
"""Messages before a mark that are looked at again: one call a channel."""
MOST_LOOKED_BACK = 20
"""Channels in which that is done, those that were used last."""
_BETWEEN = "/"


def thread_mark(channel: str, thread: str) -> str:
    """Return the name under which the reading mark of a thread is kept."""
    return f"{channel}{_BETWEEN}{thread}"


def opened_since(messages: Sequence[dict[str, Any]], mark: str, marks: Collection[str]) -> list[str]:
    """Return the threads under these messages in which something was written after the mark, without those that are read anyway."""
    threads = [thread_mark(one["channel"], one["ts"]) for one in messages if newer(one.get("latest_reply"), mark)]
    return [thread for thread in threads if thread not in marks][-MOST_THREADS:]


def channel_of(place: str) -> str:
    """Return the channel that a reading mark is of, or of a thread of which it is."""
    return place.partition(_BETWEEN)[0]


def moves(stored: str | None) -> dict[str, str]:
    """Read the cursor of ``MOVES``: the former id of each group, by its present one."""
    try:
        found = json.loads(stored or "{}")
    except ValueError:
        return {}
    return {str(present): str(former) for present, former in found.items()} if isinstance(found, dict) else {}


class HistoryReader:
    """Reads on from a mark. ``held_up`` is called before a wait that Slack asks for."""

    def __init__(self, web: AsyncWebClient, clock: Clock, log: Log, held_up: Callable[[], None]) -> None:
        self._web = web
        self._clock = clock
        self._log = log
        self._held_up = held_up

    def worth(self, marks: dict[str, str]) -> dict[str, str]:
        """Return the marks that are read on from: those of all channels, and of the threads that were used last."""
        oldest = self._clock.now().timestamp() - THREADS_FOR
        threads = [place for place, mark in marks.items() if _BETWEEN in place and float(mark) >= oldest]
        left_out = {place for place in marks if _BETWEEN in place} - set(threads[-MOST_THREADS:])
        return {place: mark for place, mark in marks.items() if place not in left_out}

    async def since(self, place: str, mark: str) -> list[dict[str, Any]]:
        """Return what was written in a channel or a thread since the mark, oldest first; nothing when it may not be read.

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
                    self._log.warning("a channel could not be read on", error=code_of(error), channel=place)
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
        """Return the channels in which messages before the mark are worth another look."""
        channels = [place for place in marks if _BETWEEN not in place]
        return set(sorted(channels, key=lambda place: order(marks[place]))[-MOST_LOOKED_BACK:])

    async def before(self, channel: str, mark: str) -> list[dict[str, Any]]:
        """Return the last messages up to the mark as they are now, oldest first; nothing where there is trouble: it is an extra."""
        try:
            page: Any = await self._web.conversations_history(channel=channel, latest=mark, inclusive=True, limit=LOOK_BACK)
        except TROUBLE as error:
            self._log.info("it is not known what was changed in a channel", error=type(error).__name__, channel=channel)
            return []
        return stamped(page.get("messages"), channel)

    async def thread_of(self, channel: str, message: str) -> str:
        """Return the thread that a message is in; an empty string when it is in none, or nobody says."""
        try:
            page: Any = await self._web.conversations_replies(channel=channel, ts=message, limit=1)
        except TROUBLE as error:
            self._log.info("the thread of a message is not known", error=type(error).__name__)
            return ""
        found: dict[str, Any] = next(iter(page.get("messages") or []), {})
        thread = str(found.get("thread_ts") or "")
        return thread if thread != message else ""

    async def _page(self, channel: str, thread: str, mark: str, cursor: str | None) -> Any:
        if thread:
            return await self._web.conversations_replies(channel=channel, ts=thread, oldest=mark, limit=PAGE, cursor=cursor)
        return await self._web.conversations_history(channel=channel, oldest=mark, limit=PAGE, cursor=cursor)
