"""The ledger's file: opened so that nothing confirmed can be lost, set aside when it is damaged."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from gateway.errors import StorageFailed
from gateway.ledger.schema import APPLICATION_ID, migrate
from gateway.ledger.thread import storage_error

if TYPE_CHECKING:
    from datetime import datetime

_SIDE_FILES = ("-wal", "-shm", "-journal")
_OURS_ALONE = 0o600
_DISK_REFUSES = (apsw.FullError, apsw.IOError, apsw.BusyError, apsw.NoMemError)


def connect(path: Path, epoch: str, now: datetime) -> tuple[apsw.Connection, str | None]:
    """Open or make the file; return the connection, and what the owner should know when one was set aside.

    A file that cannot be used, whatever the reason, is set aside, for a house without a ledger of the past is better than a silent
    one. Two reasons stand against that: a disk that refuses (a new file would fare no better), and a file of a later version.
    The exclusive lock comes before the write-ahead log, so that no other process shares the log. Nothing in this process
    may open the file by other means: closing such a handle would drop SQLite's locks, and commits could vanish.
    """
    try:
        _prepare(path)
        return _open(path, epoch), None
    except _DISK_REFUSES as error:
        raise storage_error(error, str(path)) or error from error
    except (apsw.Error, OSError) as error:
        return _begin_anew(path, epoch, now, error)


def _begin_anew(path: Path, epoch: str, now: datetime, error: Exception) -> tuple[apsw.Connection, str]:
    """Set the file aside and make a new one; where that fails as well, the old one is put back."""
    if isinstance(error, OSError) and not os.path.lexists(path):
        raise StorageFailed.from_os(error, "make the ledger", path) from error
    try:
        kept = _set_aside(path, now)
        try:
            _prepare(path)
            db = _open(path, epoch)
        except (apsw.Error, OSError):
            _rename(kept, path)
            raise
    except OSError as failed:
        raise StorageFailed.from_os(failed, "set aside the ledger, which could not be opened", path) from failed
    except apsw.Error as failed:
        raise storage_error(failed, str(path)) or failed from failed
    notice = (
        f"The ledger of messages could not be used ({error}). It was set aside as {kept} and a new one was begun: messages "
        "that waited for an answer, and replies that were not sent yet, may be missing."
    )
    return db, notice


def _prepare(path: Path) -> None:
    """See that the file exists and is for the owner's eyes and pen only, before SQLite holds any lock on it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OURS_ALONE))
    except FileExistsError:
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) != _OURS_ALONE:
            path.chmod(_OURS_ALONE)


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
    _rename(path, kept)
    return kept


def _rename(old: Path, new: Path) -> None:
    """Rename a database over nothing, or over one that was merely begun, with what belongs to it."""
    for side in ("", *_SIDE_FILES):
        if Path(f"{old}{side}").exists():
            Path(f"{old}{side}").replace(f"{new}{side}")
        else:
            Path(f"{new}{side}").unlink(missing_ok=True)
