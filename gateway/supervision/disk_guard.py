"""Watches free disk space: warns the owner, and frees a reserve file when the disk is full so that running turns can be stored."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from agent.timing import Clock

log = logging.getLogger(__name__)

MB = 1024 * 1024
LOW = 200 * MB
OUT = 32 * MB
RESERVE = 8 * MB
CHECK_EVERY = 30.0

Level = Literal["fine", "low", "out"]


class DiskGuard:
    """Checks the free space every 30 s, and keeps a reserve file that is deleted when space runs out.

    ``changed`` is called on each change of the level, with a line for the owner, and a short one where the disk is full. ``free`` returns
    the free bytes at a path.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        changed: Callable[[Level, str, str], None],
        *,
        free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
    ) -> None:
        self._folder = folder
        self._reserve = folder / "reserve"
        self._clock = clock
        self._changed = changed
        self._free = free
        self.level: Level = "fine"
        self._soon = asyncio.Event()

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            self._soon.clear()
            await asyncio.to_thread(self.check)
            either = [asyncio.ensure_future(self._clock.sleep(CHECK_EVERY)), asyncio.ensure_future(self._soon.wait())]
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in either:
                    one.cancel()

    def soon(self) -> None:
        """Have ``run`` check at once."""
        self._soon.set()

    def check(self) -> None:
        """Check once. Does blocking I/O."""
        try:
            free = self._free(self._folder)
            level: Level = "out" if free < OUT else "low" if free < LOW else "fine"
            if level == "out":
                self._reserve.unlink(missing_ok=True)
            elif level == "fine" and not self._reserve.exists():
                self._fill()
        except OSError as error:
            log.warning("could not check the free disk space: %s", error)
            return
        if level == "low" and self.level == "out":
            level = "out"  # out of it only with room to spare, so that it does not go to and fro
        if level != self.level:
            self.level = level
            self._changed(level, self._warning(level, free), self._short(free) if level == "out" else "")

    def _warning(self, level: Level, free: int) -> str:
        place = f"the disk of {self._folder}"
        if level == "fine":
            return f"There is enough space again on {place} ({free // MB} MB free)."
        if level == "low":
            return f"Little space is left on {place}: {free // MB} MB. Free some space soon."
        return f"No space is left on {place} ({free // MB} MB). I accept messages but do not process them until {LOW // MB} MB are free."

    def _short(self, free: int) -> str:
        place = f"the disk of {self._folder}"
        return f"no space is left on {place} ({free // MB} MB), and it works again once {LOW // MB} MB are free"

    def _fill(self) -> None:
        descriptor = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, RESERVE)
            else:
                os.write(descriptor, b"\0" * RESERVE)
        finally:
            os.close(descriptor)
