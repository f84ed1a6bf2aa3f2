"""Watching the event loop: when it stands still, the log tells what it was doing."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from typing import Self

log = logging.getLogger(__name__)

TICK = 0.25
STALLED = 1.0
"""Seconds without a turn of the loop that are told."""


class Watchdog:
    """A thread that looks whether the loop of the thread that made it still turns. Use as a context manager."""

    def __init__(self, *, stalled: float = STALLED, tick: float = TICK) -> None:
        self._stalled = stalled
        self._tick = tick
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._beat = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self.stalls = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        told = False
        while not self._over.wait(self._tick):
            still = time.monotonic() - self._beat
            if still < self._stalled:
                told = False
            elif not told:
                told = True
                self.stalls += 1
                log.error("the event loop has stood still for %.1f seconds, here:\n%s", still, self._where())
            try:
                self._loop.call_soon_threadsafe(self._note)
            except RuntimeError:  # the loop is closed
                return

    def _note(self) -> None:
        self._beat = time.monotonic()

    def _where(self) -> str:
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001  (the documented way to see another thread's stack)
        return "".join(traceback.format_stack(frame)) if frame else "(the thread is gone)"
