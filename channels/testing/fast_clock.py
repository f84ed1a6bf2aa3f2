"""A clock for the rules: whoever waits by it waits no time at all, so that a back-off of a minute costs a test nothing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta


class FastClock:
    """A ``Clock`` whose time passes only by sleeping. ``slept`` keeps what the sleepers asked for."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        """Return a day in 2026, and what was slept since."""
        return datetime(2026, 5, 1, 9, tzinfo=UTC) + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return what was slept, in all."""
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        """Let the others go first."""
        self.slept.append(seconds)
        await asyncio.sleep(0)
