"""The file of the log, which is rotated by its size."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


class RotatedFile:
    """Appends lines to ``path``; at ``max_bytes`` it becomes ``path.1``, the former ``path.1`` ``path.2``, up to ``keep``.

    A file that another process put aside or deleted is noticed and begun anew. Methods raise OSError, after which
    nothing of the line is in the file and the next call tries afresh. One thread at a time.
    """

    def __init__(self, path: Path, *, max_bytes: int, keep: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._descriptor = -1

    def write(self, line: bytes) -> None:
        """Append one line, which ends in a newline."""
        size = self._ready()
        if size and size + len(line) > self._max_bytes:
            self._put_aside()
            size = self._ready()
        try:
            written = 0
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError:
            with contextlib.suppress(OSError):  # a device cannot be cut
                os.ftruncate(self._descriptor, size)
            self.close()
            raise

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _ready(self) -> int:
        """Make sure that the file at ``path`` is the one that is open, and return its size."""
        if self._descriptor >= 0:
            ours = os.fstat(self._descriptor)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(ours, self.path.stat()):
                    return ours.st_size
            self.close()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._descriptor = os.open(self.path, flags, 0o600)
        found = os.fstat(self._descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_mode & 0o077:
            os.fchmod(self._descriptor, 0o600)
        return found.st_size

    def _put_aside(self) -> None:
        self.close()
        for number in range(self._keep, 1, -1):
            with contextlib.suppress(FileNotFoundError):
                self._aside(number - 1).replace(self._aside(number))
        with contextlib.suppress(FileNotFoundError):
            self.path.replace(self._aside(1))

    def _aside(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
