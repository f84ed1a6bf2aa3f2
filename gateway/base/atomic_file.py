"""Atomic writes of small files: a reader sees either the old text or the new one."""

from __future__ import annotations

import os
from pathlib import Path


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
        _settle(path.parent)


def _settle(folder: Path) -> None:
    """Sync a folder, so that new and renamed files survive a power loss."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
