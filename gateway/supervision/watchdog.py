"""Watching the event loop: when it stands still, the log tells what it was doing, and after a long while the process may end.

It ends only where somebody starts it again (a supervisor): a house that stands still answers nobody, and one that is started anew
takes up what it had begun. That counts as a crash, so a house that stands still again and again comes to a pause (see
``gateway.supervision.crash_loop``).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

TICK = 0.25
STALLED = 1.0
"""Seconds without a turn of the loop that are told."""
HOPELESS = 30.0
"""Seconds without a turn of the loop after which the process ends, where it is started again."""
STOOD_STILL = 75
"""The exit code then: EX_TEMPFAIL of sysexits(3)."""


def supervised(env: Mapping[str, str]) -> bool:
    """Tell whether systemd started this process, which restarts it as its unit says."""
    return "INVOCATION_ID" in env


def end_at_once() -> None:
    """End the process without asking the event loop, which would not answer."""
    os._exit(STOOD_STILL)


class Watchdog:
    """A thread that looks whether the loop of the thread that made it still turns. Use as a context manager.

    ``end`` is called after ``HOPELESS`` seconds, counted by the looks that this thread took: a machine that slept, or a process
    that was stopped, did not stand still by itself.
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
        self._beat = time.monotonic()
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
            still = time.monotonic() - self._beat
            self._looks += 1
            if still < self._stalled:
                told = False
            elif not told:
                told = True
                self.stalls += 1
                log.error("the event loop has stood still for %.1f seconds, here:\n%s", still, self._where())
            if self._end is not None and self._looks * self._tick >= self._hopeless:
                self._give_up(self._end)
                return
            try:
                self._loop.call_soon_threadsafe(self._note)
            except RuntimeError:  # the loop is closed
                return

    def _give_up(self, end: Callable[[], None]) -> None:
        """Say why, if the log can be written to at all (whoever stands still may hold it), and end."""
        told = (
            f"the event loop does not turn any more; the process ends and is to be started again. It was here:\n{self._where()}"
        )
        telling = threading.Thread(target=lambda: log.critical(told), daemon=True)
        telling.start()
        telling.join(2)
        end()

    def _note(self) -> None:
        self._beat = time.monotonic()
        self._looks = 0

    def _where(self) -> str:
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001  (the documented way to see another thread's stack)
        return "".join(traceback.format_stack(frame)) if frame else "(the thread is gone)"
