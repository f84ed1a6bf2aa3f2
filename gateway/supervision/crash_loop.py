"""Crash-loop breaker: after repeated crashes, the gateway starts paused."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

from agent.timing import Clock

NAME = "starts.json"
WITHIN = timedelta(minutes=5)
TOO_OFTEN = 3
KEPT = 10
_TOLD: Final = 2
OFTEN_CRASHED = (
    f"I crashed {TOO_OFTEN} times within {WITHIN // timedelta(minutes=1)} minutes and paused, because a message or task "
    "may be the cause. I still accept and store messages. Check my log, then send /resume or run: homebody resume"
)

CRASHED_SHORT = (
    f"it crashed {TOO_OFTEN} times within {WITHIN // timedelta(minutes=1)} minutes; look at its log, then run: homebody resume"
)

PauseMark = Literal[0, 1, 2]
"""Whether a run is paused: not, yes, or yes and its owner was told."""


class CrashLoopBreaker:
    """Records when the gateway was started, which runs ended cleanly, and which are paused. Does blocking I/O on a small file.

    If the file cannot be read or written, crashes are not counted. A pause goes on over restarts until ``resumed``, or a start without
    crashes before it.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._path = folder / NAME
        self._clock = clock
        self._mine: float | None = None
        self._pause: PauseMark = 0

    def begin(self) -> int:
        """Record a start; return how many runs of the last ``WITHIN`` crashed."""
        now = self._clock.now()
        lives = self._read()
        crashed = sum(1 for at, clean, _ in lives if not clean and now - datetime.fromtimestamp(at, UTC) <= WITHIN)
        before = lives[-1][2] if lives else 0
        self._pause = (before or 1) if crashed >= TOO_OFTEN else 0
        self._mine = now.timestamp()
        self._write([*lives, (self._mine, False, self._pause)])
        return crashed

    @property
    def owner_knows(self) -> bool:
        """Whether the owner was told of the pause that this run is in."""
        return self._pause == _TOLD

    def record_owner_told(self) -> None:
        """Record that the owner was told of the pause."""
        self._mark(_TOLD)

    def resumed(self) -> None:
        """Record that the pause is over."""
        self._mark(0)

    def _mark(self, pause: PauseMark) -> None:
        self._pause = pause
        self._write([(at, clean, pause if at == self._mine else mark) for at, clean, mark in self._read()])

    def end(self) -> None:
        """Record that this run ends cleanly."""
        self._write([(at, clean or at == self._mine, mark) for at, clean, mark in self._read()])

    def _read(self) -> list[tuple[float, bool, PauseMark]]:
        try:
            return [_life(*one) for one in json.loads(self._path.read_text())]
        except (OSError, ValueError, TypeError):
            return []

    def _write(self, lives: list[tuple[float, bool, PauseMark]]) -> None:
        fresh = self._path.with_name(f".{NAME}.{os.getpid()}.tmp")
        try:
            fresh.write_text(json.dumps(lives[-KEPT:]))
            fresh.replace(self._path)
        except OSError:
            return


def _life(at: Any, clean: Any, pause: Any = 0) -> tuple[float, bool, PauseMark]:
    """Return one run as it is stored; earlier versions did not store whether it was paused."""
    marks: dict[Any, PauseMark] = {1: 1, 2: 2}
    return float(at), bool(clean), marks.get(pause, 0)
