"""Wakes the scheduler: a timer that follows the jobs, and a guard against clocks that are set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from agent.timing import Clock

_SOONEST: Final = timedelta(milliseconds=200)
"""The soonest wake-up for what is due already."""
_SET: Final = 1.0
"""Seconds by which the clock must have been set: less is the clock being corrected, and late by no more."""
_LOOKS: Final = 30
"""How often the guard looks in the time between two wake-ups: what is due after the clock was set is late by no more than that."""


def time_until(due: datetime | None, now: datetime, every: timedelta) -> timedelta:
    """Return how long to wait: until ``due``, and at most ``every``. Always more than nothing."""
    wait = every if due is None else min(every, due - now)
    return wait if wait > timedelta() else _SOONEST


class Waker:
    """Sets an event whenever something may be due: at the latest ``look`` seconds after the clock was set (by default ``every`` / 30).

    Due instants are by ``clock``. How long it waits is by the event loop's, which nobody sets.
    """

    def __init__(self, next_due: Callable[[], datetime | None], clock: Clock, every: float, look: float | None = None) -> None:
        self._next_due = next_due
        self._clock = clock
        self._every = timedelta(seconds=every)
        self._look = every / _LOOKS if look is None else look
        self._offset = 0.0
        self._event = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._guard: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin."""
        self._offset = self._offset_now()
        self._watch()
        self._set_timer()

    def plan(self) -> None:
        """Take up the next due instant."""
        if self._timer is not None:
            self._timer.cancel()
            self._set_timer()

    async def woken(self) -> None:
        """Wait for the next wake-up."""
        await self._event.wait()
        self._event.clear()

    def stop(self) -> None:
        """Wake no more."""
        for timer in (self._timer, self._guard):
            if timer is not None:
                timer.cancel()
        self._timer = self._guard = None

    def _set_timer(self) -> None:
        wait = time_until(self._next_due(), self._clock.now(), self._every)
        self._timer = asyncio.get_running_loop().call_later(wait.total_seconds(), self._wake)

    def _wake(self) -> None:
        self._event.set()
        self._set_timer()

    def _watch(self) -> None:
        """Wake when the clock was set or the machine has slept: the timer knows nothing of either."""
        offset = self._offset_now()
        if abs(offset - self._offset) > _SET:
            self._offset = offset
            self._event.set()
            self.plan()
        self._guard = asyncio.get_running_loop().call_later(self._look, self._watch)

    def _offset_now(self) -> float:
        """Return the seconds between the clock and the loop's, which change when the clock is set and when the machine has slept."""
        return self._clock.now().timestamp() - asyncio.get_running_loop().time()
