"""Durable writes of small files. With ``write_atomically`` a reader sees either the old text or the new one."""

from __future__ import annotations

import contextlib
import glob
import os
import time
from pathlib import Path

_OLD = 60.0
"""Seconds after which a temporary file belongs to nobody: it is written in one go."""


def write_atomically(path: Path, text: str, *, durable: bool = False) -> None:
    """Replace a file's text; the file has mode 0600. ``durable`` syncs the file and its folder.

    Raises:
        OSError: it cannot be written; the old file is unchanged, and no temporary file is left.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:  # also when interrupted
        fresh.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def remove_left(path: Path) -> None:
    """Remove what processes that were killed while they wrote a file have left beside it: those that no process writes any more."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        number = left.name.removesuffix(".tmp").rpartition(".")[2]
        with contextlib.suppress(OSError):
            if number.isdecimal() and time.time() - left.stat().st_mtime > _OLD:
                left.unlink()


def stamp_of(path: Path) -> tuple[int, int, int] | None:
    """Return what changes whenever a file is replaced or written; None where there is none, or it cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def write_synced(path: Path, data: bytes) -> None:
    """Write a file with mode 0600 and sync it. A link is not followed. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Sync a file, or a folder so that new and renamed files in it survive a power loss. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
