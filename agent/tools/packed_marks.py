"""The marks of all files in few bytes: a workspace has thousands of notes after some months, and what is known of them is in memory."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

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
_read = msgspec.msgpack.Decoder(list[tuple[tuple[str, ...], bytes, tuple[str, ...]]]).decode
"""Sources, the digests that have them, and the other keys that have them."""
_write = msgspec.msgpack.Encoder().encode


class PackedMarks:
    """Marks by file, in some 100 bytes for each and 8 for each line. Any thread may read while one changes them."""

    def __init__(self) -> None:
        self._packed: dict[str, bytes] = {}
        self._unpacked: dict[str, tuple[bytes, Marks]] = {}
        """With what they were unpacked from: what is another by now does not count."""
        self._count = 0

    def __getitem__(self, path: str) -> Marks:
        """Return what is known of a file; nothing of one that was not recorded. It must not be changed."""
        packed = self._packed.get(path)
        if packed is None:
            return {}
        known = self._unpacked.get(path)
        if known is not None and known[0] is packed:
            return known[1]
        marks = _unpack(packed)
        if len(self._unpacked) >= _UNPACKED:
            self._unpacked.clear()
        self._unpacked[path] = packed, marks
        return marks

    def items(self) -> Iterator[tuple[str, Marks]]:
        """Iterate over all files."""
        return ((path, _unpack(packed)) for path, packed in list(self._packed.items()))

    def add(self, path: str, marks: Marks) -> None:
        """Add marks; what is known of the same keys stays as it is. The file is the newest one."""
        self._put(path, {**self[path], **{key: sources for key, sources in marks.items() if key not in self[path]}})

    def remove(self, path: str, keys: Iterable[str]) -> None:
        """Remove marks, if they are there."""
        gone = {*keys}
        self._put(path, {key: sources for key, sources in self[path].items() if key not in gone})

    def replace(self, found: Mapping[str, Marks]) -> None:
        """Put other marks of files in place of those that are known. They are as new as before."""
        for path, marks in found.items():
            *_, recorded = _HEAD.unpack_from(self._packed[path])
            self._packed[path] = _pack(marks, recorded)

    def newest(self, *, named: bool = False) -> list[str]:
        """Return the files of which anything but the name is marked, or with ``named`` those whose name is; the newest first."""
        heads = [(_HEAD.unpack_from(packed), path) for path, packed in list(self._packed.items())]
        return [path for _, path in sorted(((head[2], path) for head, path in heads if head[named]), reverse=True)]

    def _put(self, path: str, marks: Marks) -> None:
        self._count += 1
        self._packed[path] = _pack(marks, self._count)


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
