"""How late the event loop is. It is looked at once a second, and only after somebody has asked."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.telemetry.recorder import FAST, Histogram

EVERY: Final = 1.0


class LoopLag:
    """A timer whose delay is measured. ``start`` may be called again."""

    def __init__(self) -> None:
        self.seconds = Histogram(FAST)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to look."""
        if self._timer is None:
            self._next()

    def stop(self) -> None:
        """End it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(loop.time() + EVERY, self._measure, loop.time() + EVERY)

    def _measure(self, due: float) -> None:
        self.seconds.add(max(0.0, asyncio.get_running_loop().time() - due))
        self._next()
