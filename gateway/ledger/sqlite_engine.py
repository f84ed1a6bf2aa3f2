"""The ledger's SQLite file while it is open: how it is synced, its write-ahead log and the mark of it, and its errors in words."""

from __future__ import annotations

import contextlib
import os
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import apsw
from msgspec import Struct

from gateway.base.errors import StorageFailed

HEADER: Final = 32
FRAME_HEADER: Final = 24
_MAGIC: Final = 0x377F0682
"""The lowest bit is the byte order of the checksums' words."""
_SMALLEST, _LARGEST = 512, 65_536
CHECKPOINT_AT: Final = 1000
"""Frames after which the log is checkpointed: SQLite's default, which does not apply where a WAL hook is set."""


@dataclass
class Log:
    """The content of a log. ``pages`` is the offset of each page's last committed version, ``count`` the number of pages.

    ``committed`` counts the frames up to the last commit before the first bad frame; ``behind``: there are commits after it.
    """

    size: int = 0
    salts: bytes = b""
    committed: int = 0
    behind: bool = False
    pages: dict[int, int] = field(default_factory=dict)
    count: int = 0


def read_log(data: bytes) -> Log:
    """Read a log. ``salts`` is empty when its header is invalid."""
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
    """Yield number and offset of each valid frame, and whether all before it are valid.

    The checksum of a frame continues that of the frame before. After an invalid frame it continues the checksum stored in that frame.
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


class Mark(Struct, frozen=True):
    """The mark of an open ledger: the ``name`` stored in its log, and how many frames were committed under which salts."""

    name: str
    salts: bytes = b""
    committed: int = 0

    def __str__(self) -> str:
        return f"{self.name} {self.salts.hex():>16} {self.committed:010}\n"

    @classmethod
    def read(cls, path: Path) -> Mark | None:
        """Read a mark; None when there is none or it is invalid."""
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
    """Return what is missing from a log, or None. Blocking.

    Raises:
        OSError: the disk refuses.
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
    """Keeps an open ledger's mark up to date, and checkpoints the log. Runs on the ledger's thread.

    Commits that a loss of power could take back are not counted by the mark.

    A mark that cannot be written stops nothing. Each log that SQLite starts gets a new name, so that a missing log is noticed.
    """

    def __init__(self, db: apsw.Connection, path: Path, log: Path, token: str) -> None:
        self._db = db
        self._path = path
        self._log = log
        self._token = token
        self._frames = self._marked = 0
        self._logs = 0
        self._salts = b""
        self._wrote = False
        self._descriptor = -1
        self._unsynced = False
        db.set_wal_hook(self._written)

    def _written(self, _db: apsw.Connection, _name: str, frames: int) -> int:
        self._frames = frames
        self._wrote = True
        return apsw.SQLITE_OK

    def begin(self) -> None:
        """Write the first mark."""
        self._name()

    def committed(self, *, synced: bool = True) -> bool:
        """Record a commit, once it is ``synced``; return whether one is not. After it a shorter log is one that SQLite has started anew."""
        if not self._wrote:
            return self._unsynced
        self._wrote = False
        self._unsynced = not synced
        if not synced:
            return True
        with contextlib.suppress(apsw.Error, OSError):
            if self._frames < self._marked:
                self._name()
            self._note()
            if self._frames >= CHECKPOINT_AT:
                self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        return False

    def empty(self) -> None:
        """Write the file anew without its free space, and cut the log to nothing. Between two transactions.

        Pages of a file keep what rows held before they were changed. A log that others read stays as it is.
        The mark says first that nothing is expected in the log, so that a crash in between is not taken for damage.
        """
        with contextlib.suppress(apsw.Error):
            self._db.execute("VACUUM")
        with contextlib.suppress(apsw.Error, OSError):
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
            self._frames = 0
            self._note()
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._name()

    def _name(self) -> None:
        self._logs += 1
        name = f"{self._token}-{self._logs:06}"
        with contextlib.suppress(apsw.Error, OSError):
            self._db.execute("INSERT INTO meta VALUES ('log', ?) ON CONFLICT DO UPDATE SET value = excluded.value", (name,))
            self._salts = self._salts_now()
            self._note()

    def _note(self) -> None:
        """Overwrite the mark in one write, so that a killed process leaves the old or the new one."""
        mark = Mark(f"{self._token}-{self._logs:06}", self._salts, self._frames)
        if self._descriptor < 0 or not os.fstat(self._descriptor).st_nlink:  # somebody removed the file
            self.close()
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.pwrite(self._descriptor, str(mark).encode("ascii"), 0)
        self._marked = self._frames

    def close(self) -> None:
        """Close the mark's file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _salts_now(self) -> bytes:
        with self._log.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), 8, 16)


_SYNC: Final = "INSERT INTO meta VALUES ('syncs', '1') ON CONFLICT (name) DO UPDATE SET value = value + 1"
"""A change, whose commit syncs what was written before it: SQLite writes nothing for one that leaves a row as it was."""

_HINTS: Final = {
    apsw.FullError: "Free some space on that disk; nothing that was confirmed is lost.",
    apsw.ReadOnlyError: "Give your user write access to it (chown, chmod, remount), or point HOMEBODY_HOME elsewhere.",
    apsw.CantOpenError: "Give your user access to the folder (chown, chmod), or point HOMEBODY_HOME elsewhere.",
    apsw.BusyError: "Another program has the file open: close it and start again.",
    apsw.IOError: "Look at the disk (dmesg, free space, quota); nothing that was confirmed is lost.",
    apsw.CorruptError: "Restart the gateway: it sets the damaged file aside and begins a new one.",
    apsw.NotADBError: "Restart the gateway: it sets the damaged file aside and begins a new one.",
}


def storage_error(error: Exception, where: str) -> StorageFailed | None:
    """Translate an error that the disk caused; return None for any other."""
    for kind, hint in _HINTS.items():
        if isinstance(error, kind):
            return StorageFailed(f"the ledger could not be used: {error}", where=where, hint=hint)
    return None


class SqliteEngine:
    """Implements ``Engine``. ``marking`` is the mark of the file's log; ``where`` names the file in errors."""

    failures: type[Exception] = apsw.Error
    lost = False
    doubtful: str | None = None

    def __init__(self, db: apsw.Connection, marking: Marking, where: str) -> None:
        self.db = db
        self.marking = marking
        self.committed = marking.committed
        self._where = where
        self._synced = True

    @property
    def in_transaction(self) -> bool:
        """See the protocol. SQLite itself rolls back when the disk is full."""
        return self.db.in_transaction

    def away(self) -> StorageFailed | None:
        """See the protocol."""
        return None

    def outcome(self) -> bool | None:
        """See the protocol."""
        return None

    def begin(self, *, synced: bool) -> None:
        """See the protocol."""
        self.set_synced(synced=synced)
        self.db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """See the protocol."""
        self.db.execute("COMMIT")

    def rollback(self) -> None:
        """See the protocol."""
        self.db.execute("ROLLBACK")

    def sync(self) -> bool:
        """See the protocol."""
        self.set_synced(synced=True)
        with contextlib.suppress(apsw.Error):
            self.db.execute(_SYNC)
        return self.marking.committed()

    def set_synced(self, *, synced: bool) -> None:
        """Choose whether commits are synced (https://sqlite.org/pragma.html#pragma_synchronous)."""
        if synced != self._synced:
            self.db.execute("PRAGMA synchronous = FULL" if synced else "PRAGMA synchronous = NORMAL")
            self._synced = synced

    def storage_error(self, error: Exception) -> StorageFailed | None:
        """See the protocol."""
        return storage_error(error, self._where)

    def close(self) -> None:
        """See the protocol."""
        self.marking.close()
        self.db.close()
