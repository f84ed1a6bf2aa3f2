"""The system clock, one that runs faster than it, and a manual clock for tests."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial


def _since_boot() -> float:
    """Return the seconds since the machine started, those in which it slept too, where the system counts them (Linux)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SystemClock:
    """The system clock."""

    now: Callable[[], datetime] = staticmethod(partial(datetime.now, UTC))
    monotonic: Callable[[], float] = staticmethod(time.monotonic)
    since_boot: Callable[[], float] = staticmethod(_since_boot if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic)
    """``monotonic``, with the time in which the machine slept."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class PacedClock(SystemClock):
    """A clock that runs ``pace`` times as fast as the system's, and never stands still or goes back; the pace may change at any time.

    It has weeks pass in minutes for a whole gateway. Limits of network calls and the watchdog go by asyncio's timers, so that they
    mean the same number of real seconds at any pace.
    """

    def __init__(self, now: datetime, pace: float = 1.0) -> None:
        self._at = now
        self._read = time.monotonic()
        self._elapsed = 0.0
        self._pace = pace
        self._changed = asyncio.Event()

    @property
    def pace(self) -> float:
        """How many of its seconds pass in one."""
        return self._pace

    @pace.setter
    def pace(self, pace: float) -> None:
        self._elapsed, self._read = self.monotonic(), time.monotonic()
        self._pace = pace
        self._changed.set()  # sleepers work out anew how long they have to wait
        self._changed = asyncio.Event()

    def now(self) -> datetime:
        """Return its time, in UTC."""
        return self._at + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return its seconds since it was made."""
        return self._elapsed + (time.monotonic() - self._read) * self._pace

    since_boot = monotonic

    async def sleep(self, seconds: float) -> None:
        """Wait until so many of its seconds have passed."""
        due = self.monotonic() + seconds
        if seconds <= 0:
            await asyncio.sleep(0)
        while (left := due - self.monotonic()) > 0:
            changed = self._changed
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left / self._pace):
                    await changed.wait()


class ManualClock:
    """A clock for tests that only changes when it is advanced; sleepers wake when their time is reached."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Return its time."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds by which it was advanced."""
        return self._elapsed

    @property
    def alarms(self) -> list[float]:
        """Wake-up times of the sleepers, in ``monotonic`` seconds."""
        return [at for at, _ in self._sleepers]

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was advanced by ``seconds``."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._elapsed + seconds, woken))
        await woken

    def move(self, seconds: float) -> None:
        """Advance the clock and wake sleepers whose time is reached."""
        self._elapsed += seconds
        self._now += timedelta(seconds=seconds)
        due = [future for at, future in self._sleepers if at <= self._elapsed]
        self._sleepers = [(at, future) for at, future in self._sleepers if at > self._elapsed]
        for future in due:
            if not future.done():
                future.set_result(None)

    def set(self, now: datetime) -> None:
        """Advance the clock to a time."""
        self.move((now - self._now).total_seconds())


class TickingClock(ManualClock):
    """A manual clock that advances a little each time it is read, like a real one."""

    def __init__(self, now: datetime, step: float = 0.001) -> None:
        super().__init__(now)
        self._step = step

    def now(self) -> datetime:
        """Return its time, ``step`` seconds after the previous one."""
        self.move(self._step)
        return super().now()
