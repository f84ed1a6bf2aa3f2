"""Reads one transcript in pages: where each line begins is noted once, and only the lines of a page are parsed.

Archived transcripts are read the same way. Nothing is written. All functions block.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from agent.transcript.entries import Compacted, Entry, InvalidEntry, TurnEnded, decode
from agent.transcript.stored_transcript import StoredTranscript
from gateway.base.errors import StorageFailed

SHOWN: Final = frozenset(
    {b"opened", b"said", b"compacted", b"flush_receipt", b"pruned", b"results_cleared", b"pinned", b"unpinned", b"unanswered"}
)
"""Kinds of entries that people are shown. A line that cannot be read is shown as such."""
_TURN_LINES: Final = 2000
"""Lines behind an answer in which the end of its turn is looked for."""
KEPT: Final = 4
"""Transcripts of which it is remembered where their lines begin."""
_HEAD: Final = re.compile(rb'\{"v":\d+,"kind":"([a-z_]+)","id":"([^"]*)"')
_HEAD_BYTES: Final = 512


class _Places(Struct):
    """Where the shown lines of a transcript begin, and which of them are compactions.

    ``end`` is how far it was looked at, ``stamp`` tells it from another one.
    """

    stamp: tuple[int, ...]
    starts: array[int] = field(default_factory=lambda: array("q"))
    compactions: list[int] = field(default_factory=list)
    end: int = 0


class TranscriptReader:
    """Reads pages of transcripts. Safe to use from one thread at a time."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Places] = OrderedDict()

    def count(self, stored: StoredTranscript) -> int:
        """Return how many entries of a transcript are shown. Raises StorageFailed."""
        return len(self._places(stored).starts)

    def page(self, stored: StoredTranscript, offset: int, limit: int) -> list[Entry | None]:
        """Return shown entries from the one with this number on; None for one that cannot be read. Raises StorageFailed."""
        starts = self._places(stored).starts[max(0, offset) : max(0, offset) + limit]
        try:
            return [_entry(line) for line in stored.lines_at(starts)]
        except OSError as error:
            raise unreadable(error, stored) from error

    def number_of(self, stored: StoredTranscript, entry: str) -> int | None:
        """Return the number of the shown entry with an id. Raises StorageFailed."""
        wanted = entry.encode()
        starts = self._places(stored).starts
        try:
            for place, line in stored.lines_backwards():
                head = _HEAD.match(line[:_HEAD_BYTES])
                if head is not None and head[2] == wanted:
                    number = bisect_left(starts, place)
                    if starts[number : number + 1] == array("q", [place]):
                        return number
        except OSError as error:
            raise unreadable(error, stored) from error
        return None

    def base_of(self, stored: StoredTranscript, number: int) -> int:
        """Return from which entry on a model was shown the history at the entry ``number``: behind the last compaction, less what it kept.

        Raises StorageFailed.
        """
        compaction = next((one for one in reversed(self._places(stored).compactions) if one <= number), None)
        if compaction is None:
            return 0
        (entry,) = self.page(stored, compaction, 1)
        body = entry.body if entry is not None else None
        if not isinstance(body, Compacted):
            return self.base_of(stored, compaction - 1) if compaction else 0
        kept = [self.number_of(stored, one) for one in (body.first_kept, *body.waiting)]
        return min([compaction, *(one for one in kept if one is not None)])

    def turn_end(self, stored: StoredTranscript, number: int, turn: str) -> Entry | None:
        """Return the entry with which a turn ended that the entry ``number`` belongs to. Raises StorageFailed."""
        starts = self._places(stored).starts
        try:
            for line in islice(stored.lines(starts[number]), _TURN_LINES):
                if kind_of_line(line) == b"turn_ended":
                    entry = _entry(line)
                    if entry is not None and isinstance(entry.body, TurnEnded) and entry.body.turn == turn:
                        return entry
        except OSError as error:
            raise unreadable(error, stored) from error
        return None

    def lines(self, stored: StoredTranscript, start: int, limit: int) -> tuple[list[bytes], int | None]:
        """Return stored lines from the byte ``start`` on, and the byte behind them, None at the end. Raises StorageFailed."""
        try:
            read = list(islice(stored.lines(start), limit + 1))
        except OSError as error:
            raise unreadable(error, stored) from error
        found = [line for line in read[:limit] if line.endswith(b"\n")]
        more = len(found) == limit and len(read) > limit
        return [line.rstrip(b"\r\n") for line in found], start + sum(map(len, found)) if more else None

    def _places(self, stored: StoredTranscript) -> _Places:
        try:
            found = stored.stat()
            known = self._known.get(stored.where)
            if known is None or known.stamp != found.identity or (not stored.archived and found.size < known.end):
                known = _Places(found.identity)
            if stored.archived and known.end:
                return known
            for line in stored.lines(known.end):
                if not line.endswith(b"\n"):
                    break  # it is being written
                kind = kind_of_line(line)
                if kind == b"compacted":
                    known.compactions.append(len(known.starts))
                if kind in SHOWN:
                    known.starts.append(known.end)
                known.end += len(line)
        except OSError as error:
            raise unreadable(error, stored) from error
        self._known[stored.where] = known
        self._known.move_to_end(stored.where)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return known


def unreadable(error: OSError, stored: StoredTranscript) -> StorageFailed:
    """Return the error for a transcript that cannot be read."""
    return StorageFailed.from_os(error, "read the transcript", Path(stored.where))


def is_shown(line: bytes) -> bool:
    """Whether people are shown what a line holds."""
    return kind_of_line(line) in SHOWN


def kind_of_line(line: bytes) -> bytes:
    """Return the kind of entry in a line; b"said" for one that cannot be told, which is shown as unreadable."""
    head = _HEAD.match(line[:_HEAD_BYTES])
    return head[1] if head is not None else b"said"


def first_entries(stored: StoredTranscript, count: int = 12) -> Iterator[Entry]:
    """Yield the first readable entries of a transcript; none where it cannot be read."""
    try:
        for line in islice(stored.lines(), count):
            if (entry := _entry(line)) is not None:
                yield entry
    except OSError:
        return


def _entry(line: bytes) -> Entry | None:
    try:
        return decode(line)
    except InvalidEntry:
        return None
