"""Holds signals that ask a command to end while it does what must not end half."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Final, Self

_ASKING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class HeldSignals:
    """Until ``hold`` is called, a signal interrupts; from then on it waits, and ``came`` is its number (0 for none).

    Signals that the process ignores stay ignored. Outside of the main thread, which alone hears signals, it does nothing.
    """

    def __init__(self) -> None:
        self.came = 0
        self._holds = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _ASKING:
                if (before := signal.getsignal(number)) not in {signal.SIG_IGN, None}:
                    self._before[number] = before
                    signal.signal(number, self._heard)
        return self

    def hold(self) -> None:
        """Let signals wait from now on."""
        self._holds = True

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        if not self._holds:
            raise KeyboardInterrupt
        self.came = self.came or number

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
