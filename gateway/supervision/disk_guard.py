"""Watches free disk space: warns the owner, and frees a reserve file when the disk is full so that running turns can be stored."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from agent.timing import Clock
from gateway.supervision.written_folders import WrittenFolder, existing

log = logging.getLogger(__name__)

MB: Final = 1024 * 1024
LOW: Final = 200 * MB
OUT: Final = 32 * MB
OTHER_LOW: Final = 50 * MB
OTHER_OUT: Final = 4 * MB
"""The same for disks without which the gateway still answers: notes are small, and what fits is kept."""
RESERVE: Final = 8 * MB
CHECK_EVERY: Final = 30.0

Level = Literal["fine", "low", "out"]


class Disk(Struct, frozen=True):
    """A disk that the gateway writes to, named by a ``folder`` on it.

    ``lost``: what is not kept while it is full; "" where nothing works then.
    """

    folder: Path
    lost: str = ""
    level: Level = "fine"
    free: int = 0
    written: bool = True
    """Whether anything is written there still: an agent may have been removed."""

    @property
    def stops(self) -> bool:
        """Whether the gateway does not work while this disk is full."""
        return not self.lost

    @property
    def limits(self) -> tuple[int, int]:
        """The free bytes below which space is low, and below which there is none."""
        return (LOW, OUT) if self.stops else (OTHER_LOW, OTHER_OUT)

    def warning(self) -> str:
        """Return what its owner is told of the level."""
        place, free, low = f"the disk of {self.folder}", self.free // MB, self.limits[0] // MB
        if not self.written:
            return f"Nothing is written to {place} any more."
        if self.level == "fine":
            return f"There is enough space again on {place} ({free} MB free)."
        if self.level == "low":
            return f"Little space is left on {place}: {free} MB. Free some space soon."
        if self.stops:
            return (
                f"No space is left on {place} ({free} MB). I accept messages but do not process them until {low} MB are free."
            )
        return (
            f"No space is left on {place} ({free} MB). I go on answering, but what I write there is not kept ({self.lost}). "
            f"Free some space ({low} MB): du -xh --max-depth=2 {self.folder} | sort -h | tail"
        )

    def short(self) -> str:
        """Say that it is full, in the words of a status."""
        free, low = self.free // MB, self.limits[0] // MB
        return f"no space is left on the disk of {self.folder} ({free} MB), and it works again once {low} MB are free"


class DiskGuard:
    """Checks the free space every 30 s, and keeps a reserve file in ``reserve_in`` that is deleted when space runs out there.

    ``folders`` returns those that are written to. ``changed`` is called on each change of the level of one of their disks, ``gone`` when
    the file ``watched``, which was there, is not any more. ``free`` returns the free bytes at a path, ``device`` the number of its disk.
    """

    def __init__(
        self,
        reserve_in: Path,
        folders: Callable[[], Iterable[WrittenFolder]],
        clock: Clock,
        changed: Callable[[Disk], None],
        *,
        watched: Path | None = None,
        gone: Callable[[Path], None] = lambda _: None,
        free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
        device: Callable[[Path], int] = lambda path: path.stat().st_dev,
    ) -> None:
        self._folders = folders
        self._reserve = reserve_in / "reserve"
        self._clock = clock
        self._changed = changed
        self._gone = gone
        self._watched = watched
        self._was_there = False
        self._free = free
        self._device = device
        self._levels: dict[Path, Disk] = {}
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
        if self._watched is not None and self._watched.exists() != self._was_there:
            self._was_there = not self._was_there
            if not self._was_there:
                self._gone(self._watched)
        disks, unknown = self._disks()
        for gone in self._levels.keys() - {disk.folder for disk in disks} - unknown:
            disks.append(replace(self._levels[gone], level="fine", written=False))
        for found in disks:
            was: Level = self._levels[found.folder].level if found.folder in self._levels else "fine"
            disk = found
            if found.level == "low" and was == "out":
                disk = replace(found, level="out")  # out of it only with room to spare, so that it does not go to and fro
            if disk.level == "fine":
                self._levels.pop(disk.folder, None)
            else:
                self._levels[disk.folder] = disk
            if disk.level != was:
                self._changed(disk)

    def _disks(self) -> tuple[list[Disk], set[Path]]:
        """Look at the disks of all folders; return them, and the folders of which nothing can be known."""
        found: dict[int, Disk] = {}
        unknown: set[Path] = set()
        for folder in self._folders():
            try:
                there = existing(folder.path)
                device = self._device(there)
                if (known := found.get(device)) is None:
                    found[device] = self._looked_at(Disk(folder.path, folder.lost), there, device)
                elif known.lost and folder.lost not in known.lost.split(", "):
                    found[device] = replace(known, lost=f"{known.lost}, {folder.lost}")
            except OSError as error:
                log.warning("could not check the free disk space: %s", error)
                unknown.add(folder.path)
        return list(found.values()), unknown

    def _looked_at(self, disk: Disk, there: Path, device: int) -> Disk:
        low, out = disk.limits
        free = self._free(there)
        level: Level = "out" if free < out else "low" if free < low else "fine"
        if device == self._device(self._reserve.parent):
            if level == "out":
                self._reserve.unlink(missing_ok=True)
            elif level == "fine" and not self._reserve.exists():
                self._fill()
        return replace(disk, level=level, free=free)

    def _fill(self) -> None:
        descriptor = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, RESERVE)
            else:
                os.write(descriptor, b"\0" * RESERVE)
        finally:
            os.close(descriptor)
