"""Checks the space on the disks that the gateway writes to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok
from gateway.supervision.disk_guard import MB, Disk
from gateway.supervision.written_folders import existing, written_folders

FEW_INODES: Final = 2_000
_PAUSED: Final = "Below 32 MB the gateway accepts messages and does not process them; nothing that was confirmed is lost."
_NOT_KEPT: Final = "When it is full, the gateway goes on answering, and what it writes there is not kept: {}."


def _examine(installation: Installation) -> Iterator[Finding]:
    found: dict[int, tuple[Path, Disk]] = {}
    for folder in written_folders(installation.paths, installation.valid_settings):
        there = existing(folder.path)
        _, disk = found.setdefault(there.stat().st_dev, (there, Disk(folder.path, folder.lost)))
        if disk.lost and folder.lost not in disk.lost.split(", "):
            found[there.stat().st_dev] = there, replace(disk, lost=f"{disk.lost}, {folder.lost}")
    for there, disk in found.values():
        yield from _of(there, disk)


def _of(place: Path, disk: Disk) -> Iterator[Finding]:
    free, inodes = shutil.disk_usage(place).free, os.statvfs(place)
    low, out = disk.limits
    why = _PAUSED if disk.stops else _NOT_KEPT.format(disk.lost)
    mend = f"Free some space there: du -xh --max-depth=2 {place} | sort -h | tail"
    if free < out:
        what = f"no space is left: {free // MB} MB are free"
        yield Finding(level="error", what=what, where=str(place), why=why, mend=mend)
    elif free < low:
        what = f"little space is left: {free // MB} MB are free"
        yield Finding(level="warning", what=what, where=str(place), why=why, mend=mend)
    elif inodes.f_files and inodes.f_favail < FEW_INODES:
        what = f"room is left for {inodes.f_favail} more files only (inodes)"
        yield Finding(
            level="warning",
            what=what,
            where=str(place),
            why="No file can be made then.",
            mend="Delete what has many small files.",
        )
    elif inodes.f_flag & os.ST_RDONLY:
        what = "the file system is read-only"
        yield Finding(
            level="error",
            what=what,
            where=str(place),
            why="Nothing can be stored.",
            mend="Look for errors of the disk: sudo dmesg | tail, then mount it writable",
        )
    else:
        yield ok(f"{free / MB / 1024:.1f} GB are free on the disk of {place}")


DISK = Check(name="disk", examine=_examine, quick=True)
