"""The clock that is handed in, and time limits that do not count while the process is stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """A wall clock and a stopwatch."""

    def now(self) -> datetime:
        """Return the current instant, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


SLICE = 5.0
"""Seconds between two looks at the clock. What passes beyond twice that in one of them, the process was stopped or the machine asleep."""


@contextlib.asynccontextmanager
async def running_limit(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError in the block once it has run for so long. A pause of the whole process counts for a moment only.

    A laptop that slept, or a virtual machine that was stopped, must not end what it was about to go on with.
    """
    async with asyncio.timeout(None) as limit:
        countdown = _Countdown(limit, seconds)
        try:
            yield
        finally:
            countdown.timer.cancel()


class _Countdown:
    """Ends a time limit once its seconds have passed. A timer and no task: every turn has one."""

    def __init__(self, limit: asyncio.Timeout, seconds: float) -> None:
        self._limit = limit
        self._left = seconds
        self._loop = asyncio.get_running_loop()
        self.timer = self._next()

    def _next(self) -> asyncio.TimerHandle:
        self._wait = min(SLICE, max(self._left, 0.0))
        self._began = self._loop.time()
        return self._loop.call_later(self._wait, self._check)

    def _check(self) -> None:
        now = self._loop.time()
        self._left -= min(now - self._began, max(self._wait, 2 * SLICE))
        if self._left > 0:
            self.timer = self._next()
        else:
            self._limit.reschedule(now)
