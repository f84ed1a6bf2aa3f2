"""The ledger's file: opened so that nothing confirmed can be lost, set aside when it is damaged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from gateway.errors import StorageFailed
from gateway.ledger.schema import APPLICATION_ID, migrate
from gateway.ledger.thread import storage_error

if TYPE_CHECKING:
    from datetime import datetime

_SIDE_FILES = ("-wal", "-shm", "-journal")


def connect(path: Path, epoch: str, now: datetime) -> tuple[apsw.Connection, str | None]:
    """Open or make the file; return the connection, and what the owner should know when a damaged one was set aside.

    The exclusive lock comes before the write-ahead log, so that no other process shares the log. Nothing in this process
    may open the file by other means: closing such a handle would drop SQLite's locks, and commits could vanish.
    """
    try:
        _prepare(path)
    except OSError as error:
        raise StorageFailed.from_os(error, "open the ledger", path) from error
    try:
        return _open(path, epoch), None
    except (apsw.CorruptError, apsw.NotADBError) as error:
        try:
            kept = _set_aside(path, now)
            _prepare(path)
        except OSError as failed:
            raise StorageFailed.from_os(failed, "set the damaged ledger aside", path) from failed
        notice = (
            f"The ledger of messages was damaged ({error}). It was set aside as {kept} and a new one was begun: messages "
            "that waited for an answer, and replies that were not sent yet, may be missing."
        )
        return _open_fresh(path, epoch), notice
    except apsw.Error as error:
        raise storage_error(error, str(path)) or error from error


def _open_fresh(path: Path, epoch: str) -> apsw.Connection:
    try:
        return _open(path, epoch)
    except apsw.Error as error:
        raise storage_error(error, str(path)) or error from error


def _prepare(path: Path) -> None:
    """See that the file exists and is for the owner's eyes only, before SQLite holds any lock on it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)


def _open(path: Path, epoch: str) -> apsw.Connection:
    db = apsw.Connection(str(path))
    try:
        db.set_busy_timeout(1000)
        db.pragma("locking_mode", "EXCLUSIVE")
        _check(db)
        db.pragma("journal_mode", "WAL")
        db.pragma("synchronous", "FULL")
        db.pragma("foreign_keys", "ON")
        db.pragma("journal_size_limit", 16 * 1024 * 1024)
        migrate(db, epoch, str(path))
        db.execute("UPDATE outbox SET state = 'ambiguous', doubts = doubts + 1 WHERE state = 'sending'")
    except BaseException:  # also when interrupted: an open connection would hold the file
        db.close()
        raise
    return db


def _check(db: apsw.Connection) -> None:
    """Raise CorruptError or NotADBError for a file that is damaged or not ours. One without tables was merely begun."""
    ours = int(db.pragma("application_id") or 0) == APPLICATION_ID
    if not ours and db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
        raise apsw.NotADBError("it is another program's database")
    finding = db.pragma("quick_check", 1)
    if finding != "ok":
        raise apsw.CorruptError(str(finding))


def _set_aside(path: Path, now: datetime) -> Path:
    """Rename the file and what belongs to it; return the new name."""
    base = Path(f"{path}.bad-{now:%Y%m%dT%H%M%SZ}")
    kept, count = base, 1
    while kept.exists():
        count += 1
        kept = Path(f"{base}-{count}")
    path.rename(kept)
    for side in _SIDE_FILES:
        if Path(f"{path}{side}").exists():
            Path(f"{path}{side}").rename(f"{kept}{side}")
    return kept
