"""Wakes the scheduler: one timer for the next due instant, and a look at the clock now and then, because clocks are set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

from agent.timing import Clock

_SOONEST: Final = 0.2
"""Seconds until the wake-up for what is due already."""
_SET: Final = 1.0
"""Seconds by which the clock must have been set: less is the clock being corrected, and late by no more."""
_LOOKS: Final = 30
"""How often the clock is looked at in the time between two wake-ups: what is due after it was set is late by no more than that."""


def seconds_until(due: datetime | None, now: datetime, every: float) -> float:
    """Return how long to wait for the earlier of ``due`` and ``every`` seconds from now. Never nothing."""
    wait = every if due is None else min(every, (due - now).total_seconds())
    return wait if wait > 0 else _SOONEST


class Waker:
    """Sets an event whenever something may be due: at the latest ``look`` seconds after the clock was set (by default ``every`` / 30).

    Due instants are by ``clock``. How long it waits is by the loop's clock, which nobody sets.
    """

    def __init__(self, next_due: Callable[[], datetime | None], clock: Clock, every: float, look: float | None = None) -> None:
        self._next_due = next_due
        self._clock = clock
        self._every = every
        self._look = every / _LOOKS if look is None else look
        self._offset = 0.0
        self._event = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._guard: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin."""
        self._offset = self._offset_now()
        self._guard = asyncio.get_running_loop().call_later(self._look, self._watch)
        self.plan()

    def plan(self) -> None:
        """Take up the next due instant."""
        if self._guard is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        wait = seconds_until(self._next_due(), self._clock.now(), self._every)
        self._timer = asyncio.get_running_loop().call_later(wait, self._wake)

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

    def _wake(self) -> None:
        self._event.set()
        self.plan()

    def _watch(self) -> None:
        """Wake when the clock was set, or the machine has slept: the timer was planned before that."""
        offset = self._offset_now()
        if abs(offset - self._offset) > _SET:
            self._offset = offset
            self._wake()
        self._guard = asyncio.get_running_loop().call_later(self._look, self._watch)

    def _offset_now(self) -> float:
        """Return the seconds between the clock and the loop's, which change when the clock is set and when the machine has slept."""
        return self._clock.now().timestamp() - asyncio.get_running_loop().time()
