"""Reads one transcript in pages: where each line begins is noted once, and only the lines of a page are parsed.

Archived transcripts are read the same way through gzip. Nothing is written. All functions block.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Final, cast

from msgspec import Struct, field

from agent.transcript.entries import Compacted, Entry, InvalidEntry, TurnEnded, decode
from gateway.base.errors import StorageFailed

SHOWN: Final = frozenset(
    {b"opened", b"said", b"compacted", b"flush_receipt", b"pruned", b"results_cleared", b"pinned", b"unpinned", b"unanswered"}
)
"""Kinds of entries that people are shown. A line that cannot be read is shown as such."""
_TURN_LINES: Final = 2000
"""Lines behind an answer in which the end of its turn is looked for."""
KEPT: Final = 4
"""Transcripts of which it is remembered where their lines begin."""
UNREADABLE: Final = (OSError, EOFError, zlib.error)
"""What reading a transcript raises, an archived one that is damaged too."""
_HEAD: Final = re.compile(rb'\{"v":\d+,"kind":"([a-z_]+)","id":"([^"]*)"')
_HEAD_BYTES: Final = 512


class _Places(Struct):
    """Where the shown lines of a file begin, and which of them are compactions.

    ``end`` is how far it was looked at, ``stamp`` tells the file from another one.
    """

    stamp: tuple[int, int]
    starts: array[int] = field(default_factory=lambda: array("q"))
    compactions: list[int] = field(default_factory=list)
    end: int = 0


class TranscriptReader:
    """Reads pages of transcripts. Safe to use from one thread at a time."""

    def __init__(self) -> None:
        self._known: OrderedDict[Path, _Places] = OrderedDict()

    def count(self, path: Path) -> int:
        """Return how many entries of a transcript are shown. Raises StorageFailed."""
        return len(self._places(path).starts)

    def page(self, path: Path, offset: int, limit: int) -> list[Entry | None]:
        """Return shown entries from the one with this number on; None for one that cannot be read. Raises StorageFailed."""
        starts = self._places(path).starts[max(0, offset) : max(0, offset) + limit]
        try:
            with opened(path) as file:
                return [_entry(_line_at(file, start)) for start in starts]
        except UNREADABLE as error:
            raise unreadable(error, path) from error

    def number_of(self, path: Path, entry: str) -> int | None:
        """Return the number of the shown entry with an id. Raises StorageFailed."""
        wanted = entry.encode()
        starts = self._places(path).starts
        try:
            with opened(path) as file:
                for number in range(len(starts) - 1, -1, -1):
                    file.seek(starts[number])
                    head = _HEAD.match(file.read(_HEAD_BYTES))
                    if head is not None and head[2] == wanted:
                        return number
        except UNREADABLE as error:
            raise unreadable(error, path) from error
        return None

    def base_of(self, path: Path, number: int) -> int:
        """Return from which entry on a model was shown the history at the entry ``number``: behind the last compaction, less what it kept.

        Raises StorageFailed.
        """
        compaction = next((one for one in reversed(self._places(path).compactions) if one <= number), None)
        if compaction is None:
            return 0
        (entry,) = self.page(path, compaction, 1)
        body = entry.body if entry is not None else None
        if not isinstance(body, Compacted):
            return self.base_of(path, compaction - 1) if compaction else 0
        kept = [self.number_of(path, one) for one in (body.first_kept, *body.waiting)]
        return min([compaction, *(one for one in kept if one is not None)])

    def turn_end(self, path: Path, number: int, turn: str) -> Entry | None:
        """Return the entry with which a turn ended that the entry ``number`` belongs to. Raises StorageFailed."""
        starts = self._places(path).starts
        try:
            with opened(path) as file:
                file.seek(starts[number])
                for line in islice(file, _TURN_LINES):
                    if kind_of_line(line) == b"turn_ended":
                        entry = _entry(line)
                        if entry is not None and isinstance(entry.body, TurnEnded) and entry.body.turn == turn:
                            return entry
        except UNREADABLE as error:
            raise unreadable(error, path) from error
        return None

    def lines(self, path: Path, start: int, limit: int) -> tuple[list[bytes], int | None]:
        """Return stored lines from the byte ``start`` on, and the byte behind them, None at the end. Raises StorageFailed."""
        try:
            with opened(path) as file:
                file.seek(start)
                found = [line for line in islice(file, limit) if line.endswith(b"\n")]
                more = len(found) == limit and bool(file.read(1))
        except UNREADABLE as error:
            raise unreadable(error, path) from error
        return [line.rstrip(b"\r\n") for line in found], start + sum(map(len, found)) if more else None

    def _places(self, path: Path) -> _Places:
        try:
            found = path.stat()
            known = self._known.get(path)
            if known is None or known.stamp != (found.st_dev, found.st_ino) or _grew_smaller(path, known, found.st_size):
                known = _Places((found.st_dev, found.st_ino))
            if path.suffix == ".gz" and known.end:
                return known
            with opened(path) as file:
                file.seek(known.end)
                for line in iter(file.readline, b""):
                    if not line.endswith(b"\n"):
                        break  # it is being written
                    kind = kind_of_line(line)
                    if kind == b"compacted":
                        known.compactions.append(len(known.starts))
                    if kind in SHOWN:
                        known.starts.append(known.end)
                    known.end += len(line)
        except UNREADABLE as error:
            raise unreadable(error, path) from error
        self._known[path] = known
        self._known.move_to_end(path)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return known


def opened(path: Path) -> IO[bytes]:
    """Open a transcript for reading, an archived one too. Raises OSError."""
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def unreadable(error: Exception, path: Path) -> StorageFailed:
    """Return the error for a transcript that cannot be read."""
    known = error if isinstance(error, OSError) else OSError(str(error))
    return StorageFailed.from_os(known, "read the transcript", path)


def is_shown(line: bytes) -> bool:
    """Whether people are shown what a line holds."""
    return kind_of_line(line) in SHOWN


def kind_of_line(line: bytes) -> bytes:
    """Return the kind of entry in a line; b"said" for one that cannot be told, which is shown as unreadable."""
    head = _HEAD.match(line[:_HEAD_BYTES])
    return head[1] if head is not None else b"said"


def first_entries(path: Path, count: int = 12) -> Iterator[Entry]:
    """Yield the first readable entries of a transcript; none where it cannot be read."""
    try:
        with opened(path) as file:
            for line in islice(iter(lambda: file.readline(1 << 20), b""), count):
                if (entry := _entry(line)) is not None:
                    yield entry
    except UNREADABLE:
        return


def _grew_smaller(path: Path, known: _Places, size: int) -> bool:
    return path.suffix != ".gz" and size < known.end


def _line_at(file: IO[bytes], start: int) -> bytes:
    file.seek(start, os.SEEK_SET)
    return file.readline()


def _entry(line: bytes) -> Entry | None:
    try:
        return decode(line)
    except InvalidEntry:
        return None
