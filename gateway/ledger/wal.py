"""The write-ahead log of the ledger: how far it can be read, and a mark beside the file that says how far it must reach.

SQLite takes whatever follows a frame that it cannot read for the end of the log, and drops it without a word. So each commit is noted
in a mark, which is compared with the log before SQLite opens it. Format: https://sqlite.org/fileformat2.html#the_write_ahead_log.
"""

from __future__ import annotations

import contextlib
import os
import struct
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADER: Final = 32
FRAME_HEADER: Final = 24
_MAGIC: Final = 0x377F0682
"""The lowest bit says in which order the bytes of a checksum's words are."""
_SMALLEST, _LARGEST = 512, 65_536
CHECKPOINT_AT: Final = 1000
"""Frames after which the log is brought into the file: SQLite's own default, which a hook of ours replaces."""


@dataclass
class Log:
    """What a log holds. ``pages`` says where the last committed state of each page is, ``count`` how many pages there are by it.

    ``committed`` counts the frames up to the last commit before the first one that is bad; with ``behind`` there are commits after it.
    """

    size: int = 0
    salts: bytes = b""
    committed: int = 0
    behind: bool = False
    pages: dict[int, int] = field(default_factory=dict)
    count: int = 0


def read_log(data: bytes) -> Log:
    """Read a log. One whose header cannot be read says nothing (``salts`` is empty)."""
    magic, size = int.from_bytes(data[:4], "big"), int.from_bytes(data[8:12], "big")
    swap = magic & 1 == (array("H", [1]).tobytes()[0])
    fits = len(data) >= HEADER and magic & ~1 == _MAGIC and _SMALLEST <= size <= _LARGEST and size & (size - 1) == 0
    if not fits or (sums := _summed(data[:24], (0, 0), swap=swap)) != struct.unpack(">II", data[24:32]):
        return Log(size=size if fits else 0)
    log = Log(size, data[16:24])
    since: dict[int, int] = {}
    for number, at, whole in _frames(data, log, sums, swap=swap):
        page, committed = struct.unpack(">II", data[at : at + 8])
        since[page] = at + FRAME_HEADER
        if committed:
            log.pages |= since
            log.count, since = committed, {}
            log.behind |= not whole
            log.committed = number if whole else log.committed
    return log


def _frames(data: bytes, log: Log, sums: tuple[int, int], *, swap: bool) -> Iterator[tuple[int, int, bool]]:
    """Give the number and place of each sound frame, and whether all before it are sound.

    The checksum of a frame goes on from that of the one before it. Behind a bad one it goes on from what that one says of itself.
    """
    whole, step = True, FRAME_HEADER + log.size
    for number, at in enumerate(range(HEADER, len(data) - step + 1, step), 1):
        told = struct.unpack(">II", data[at + 16 : at + 24])
        fits = data[at + 8 : at + 16] == log.salts
        if fits:
            fits = _summed(data[at : at + 8] + data[at + FRAME_HEADER : at + step], sums, swap=swap) == told
        sums, whole = told, whole and fits
        if fits:
            yield number, at, whole


def _summed(data: bytes, sums: tuple[int, int], *, swap: bool) -> tuple[int, int]:
    words = array("I", data)
    if swap:
        words.byteswap()
    first, second = sums
    for index in range(0, len(words), 2):
        first = (first + words[index] + second) & 0xFFFFFFFF
        second = (second + words[index + 1] + first) & 0xFFFFFFFF
    return first, second


@dataclass(frozen=True, slots=True)
class Mark:
    """What lies beside a ledger that is in use: the ``name`` that its log holds, and how many frames were committed under which salts."""

    name: str
    salts: bytes = b""
    committed: int = 0

    def __str__(self) -> str:
        return f"{self.name} {self.salts.hex():>16} {self.committed:010}\n"

    @classmethod
    def read(cls, path: Path) -> Mark | None:
        """Read a mark; None where there is none, or none that can be read."""
        try:
            match path.read_text("ascii").split():
                case [name, salts, committed]:
                    return cls(name, bytes.fromhex(salts), int(committed))
                case [name]:  # of an earlier version
                    return cls(name)
        except (OSError, ValueError):
            pass
        return None


def missing(log: Path, mark: Mark | None) -> str | None:
    """Say what is wrong with a log that must not be taken for whole, or None. Blocking.

    Raises:
        OSError: the disk does not give it.
    """
    data = log.read_bytes()
    found = read_log(data)
    if not found.salts:
        expected = mark is not None and mark.committed
        return "the beginning of its write-ahead log cannot be read" if len(data) > HEADER or expected else None
    if mark is not None and mark.salts == found.salts:
        if found.committed >= mark.committed:
            return None
        return f"only {found.committed} of {mark.committed} parts of its write-ahead log can be read"
    return "a part of its write-ahead log cannot be read" if found.behind else None


class Marking:
    """Keeps the mark of a ledger that is open up to date, and brings its log into the file at times. On the ledger's thread.

    A disk that takes no mark keeps nobody from working. Each log that SQLite begins anew gets a name of its own, so that it is missed
    when it is gone.
    """

    def __init__(self, db: apsw.Connection, path: Path, log: Path, token: str) -> None:
        self._db = db
        self._path = path
        self._log = log
        self._token = token
        self._frames = self._marked = 0
        self._logs = 0
        self._salts = b""
        db.set_wal_hook(self._written)

    def _written(self, _db: apsw.Connection, _name: str, frames: int) -> int:
        self._frames = frames
        return apsw.SQLITE_OK

    def begin(self) -> None:
        """Make the first mark."""
        self._name()

    def committed(self) -> None:
        """Take note of a commit. One after which the log is shorter was the first in a log that SQLite began anew."""
        if self._frames == self._marked:
            return
        with contextlib.suppress(apsw.Error, OSError):
            if self._frames < self._marked:
                self._name()
            self._note()
            if self._frames >= CHECKPOINT_AT:
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _name(self) -> None:
        self._logs += 1
        name = f"{self._token}-{self._logs:06}"
        with contextlib.suppress(apsw.Error, OSError):
            self._db.execute("INSERT INTO meta VALUES ('log', ?) ON CONFLICT DO UPDATE SET value = excluded.value", (name,))
            self._salts = self._salts_now()
            self._note()

    def _note(self) -> None:
        """Write the mark over the former one, in one write: a process that is killed leaves the one or the other."""
        mark = Mark(f"{self._token}-{self._logs:06}", self._salts, self._frames)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.pwrite(descriptor, str(mark).encode("ascii"), 0)
        finally:
            os.close(descriptor)
        self._marked = self._frames

    def _salts_now(self) -> bytes:
        with self._log.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), 8, 16)
