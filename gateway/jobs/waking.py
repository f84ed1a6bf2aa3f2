"""Wakes the scheduler: an APScheduler trigger that follows the jobs, and a guard against clocks that are set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from agent.timing import Clock
from gateway.base.lean_import import leaving_out

with leaving_out("apscheduler.executors.pool"):  # multiprocessing
    from apscheduler.schedulers.asyncio import AsyncIOScheduler
    from apscheduler.triggers.base import BaseTrigger

_SOONEST: Final = timedelta(milliseconds=200)
"""The soonest wake-up for what is due already."""
_SET: Final = 1.0
"""Seconds by which the clock must have been set: less is the clock being corrected, and late by no more."""
_LOOKS: Final = 30
"""How often the guard looks in the time between two wake-ups: what is due after the clock was set is late by no more than that."""


class NextDue(BaseTrigger):  # type: ignore[misc]  # it ships no types
    """Fires at the earlier of the next due instant and ``every`` seconds from now.

    Due instants are by ``clock``. How long it waits is by the system's clock.
    """

    def __init__(self, next_due: Callable[[], datetime | None], clock: Clock, every: float) -> None:
        self._next_due = next_due
        self._clock = clock
        self._every = timedelta(seconds=every)

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """See APScheduler. Always after ``now``."""
        del previous_fire_time
        due = self._next_due()
        wait = self._every if due is None else min(self._every, due - self._clock.now())
        return now + (wait if wait > timedelta() else _SOONEST)


class Waker:
    """Sets an event whenever something may be due: at the latest ``look`` seconds after the clock was set (by default ``every`` / 30)."""

    def __init__(self, next_due: Callable[[], datetime | None], clock: Clock, every: float, look: float | None = None) -> None:
        self._clock = clock
        self._look = every / _LOOKS if look is None else look
        self._offset = 0.0
        self._trigger = NextDue(next_due, clock, every)
        self._every = every
        self._event = asyncio.Event()
        self._scheduler = AsyncIOScheduler(timezone="UTC")
        self._guard: asyncio.TimerHandle | None = None
        self._woken_at = 0.0

    def start(self) -> None:
        """Begin."""
        self._scheduler.add_job(
            self._wake, self._trigger, id="wake", coalesce=True, max_instances=1, misfire_grace_time=None
        )  # a wake-up that comes late is due all the same: without the last argument one is dropped after a second
        self._scheduler.start()
        self._woken_at = asyncio.get_running_loop().time()
        self._offset = self._offset_now()
        self._watch()

    def plan(self) -> None:
        """Take up the next due instant."""
        if self._scheduler.running:
            now = datetime.now(UTC)
            self._scheduler.modify_job("wake", next_run_time=self._trigger.get_next_fire_time(None, now))

    async def woken(self) -> None:
        """Wait for the next wake-up."""
        await self._event.wait()
        self._event.clear()

    def stop(self) -> None:
        """Wake no more."""
        if self._guard is not None:
            self._guard.cancel()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    async def _wake(self) -> None:
        self._woken_at = asyncio.get_running_loop().time()
        self._event.set()

    def _watch(self) -> None:
        """Wake when APScheduler does not: its wait is planned by the wall clock, and goes by the monotonic one.

        Set back by an hour, the clock would let it wait an hour longer; set forward, or with the machine asleep, it would be late.
        """
        loop, offset = asyncio.get_running_loop(), self._offset_now()
        if loop.time() - self._woken_at > self._every + 1 or abs(offset - self._offset) > _SET:
            self._offset = offset
            self._woken_at = loop.time()
            self._event.set()
        self._guard = loop.call_later(self._look, self._watch)

    def _offset_now(self) -> float:
        """Return the seconds between the clock and the loop's, which change when the clock is set and when the machine has slept."""
        return self._clock.now().timestamp() - asyncio.get_running_loop().time()
