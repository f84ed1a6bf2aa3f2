"""Opens the ledger's file, and replaces it when it is damaged."""

from __future__ import annotations

import logging
import os
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

import apsw

from gateway.base.atomic_file import sync, write_atomically
from gateway.base.errors import StorageFailed
from gateway.ledger.ledger_backup import copies_of
from gateway.ledger.open_rows import read_through
from gateway.ledger.schema import APPLICATION_ID, LATER, STEPS, intended_ledger, migrate, restore_indexes
from gateway.ledger.sqlite_engine import Mark, Marking, missing, storage_error

if TYPE_CHECKING:
    from gateway.ledger.recovery import Ending

log = logging.getLogger(__name__)

_LOG, _IN_USE = "-wal", "-open"
"""The write-ahead log, and the mark that exists from opening the file until it is closed in order."""
_SIDE_FILES = (_LOG, "-shm", "-journal", _IN_USE)
_OURS_ALONE = 0o600
_DISK_REFUSES = (apsw.FullError, apsw.IOError, apsw.BusyError, apsw.NoMemError)


@dataclass(frozen=True, slots=True)
class Opened:
    """An open ledger. ``warning`` is for the owner; ``marking`` must be called after each commit.

    ``changed``: the last process, or the recovery, changed it and made no copy.
    """

    db: apsw.Connection
    marking: Marking
    warning: str | None = None
    changed: bool = True


def connect(path: Path, epoch: str, now: datetime) -> Opened:
    """Open or make the file.

    A file that cannot be used is set aside and replaced, because a gateway without its past is better than one that does not start.
    Exceptions: a disk that refuses (a new file would fare no better), and a file of a later version. A file whose write-ahead log is
    missing or damaged, or which is missing itself while its log exists, counts as damaged: SQLite would accept either and silently undo
    the last commits. The exclusive lock is taken before the write-ahead log, so that no other process shares the log. Nothing in this
    process may open the file by other means: closing such a handle drops SQLite's locks, and commits could be lost.
    """
    ending = _ending(path)
    try:
        mark = Mark.read(Path(f"{path}{_IN_USE}"))
        if (damage := _damage(path, mark)) is not None:
            ending = "lost"
            raise apsw.CorruptError(damage)
        _prepare(path)
        db = _open(path, epoch, mark.name if mark and ending == "lost" else None)
    except _DISK_REFUSES as error:
        raise storage_error(error, str(path)) or error from error
    except (apsw.Error, OSError) as error:
        return _begin_anew(path, epoch, now, error, ending)
    return Opened(db, _marked(db, path, epoch), changed=ending != "closed")


class Condition(NamedTuple):
    """How a ledger is: why it cannot be used, "" if it can, and whether the next start converts it from an earlier version.

    ``mend`` is what to do about what the next start does not recover.
    """

    damage: str = ""
    older: bool = False
    mend: str = ""


def examined(path: Path) -> Condition:
    """Look at a ledger that no process has open, and change nothing: what is damaged is recovered by ``connect``. Blocking."""
    mark = Mark.read(Path(f"{path}{_IN_USE}"))
    try:
        if (damage := _damage(path, mark)) is not None:
            return Condition(damage)
        db = _to_look_at(path)
        try:
            _check(db, mark.name if mark and _ending(path) == "lost" else None)
            version = int(db.pragma("user_version") or 0)
            if version > len(STEPS):
                return Condition(f"it is of version {version}, and this Homebody knows {len(STEPS)} at most", mend=LATER)
            if version == len(STEPS):
                with intended_ledger() as intended:
                    read_through(db, intended)
        finally:
            db.close()
    except (apsw.Error, OSError) as error:
        return Condition(str(error))
    return Condition(older=version < len(STEPS))


def _to_look_at(path: Path) -> apsw.Connection:
    """Open a file without changing it, or the names beside it, which tell how it was left: SQLite begins an empty log otherwise."""
    if not Path(f"{path}{_LOG}").exists():
        return apsw.Connection(f"file:{quote(str(path))}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.pragma("locking_mode", "EXCLUSIVE")
    db.pragma("query_only", 1)
    return db


def closing(path: Path) -> None:
    """Delete the mark: the file was closed in order."""
    Path(f"{path}{_IN_USE}").unlink(missing_ok=True)


def _begin_anew(path: Path, epoch: str, now: datetime, error: Exception, ending: Ending) -> Opened:
    """Set the file aside, make a new one and recover rows into it. When no new one can be made, the old one is put back."""
    if isinstance(error, OSError) and not os.path.lexists(path):
        raise StorageFailed.from_os(error, "make the ledger", path) from error
    try:
        kept = _set_aside(path, now)
        try:
            _prepare(path)
            db = _open(path, epoch, None)
        except (apsw.Error, OSError):
            _rename(kept, path)
            raise
        marking = _marked(db, path, epoch)
    except OSError as failed:
        raise StorageFailed.from_os(failed, "set aside the ledger, which could not be opened", path) from failed
    except apsw.Error as failed:
        raise storage_error(failed, str(path)) or failed from failed
    was_there = any(Path(f"{kept}{side}").exists() for side in ("", *_SIDE_FILES))
    done = f"It was set aside as {kept} and a new one was begun." if was_there else "A new one was begun."
    notice = f"The ledger of messages could not be used ({error}). {done}"
    try:
        from gateway.ledger.recovery import recover

        return Opened(db, marking, f"{notice} {recover(db, kept, ending, now, path)}")
    except Exception as failed:  # whatever a damaged file does to its reader, the gateway must start
        log.exception("nothing could be saved from %s", kept)
        lost = "messages that waited for an answer, and replies that were not sent yet, may be missing."
        return Opened(db, marking, f"{notice} Nothing could be saved from it ({failed}): {lost}")


def _ending(path: Path) -> Ending:
    """Return how the last process left the file, by the names of the files beside it."""
    logged, in_use = Path(f"{path}{_LOG}").exists(), Path(f"{path}{_IN_USE}").exists()
    if in_use and not logged and path.is_file() and path.stat().st_size:
        return "lost"
    return "crashed" if logged or in_use else "closed"


def _damage(path: Path, mark: Mark | None) -> str | None:
    """Return what is missing of a ledger that was not closed in order, or None. Raises OSError when the disk refuses."""
    log = Path(f"{path}{_LOG}")
    logged = log.exists() and log.stat().st_size > 0
    if not path.exists() or (path.is_file() and not path.stat().st_size):
        began = bool(copies_of(path)) or (mark is not None and (mark.committed or not path.exists()))
        return "the file is gone" + (", and only its write-ahead log is left" if logged else "") if logged or began else None
    return missing(log, mark) if log.exists() else None


def _marked(db: apsw.Connection, path: Path, token: str) -> Marking:
    """Write a name into the log, and beside the file the same name with the length of the log.

    When the log is missing later, the name tells whether its content is in the file (SQLite moves it there when it closes the file) or was
    lost. A mark that cannot be written is logged and stops nothing.
    """
    place = Path(f"{path}{_IN_USE}")
    try:
        closing(path)
        write_atomically(place, str(Mark(token)))
    except OSError as error:
        log.info("the ledger could not be marked as open: %s", error)
    marking = Marking(db, place, Path(f"{path}{_LOG}"), token)
    marking.begin()
    return marking


def _prepare(path: Path) -> None:
    """Make sure that the file exists with mode 600 before SQLite holds any lock on it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OURS_ALONE))
    except FileExistsError:
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) != _OURS_ALONE:
            path.chmod(_OURS_ALONE)


def _open(path: Path, epoch: str, marked: str | None) -> apsw.Connection:
    db = apsw.Connection(str(path))
    try:
        db.set_busy_timeout(1000)
        db.pragma("locking_mode", "EXCLUSIVE")
        _check(db, marked)
        db.pragma("journal_mode", "WAL")
        db.pragma("synchronous", "FULL")
        db.pragma("foreign_keys", "OFF")
        db.pragma("journal_size_limit", 16 * 1024 * 1024)
        # plans go by statements alone: where values count, too, SQLite compiles a statement anew each time that it gets others
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        _copy_before_migration(db, path)
        migrate(db, epoch, str(path))
        with intended_ledger() as intended:
            if restored := restore_indexes(db, intended):
                log.warning("indexes of the ledger were not as they should be, and were made anew: %s", ", ".join(restored))
            db.pragma("foreign_keys", "ON")
            db.execute("UPDATE outbox SET state = 'ambiguous', doubts = doubts + 1 WHERE state = 'sending'")
            read_through(db, intended)
    except BaseException:  # also when interrupted: an open connection would hold the file
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # the log is evidence, and nothing is written into what is damaged
        db.close()
        raise
    return db


def _copy_before_migration(db: apsw.Connection, path: Path) -> None:
    """Copy a ledger of an earlier version, so that the Homebody that wrote it could go on with it."""
    version = int(db.pragma("user_version") or 0)
    copy = path.with_name(f"{path.name}.version-{version}")
    if 0 < version < len(STEPS) and not copy.exists():
        unfinished = copy.with_name(f"{copy.name}.part")
        unfinished.unlink(missing_ok=True)
        db.execute("VACUUM INTO ?", (str(unfinished),))
        unfinished.chmod(_OURS_ALONE)
        sync(unfinished)
        unfinished.replace(copy)


def _check(db: apsw.Connection, marked: str | None) -> None:
    """Raise CorruptError or NotADBError for a file that is damaged or another program's. A file without tables is new.

    The quick check would not do: it passes over an index that does not fit its table. Each change of such a row fails, at every start anew,
    and a message that a unique index does not know is answered twice.
    """
    ours = int(db.pragma("application_id") or 0) == APPLICATION_ID
    if not ours and db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
        raise apsw.NotADBError("it is another program's database")
    finding = db.pragma("integrity_check", 1)
    if finding != "ok":
        raise apsw.CorruptError(str(finding))
    if marked is not None and not db.execute("SELECT 1 FROM meta WHERE name = 'log' AND value = ?", (marked,)).fetchone():
        raise apsw.CorruptError("its write-ahead log is gone")


def _set_aside(path: Path, now: datetime) -> Path:
    """Rename the file and its side files; return the new name."""
    base = Path(f"{path}.bad-{now:%Y%m%dT%H%M%SZ}")
    kept, count = base, 1
    while kept.exists():
        count += 1
        kept = Path(f"{base}-{count}")
    _rename(path, kept)
    return kept


def _rename(old: Path, new: Path) -> None:
    """Rename a database with its side files. What lies at the new name is replaced or deleted."""
    for side in ("", *_SIDE_FILES):
        if Path(f"{old}{side}").exists():
            Path(f"{old}{side}").replace(f"{new}{side}")
        else:
            Path(f"{new}{side}").unlink(missing_ok=True)
