"""Small files of the house's own, written whole: a reader finds the old text or the new one, never a part."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_atomically(path: Path, text: str, *, durable: bool = False) -> None:
    """Put ``text`` in the place of a file that only its owner may read. ``durable`` waits until the disk has it, and its name.

    Raises:
        OSError: it cannot be written; the former file stands, and nothing half-written is left.
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
    """Have the disk keep a folder's names."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
