"""The ledger's SQLite file while it is open: how it is synced, the mark of its log, and its errors in words."""

from __future__ import annotations

import contextlib
from typing import Final

import apsw

from gateway.base.errors import StorageFailed
from gateway.ledger.wal import Marking

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
        self._where = where
        self._synced = True

    @property
    def in_transaction(self) -> bool:
        """See the protocol. SQLite itself rolls back when the disk is full."""
        return self.db.in_transaction

    @property
    def unsynced(self) -> bool:
        """See the protocol."""
        return self.marking.unsynced

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

    def committed(self, *, synced: bool) -> None:
        """See the protocol."""
        self.marking.committed(synced=synced)

    def sync(self) -> None:
        """See the protocol."""
        self.set_synced(synced=True)
        with contextlib.suppress(apsw.Error):
            self.db.execute(_SYNC)
            self.marking.committed()

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
