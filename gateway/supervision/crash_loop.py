"""Crash-loop breaker: after repeated crashes, the gateway starts paused."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent.timing import Clock

NAME = "starts.json"
WITHIN = timedelta(minutes=5)
TOO_OFTEN = 3
KEPT = 10
OFTEN_CRASHED = (
    "I crashed three times within five minutes and paused, because a message or task may be the cause. I still accept "
    "and store messages. Check my log, then send /resume or run: homebody resume"
)


class CrashLoopBreaker:
    """Records when the gateway was started, and which runs ended cleanly. Does blocking I/O on a small file.

    If the file cannot be read or written, crashes are not counted.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._path = folder / NAME
        self._clock = clock
        self._mine: float | None = None

    def begin(self) -> int:
        """Record a start; return how many runs of the last five minutes crashed."""
        now = self._clock.now()
        lives = self._read()
        crashed = sum(1 for at, clean in lives if not clean and now - datetime.fromtimestamp(at, UTC) <= WITHIN)
        self._mine = now.timestamp()
        self._write([*lives, (self._mine, False)])
        return crashed

    def end(self) -> None:
        """Record that this run ends cleanly."""
        self._write([(at, clean or at == self._mine) for at, clean in self._read()])

    def _read(self) -> list[tuple[float, bool]]:
        try:
            return [(float(at), bool(clean)) for at, clean in json.loads(self._path.read_text())]
        except (OSError, ValueError, TypeError):
            return []

    def _write(self, lives: list[tuple[float, bool]]) -> None:
        fresh = self._path.with_name(f".{NAME}.{os.getpid()}.tmp")
        try:
            fresh.write_text(json.dumps(lives[-KEPT:]))
            fresh.replace(self._path)
        except OSError:
            return
