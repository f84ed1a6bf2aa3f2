"""Reads the pages of a damaged database file, with the newer ones in its write-ahead log.

Formats: https://sqlite.org/fileformat2.html. SQLite does not use the file any more, so that it can be read as any other file.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from gateway.ledger.wal import read_log

_MAGIC: Final = b"SQLite format 3\0"
_USUAL_SIZE: Final = 4096
_SMALLEST, _LARGEST = 512, 65_536
_HEADER: Final = 100


class RawPages:
    """Reads pages by number, from 1. ``size`` is the bytes in a page, ``count`` how many pages there should be.

    Raises OSError when the disk refuses.
    """

    def __init__(self, path: Path) -> None:
        log_path = Path(f"{path}-wal")
        self._data = path.read_bytes() if path.exists() or not log_path.exists() else b""
        self._log = log_path.read_bytes() if log_path.exists() else b""
        log = read_log(self._log)
        self.size = _page_size(self._data) or log.size or _USUAL_SIZE
        self._frames = log.pages if log.size == self.size else {}
        self.count = (log.count if self._frames else 0) or -(-len(self._data) // self.size)
        head = self.page(1)
        self.has_header = head.startswith(_MAGIC)
        self.usable = self.size - (head[20] if self.has_header else 0)

    def page(self, number: int) -> bytes:
        """Return a page, or no bytes when it is missing or incomplete."""
        if (at := self._frames.get(number)) is not None:
            return self._log[at : at + self.size]
        page = self._data[(number - 1) * self.size : number * self.size] if number > 0 else b""
        return page if len(page) == self.size else b""

    def free(self) -> set[int]:
        """Return the pages on the free list, whose content is out of date. Empty when the list is damaged."""
        if not self.has_header:
            return set()
        trunk, count = struct.unpack(">II", self.page(1)[32:40])
        found: set[int] = set()
        while trunk and trunk not in found and (page := self.page(trunk)):
            found.add(trunk)
            trunk, leaves = struct.unpack(">II", page[:8])
            if leaves > self.size // 4 - 2:
                return set()
            found.update(struct.unpack(f">{leaves}I", page[8 : 8 + 4 * leaves]))
        return found if len(found) == count and not trunk else set()

    def header_size(self, number: int) -> int:
        """Return how many bytes at the start of a page are the file's header."""
        return _HEADER if number == 1 else 0


def _page_size(data: bytes) -> int:
    """Return the page size by the file's header, or 0 when that is invalid."""
    told = int.from_bytes(data[16:18], "big") if data.startswith(_MAGIC) else 0
    size = _LARGEST if told == 1 else told
    return size if _SMALLEST <= size <= _LARGEST and size & (size - 1) == 0 else 0
