"""The marks of all files in few bytes: a workspace has thousands of notes after some months, and what is known of them is in memory."""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from memory.path_table import PathTable

Marks: TypeAlias = "Mapping[str, tuple[str, ...]]"
"""What is known of one file: the digests of lines, ``WHOLE`` or ``NAME``, each with the sources of the untrusted text."""
WHOLE: Final = "*"
"""Stands for all lines of a file."""
NAME: Final = "name"
"""Stands for the file's name, which was chosen while untrusted text was in view."""
_HEAD: Final = struct.Struct("<??Q")
"""Whether anything but the name is marked, whether the name is, and when something was recorded last."""
_DIGITS: Final = 16
"""Hexadecimal digits of a digest."""
_UNPACKED: Final = 32
"""How many files are also kept as they are read."""
_RECENT: Final = 128
"""How many files are not in a block."""
_BLOCK: Final = 64
"""How many files are compressed together: more take less memory, and longer to read."""
_LEVEL: Final = 1
_read = msgspec.msgpack.Decoder(list[tuple[tuple[str, ...], bytes, tuple[str, ...]]]).decode
"""Sources, the digests that have them, and the other keys that have them."""
_write = msgspec.msgpack.Encoder().encode
_read_block = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]]).decode


class PackedMarks:
    """Marks by file, in some 40 bytes for each and 8 for each line. Any thread may read while one changes them.

    Files that were changed long ago are in compressed blocks, which stay as they are: of a file that is in several, the newest block
    counts, and before that what is not in a block yet.
    """

    def __init__(self) -> None:
        self._recent: dict[str, bytes] = {}
        self._blocks: dict[int, bytes] = {}
        self._places = PathTable("I")
        """The block of each file that was ever in one."""
        self._left: dict[int, int] = {}
        """How many files of a block are in no newer one."""
        self._former: dict[str, int] = {}
        """The block in which a recent file was before."""
        self._unpacked: dict[str, tuple[bytes, Marks]] = {}
        """With what they were unpacked from: what is another by now does not count."""
        self._last: tuple[bytes, dict[str, bytes]] | None = None
        self._count = self._newest_block = 0

    def __getitem__(self, path: str) -> Marks:
        """Return what is known of a file; nothing of one that was not recorded. It must not be changed."""
        known = self._unpacked.get(path)
        held, packed = self._find(path, known[0] if known is not None else None)
        if known is not None and known[0] is held:
            return known[1]
        if held is None or packed is None:
            return {}
        marks = _unpack(packed)
        if len(self._unpacked) >= _UNPACKED:
            self._unpacked.clear()
        self._unpacked[path] = held, marks
        return marks

    def items(self) -> Iterator[tuple[str, Marks]]:
        """Iterate over all files."""
        return ((path, _unpack(packed)) for path, packed in self._all().items())

    def add(self, path: str, marks: Marks) -> None:
        """Add marks; what is known of the same keys stays as it is. The file is the newest one."""
        known = self[path]
        self._put(path, {**known, **{key: sources for key, sources in marks.items() if key not in known}})

    def remove(self, path: str, keys: Iterable[str]) -> None:
        """Remove marks, if they are there."""
        gone = {*keys}
        self._put(path, {key: sources for key, sources in self[path].items() if key not in gone})

    def replace(self, found: Mapping[str, Marks]) -> None:
        """Put other marks of files in place of those that are known. They are as new as before."""
        for path, marks in found.items():
            _, packed = self._find(path)
            assert packed is not None
            *_, recorded = _HEAD.unpack_from(packed)
            self._keep(path, _pack(marks, recorded))

    def newest(self, *, named: bool = False) -> list[str]:
        """Return the files of which anything but the name is marked, or with ``named`` those whose name is; the newest first."""
        heads = [(_HEAD.unpack_from(packed), path) for path, packed in self._all().items()]
        return [path for _, path in sorted(((head[2], path) for head, path in heads if head[named]), reverse=True)]

    def _put(self, path: str, marks: Marks) -> None:
        self._count += 1
        self._keep(path, _pack(marks, self._count))

    def _find(self, path: str, known: bytes | None = None) -> tuple[bytes | None, bytes | None]:
        """Return what holds the marks of a file, and them; them not where they are those that are ``known`` to be in it."""
        while True:
            recent = self._recent.get(path)
            if recent is not None:
                return recent, recent
            blocks = [self._blocks.get(number) for number in self._numbers(path)]
            for block in blocks:
                if block is None:
                    break  # it was given up this moment: its files are in others, or recent
                if block is known:
                    return block, None
                if (packed := self._rows(block).get(path)) is not None:
                    return block, packed
            else:
                return None, None

    def _rows(self, block: bytes) -> dict[str, bytes]:
        """Return the files in a block; the one that was asked for last is kept, as files of one time are often read together."""
        last = self._last
        if last is None or last[0] is not block:
            last = self._last = block, _rows_of(block)
        return last[1]

    def _numbers(self, path: str) -> list[int]:
        """Return the blocks that may hold a file, the newest first."""
        return sorted(self._places.find(path), reverse=True)

    def _all(self) -> dict[str, bytes]:
        recent = self._recent.copy()  # before the blocks: what goes into one meanwhile is in either
        found: dict[str, bytes] = {}
        for block in list(self._blocks.values()):
            found |= _rows_of(block)
        return found | recent

    def _keep(self, path: str, packed: bytes) -> None:
        if path not in self._recent and (number := self._block_of(path)) is not None:
            self._former[path] = number
        self._recent[path] = packed
        while len(self._recent) > _RECENT:
            self._compress()

    def _block_of(self, path: str) -> int | None:
        return next((number for number in self._numbers(path) if path in self._rows(self._blocks[number])), None)

    def _compress(self) -> None:
        """Put the files that are recent for longest into a block."""
        paths = list(itertools.islice(self._recent, _BLOCK))
        rows = [(path.encode("utf-8", "surrogatepass"), self._recent[path]) for path in paths]
        number = self._newest_block = self._newest_block + 1
        self._blocks[number], self._left[number] = zlib.compress(_write(rows), _LEVEL), len(rows)
        for path in paths:
            former = self._former.pop(path, None)
            self._places.put(path, number, former)
            del self._recent[path]  # not before: who reads meanwhile looks here first
            if former is not None:
                self._leave(former)

    def _leave(self, number: int) -> None:
        """Give a block up that holds no file any more; what is left in one that is half empty goes into the next."""
        self._left[number] -= 1
        if not self._left[number]:
            del self._blocks[number], self._left[number]
        elif self._left[number] == _BLOCK // 2:
            for path, packed in _rows_of(self._blocks[number]).items():
                if path not in self._recent and self._block_of(path) == number:
                    self._former[path] = number
                    self._recent[path] = packed


def _rows_of(block: bytes) -> dict[str, bytes]:
    return {path.decode("utf-8", "surrogatepass"): packed for path, packed in _read_block(zlib.decompress(block))}


def _pack(marks: Marks, recorded: int) -> bytes:
    lines: dict[tuple[str, ...], bytearray] = {}
    others: dict[tuple[str, ...], list[str]] = {}
    for key, sources in marks.items():
        if (digest := _digest(key)) is None:
            others.setdefault(sources, []).append(key)
        else:
            lines.setdefault(sources, bytearray()).extend(digest)
    groups = [
        (sources, bytes(lines.get(sources, b"")), others.get(sources, ())) for sources in dict.fromkeys((*others, *lines))
    ]
    return _HEAD.pack(any(key != NAME for key in marks), NAME in marks, recorded) + _write(groups)


def _unpack(packed: bytes) -> dict[str, tuple[str, ...]]:
    marks: dict[str, tuple[str, ...]] = {}
    for sources, digests, others in _read(memoryview(packed)[_HEAD.size :]):
        marks |= dict.fromkeys(others, sources)
        line = digests.hex()
        marks |= {line[start : start + _DIGITS]: sources for start in range(0, len(line), _DIGITS)}
    return marks


def _digest(key: str) -> bytes | None:
    """Return the bytes of a digest; None for another key."""
    try:
        digest = bytes.fromhex(key)
    except ValueError:
        return None
    return digest if len(key) == _DIGITS and digest.hex() == key else None
