"""The crash breaker: a house that falls over again and again must not be driven by its own work into falling over for ever."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from agent.timing import Clock

NAME = "starts.json"
WITHIN = timedelta(minutes=5)
TOO_OFTEN = 3
KEPT = 10
OFTEN_CRASHED = (
    "I fell over three times within five minutes. I take messages and keep them, but do not work on them, so that whatever "
    "brings me down cannot do so again. Look at my log; then say /resume, or run: homebody resume"
)


class CrashLoopBreaker:
    """When the house was started, and which of these lives ended in order. Blocking, and small.

    A file that cannot be read or written makes no difference but that crashes are not counted.
    """

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._path = folder / NAME
        self._clock = clock
        self._mine: float | None = None

    def begin(self) -> int:
        """Note a start; return how many lives of the last five minutes did not end in order."""
        now = self._clock.now()
        lives = self._read()
        crashed = sum(1 for at, clean in lives if not clean and now - datetime.fromtimestamp(at, UTC) <= WITHIN)
        self._mine = now.timestamp()
        self._write([*lives, (self._mine, False)])
        return crashed

    def end(self) -> None:
        """Note that the life begun by ``begin`` ends in order."""
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
