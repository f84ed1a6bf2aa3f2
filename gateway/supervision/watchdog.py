"""Watchdog of the event loop: logs the stack when the loop is blocked, and may end the process when it stays blocked.

The process ends only if a service manager restarts it; the restarted gateway resumes interrupted turns. This counts as a crash, so
a gateway that blocks repeatedly is paused (see ``gateway.supervision.crash_loop``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Self

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between two looks. Each wakes the loop, too, so that fewer of them cost an idle gateway less."""
STALLED = 1.0
"""Seconds of a blocked loop, counted from a look, after which the stack is logged."""
HOPELESS = 30.0
"""Seconds of a blocked loop after which the process ends, if it is restarted by a service manager."""
STOOD_STILL = 75
"""The exit code in that case: EX_TEMPFAIL of sysexits(3)."""


def supervised(env: Mapping[str, str]) -> bool:
    """Whether systemd started this process, and so restarts it."""
    return "INVOCATION_ID" in env


def end_at_once() -> None:
    """End the process without the event loop, which is blocked."""
    os._exit(STOOD_STILL)


class Watchdog:
    """A thread that checks whether the event loop of the creating thread still runs. A context manager.

    ``end`` is called after ``HOPELESS`` seconds, counted by this thread's own checks, so that a suspended machine or a stopped
    process does not count.
    """

    def __init__(
        self,
        *,
        stalled: float = STALLED,
        tick: float = TICK,
        hopeless: float = HOPELESS,
        end: Callable[[], None] | None = None,
    ) -> None:
        self._stalled = stalled
        self._tick = tick
        self._hopeless = hopeless
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._asked: float | None = None
        self._looks = 0
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
            now = time.monotonic()
            asked = self._asked
            still = 0.0 if asked is None else now - asked
            self._looks += 1
            if still < self._stalled:
                told = False
            elif not told:
                told = True
                self.stalls += 1
                log.error("the event loop has been blocked for %.1f seconds, here:\n%s", still, self._where())
            if self._end is not None and self._looks * self._tick >= self._hopeless:
                self._give_up(self._end)
                return
            if asked is None:
                self._asked = now
                try:
                    self._loop.call_soon_threadsafe(self._note)
                except RuntimeError:  # the loop is closed
                    return

    def _give_up(self, end: Callable[[], None]) -> None:
        """Log the reason, unless the blocked thread holds the log's lock, and end the process."""
        text = f"the event loop is blocked; the process ends and must be restarted. It was here:\n{self._where()}"
        telling = threading.Thread(target=lambda: log.critical(text), daemon=True)
        telling.start()
        telling.join(2)
        end()

    def _note(self) -> None:
        self._asked = None
        self._looks = 0

    def _where(self) -> str:
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001  (the documented way to see another thread's stack)
        return "".join(traceback.format_stack(frame)) if frame else "(the thread has ended)"
