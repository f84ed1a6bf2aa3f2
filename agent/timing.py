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
    loop = asyncio.get_running_loop()
    left, wait, began = seconds, min(SLICE, max(seconds, 0.0)), loop.time()
    timer: asyncio.TimerHandle

    def look() -> None:  # a timer and no task: every turn has one
        nonlocal left, wait, began, timer
        now = loop.time()
        left -= min(now - began, max(wait, 2 * SLICE))
        if left <= 0:
            limit.reschedule(now)
            return
        wait, began = min(SLICE, left), now
        timer = loop.call_later(wait, look)

    async with asyncio.timeout(None) as limit:
        timer = loop.call_later(wait, look)
        try:
            yield
        finally:
            timer.cancel()
