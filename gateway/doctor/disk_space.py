"""Checks the space on the disks of state, workspaces and logs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok
from gateway.supervision.disk_guard import LOW, MB, OUT

FEW_INODES: Final = 2_000
_PAUSED: Final = "Below 32 MB the gateway accepts messages and does not process them; nothing that was confirmed is lost."


def _examine(installation: Installation) -> Iterator[Finding]:
    places = [installation.paths.home]
    if (settings := installation.valid_settings) is not None:
        places += [profile.workspace for profile in installation.profiles]
        places += [settings.logging.file] if settings.logging.file else []
    seen: set[int] = set()
    for place in places:
        there = _existing(place)
        device = there.stat().st_dev
        if device not in seen:
            seen.add(device)
            yield from _of(there)


def _existing(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.exists())


def _of(place: Path) -> Iterator[Finding]:
    free, inodes = shutil.disk_usage(place).free, os.statvfs(place)
    mend = f"Free some space there: du -xh --max-depth=2 {place} | sort -h | tail"
    if free < OUT:
        what = f"no space is left: {free // MB} MB are free"
        yield Finding(level="error", what=what, where=str(place), why=_PAUSED, mend=mend)
    elif free < LOW:
        what = f"little space is left: {free // MB} MB are free"
        yield Finding(level="warning", what=what, where=str(place), why=_PAUSED, mend=mend)
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
