"""Taking what was written while nobody listened: channel by channel, tried again until each was read, and never in the way of sending.

Importing this module loads the library.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from channels.common.event_guard import whereabouts
from channels.slack.api_errors import TROUBLE
from channels.slack.history_reader import HistoryReader, channel_of, opened_since
from channels.slack.inbound import inbound, order
from channels.slack.user_actions import changed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from slack_sdk.web.async_client import AsyncWebClient

    from channels.common.backoff import Backoff
    from channels.common.event_guard import EventGuard
    from channels.common.log import Log
    from channels.messages import Inbound
    from channels.protocol import Clock
    from channels.slack.inbound import Identity

    Found = list[tuple[dict[str, Any], Inbound | None]]

TRIES_IN_ORDER = 3
"""Attempts at reading during which nothing newer is taken; after them what is written now goes before what could not be read."""


class CatchUp:
    """What is not read yet, by place. ``take`` hands messages to the house; ``pauses`` waits between attempts."""

    def __init__(
        self,
        who: Identity,
        web: AsyncWebClient,
        guard: EventGuard,
        pauses: Backoff,
        take: Callable[[Found], Awaitable[bool]],
        *,
        clock: Clock,
        log: Log,
    ) -> None:
        self.in_order = asyncio.Lock()
        self.reading = HistoryReader(web, clock, log, self._held_up)
        self._who = who
        self._guard = guard
        self._pauses = pauses
        self._take = take
        self._log = log
        self._marks: dict[str, str] = {}
        self._unread: dict[str, str] = {}
        self._taking = False
        self._ready: Callable[[], None] = lambda: None

    @property
    def trouble(self) -> str:
        """What is wrong, in words; empty when nothing waits to be read."""
        channels = sorted({channel_of(place) for place in self._unread})
        return f"what was missed cannot be read yet, and is tried again: {', '.join(channels)}" if channels else ""

    def holds(self, channel: str) -> bool:
        """Tell whether something older than what is written now is still to be read in a channel: its mark must stay."""
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
        self._pauses.over()

    async def _wait(self) -> None:
        self._held_up()
        await self._pauses.wait("what was missed could not be read", self.trouble)

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
        self._log.warning("a channel could not be read on", error=error, channel=place, account=self._who.account)

    async def _read(self, place: str, mark: str, *, look_back: bool) -> Found:
        before = await self.reading.before(place, mark) if look_back else []
        found = await self.reading.since(place, mark)
        for thread in opened_since([*before, *found], mark, self._marks):
            found += await self.reading.since(thread, mark)
        once = {one["ts"]: one for one in found}  # a thread is read with the message that it began with
        about = {"kind": "message", "channel": place}
        changes = [(one, self._guard.read(about, changed, one, mark, self._who)) for one in before]
        return changes + [(one, self._guard.read(about, inbound, one, self._who)) for _, one in sorted(once.items(), key=_when)]


def _when(stamped: tuple[str, dict[str, Any]]) -> Any:
    return order(stamped[0])
