"""The pages of a database file that SQLite cannot use any more, with what its write-ahead log says of them.

Formats: https://sqlite.org/fileformat2.html. The file is nobody's by now, so it is read as any other file.
"""

from __future__ import annotations

import struct
from array import array
from pathlib import Path
from typing import Final

_MAGIC: Final = b"SQLite format 3\0"
_USUAL_SIZE: Final = 4096
_SMALLEST, _LARGEST = 512, 65_536
_HEADER: Final = 100
_LOG_HEADER, _FRAME_HEADER = 32, 24
_LOG_MAGIC: Final = 0x377F0682
"""The lowest bit says in which order the bytes of a checksum's words are."""


class Pages:
    """Reads pages by number, from 1 on. ``size`` is that of a page, ``count`` how many there should be.

    Raises OSError where the disk does not give the file.
    """

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        log = Path(f"{path}-wal")
        self._log = log.read_bytes() if log.exists() else b""
        self.size = _page_size(self._data, self._log)
        self._frames, committed = _committed(self._log, self.size)
        self.count = committed or -(-len(self._data) // self.size)
        head = self.page(1)
        self.has_header = head.startswith(_MAGIC)
        self.usable = self.size - (head[20] if self.has_header else 0)

    def page(self, number: int) -> bytes:
        """Return a page; one that is not there, or not all of it, is empty."""
        if (at := self._frames.get(number)) is not None:
            return self._log[at : at + self.size]
        page = self._data[(number - 1) * self.size : number * self.size] if number > 0 else b""
        return page if len(page) == self.size else b""

    def free(self) -> set[int]:
        """Return the pages that are in no use: what they hold is out of date. Empty when the list of them cannot be trusted."""
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
        """Return how many bytes of a page are the file's own header."""
        return _HEADER if number == 1 else 0


def _page_size(data: bytes, log: bytes) -> int:
    for told in (int.from_bytes(data[16:18], "big") if data.startswith(_MAGIC) else 0, int.from_bytes(log[8:12], "big")):
        size = _LARGEST if told == 1 else told
        if _SMALLEST <= size <= _LARGEST and size & (size - 1) == 0:
            return size
    return _USUAL_SIZE


def _committed(log: bytes, size: int) -> tuple[dict[int, int], int]:
    """Return where the log holds the last committed state of each page, and how many pages there are by it (0: it says nothing)."""
    magic = int.from_bytes(log[:4], "big")
    if len(log) < _LOG_HEADER or magic & ~1 != _LOG_MAGIC:
        return {}, 0
    swap = magic & 1 == (array("H", [1]).tobytes()[0])
    if (sums := _summed(log[:24], (0, 0), swap=swap)) != struct.unpack(">II", log[24:32]):
        return {}, 0
    salts = log[16:24]
    frames: dict[int, int] = {}
    since: dict[int, int] = {}
    count = 0
    for at in range(_LOG_HEADER, len(log) - _FRAME_HEADER - size + 1, _FRAME_HEADER + size):
        head, page = log[at : at + _FRAME_HEADER], log[at + _FRAME_HEADER : at + _FRAME_HEADER + size]
        sums = _summed(head[:8] + page, sums, swap=swap)
        if head[8:16] != salts or struct.unpack(">II", head[16:24]) != sums:
            break
        number, committed = struct.unpack(">II", head[:8])
        since[number] = at + _FRAME_HEADER
        if committed:
            frames |= since
            since, count = {}, committed
    return frames, count


def _summed(data: bytes, sums: tuple[int, int], *, swap: bool) -> tuple[int, int]:
    words = array("I", data)
    if swap:
        words.byteswap()
    first, second = sums
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) & 0xFFFFFFFF
        second = (second + words[index + 1] + first) & 0xFFFFFFFF
    return first, second
