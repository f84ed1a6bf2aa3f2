"""Time, from outside: the system's clock, and one that tests turn by hand."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta


class SystemClock:
    """The clock on the wall."""

    def now(self) -> datetime:
        """Return the current instant, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that stands still until it is moved; sleepers wake when their time has come."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Return the instant it shows."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds it was moved so far."""
        return self._elapsed

    @property
    def alarms(self) -> list[float]:
        """When those who sleep will wake, as ``monotonic`` counts."""
        return [at for at, _ in self._sleepers]

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was moved by that much."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._elapsed + seconds, woken))
        await woken

    def move(self, seconds: float) -> None:
        """Move on, and wake those whose time has come."""
        self._elapsed += seconds
        self._now += timedelta(seconds=seconds)
        due = [future for at, future in self._sleepers if at <= self._elapsed]
        self._sleepers = [(at, future) for at, future in self._sleepers if at > self._elapsed]
        for future in due:
            if not future.done():
                future.set_result(None)

    def set(self, now: datetime) -> None:
        """Move on to an instant."""
        self.move((now - self._now).total_seconds())


class TickingClock(ManualClock):
    """A manual clock that moves on by itself each time it is looked at, as a real one does: two looks are two instants."""

    def __init__(self, now: datetime, step: float = 0.001) -> None:
        super().__init__(now)
        self._step = step

    def now(self) -> datetime:
        """Return the instant it shows, ``step`` seconds after the one before."""
        self.move(self._step)
        return super().now()
