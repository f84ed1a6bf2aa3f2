"""Copies of the ledger for backups: of one that nobody has open, and without what such a copy must not hold."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Final

import apsw

from gateway.base.atomic_file import sync
from gateway.base.errors import StorageFailed
from gateway.ledger.schema import APPLICATION_ID, STEPS

VERSION: Final = len(STEPS)
"""The version of ledgers that this program writes."""
_JOB = "SELECT id, agent, name, schedule, zone, asked_in, details, created_at FROM job ORDER BY id"
_RESTART = "Start the gateway once (it recovers what can be read), then make the backup."


def copy_closed(path: Path, place: Path) -> None:
    """Copy a ledger that nobody has open, with what is still in its write-ahead log. The file itself stays as it is. Blocking.

    Raises:
        StorageFailed: it cannot be read or written, or is damaged.
    """
    try:
        for side in ("", "-wal"):
            source = Path(f"{path}{side}")
            if source.exists():
                shutil.copyfile(source, f"{place}{side}")
        db = apsw.Connection(str(place))
        try:
            db.pragma("locking_mode", "EXCLUSIVE")
            db.pragma("journal_mode", "DELETE")
            if (finding := db.pragma("integrity_check", 1)) != "ok":
                raise apsw.CorruptError(str(finding))
            if db.pragma("application_id") != APPLICATION_ID:
                raise apsw.NotADBError("it is no ledger")
        finally:
            db.close()
        sync(place)
    except apsw.Error as error:
        raise StorageFailed(f"the ledger cannot be copied: {error}", where=str(path), hint=_RESTART) from error
    except OSError as error:
        raise StorageFailed.from_os(error, "copy the ledger", path) from error


def strip_secrets(place: Path) -> None:
    """Remove secrets from a copy: those of webhooks, which are paused, and codes for pairing. Raises StorageFailed. Blocking."""
    try:
        db = apsw.Connection(str(place))
        try:
            db.pragma("secure_delete", "ON")
            with db:
                if version_of(db) >= _HOOKS_SINCE:
                    db.execute("UPDATE hook SET secret = NULL, token_hash = NULL, state = 'paused'")
                db.execute("DELETE FROM pairing")
            db.execute("VACUUM")
        finally:
            db.close()
    except apsw.Error as error:
        raise StorageFailed(f"secrets cannot be removed from the copy of the ledger: {error}", where=str(place)) from error


_HOOKS_SINCE: Final = 7
_JOBS_SINCE: Final = 9


def version_of(db: apsw.Connection) -> int:
    """Return the version of a ledger."""
    return int(db.pragma("user_version") or 0)


def read_version(path: Path) -> int:
    """Return the version of a copy that nobody has open, by the header of its file. Raises OSError. Blocking."""
    with path.open("rb") as file:
        header = file.read(100)
    return int.from_bytes(header[60:64], "big")


def jobs_of(place: Path) -> dict[str, str]:
    """Return the jobs in a copy by id: when each was made, and a digest of all that its owner gave it. Raises StorageFailed. Blocking."""
    try:
        db = apsw.Connection(str(place), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            rows = db.execute(_JOB).fetchall() if version_of(db) >= _JOBS_SINCE else []
        finally:
            db.close()
    except apsw.Error as error:
        raise StorageFailed(f"the jobs in the copy of the ledger cannot be read: {error}", where=str(place)) from error
    return {str(row[0]): f"{row[-1]}:{hashlib.sha256(json.dumps(row).encode()).hexdigest()}" for row in rows}
