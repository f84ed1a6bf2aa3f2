"""Reminders of alarms that a person removed: they are not made again from the same alarm."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Final

from gateway.ledger.database import Database
from gateway.ledger.job_rows import NewJob
from gateway.ledger.values import clean, stamp

MADE_OF_ALARMS: Final = "calendar:"
"""Begins ``created_by`` of their jobs."""
_PREFIX: Final = "removed:"
"""Of the names of these rows in ``meta``."""
_KEPT: Final = timedelta(days=3)
"""After its instant an alarm is not found again, also if the clock is corrected."""


def note_removal(db: Database, job: NewJob, due: datetime | None, now: datetime) -> None:
    """Note that a person removed a job, where it was made of an alarm."""
    if not job.created_by.startswith(MADE_OF_ALARMS):
        return
    for name, value in _rows(db, ""):
        if stamp(now - _KEPT) > (_read(value) or (0, ""))[0]:
            db.execute("DELETE FROM meta WHERE name = ?", (name,))
    value = json.dumps([stamp(due or now), job.text])
    query = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    db.execute(query, (f"{_PREFIX}{clean(job.created_by)}", value))


def removed_alarms(db: Database, begins: str) -> dict[str, str]:
    """Return the texts of those that were removed, by what made them, which ``begins`` so."""
    read = {name.removeprefix(_PREFIX): _read(value) for name, value in _rows(db, begins)}
    return {name: found[1] for name, found in read.items() if found is not None}


def _rows(db: Database, begins: str) -> list[tuple[str, str]]:
    wanted = f"{_PREFIX}{clean(begins)}"
    found = db.execute("SELECT name, value FROM meta WHERE substr(name, 1, length(:wanted)) = :wanted", {"wanted": wanted})
    return [(str(name), str(value)) for name, value in found]


def _read(written: str) -> tuple[int, str] | None:
    try:
        raw: Any = json.loads(written)
        return int(raw[0]), str(raw[1])
    except (KeyError, TypeError, ValueError, IndexError):
        return None
