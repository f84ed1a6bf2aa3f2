"""Takes what is open in a restored ledger out of its course, because the other gateway may have dealt with it since the backup.

Nothing of it is sent, answered or fired until its owner releases it. Messages that platforms would tell again are not asked for, either.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import apsw
from msgspec import Struct
from msgspec.structs import asdict

from gateway.base.atomic_file import sync
from gateway.base.errors import StorageFailed
from gateway.ledger.database import Database
from gateway.ledger.rows import RESTORED
from gateway.ledger.schema import APPLICATION_ID, migrate
from gateway.ledger.values import stamp

_MARK: Final = "restored"
_MOVES: Final = "moves"
_STEPS: Final = (
    "UPDATE inbox SET state = 'failed', reason = :why, ended_at = :now, turn = NULL WHERE state IN ('waiting', 'claimed')",
    """UPDATE outbox SET state = 'dead', reason = :why, ended_at = :now, doubts = max(doubts, 1)
    WHERE state IN ('ready', 'sending', 'ambiguous')""",
    """UPDATE approval SET state = 'withdrawn', reason = :why, always = 0, decided_at = coalesce(decided_at, :now)
    WHERE state IN ('pending', 'approved')""",
    "UPDATE subagent SET state = 'failed', reason = :why, ended_at = :now WHERE state = 'open'",
    "UPDATE turn SET state = 'failed', reason = :why, ended_at = :now WHERE state IN ('running', 'suspended')",
    "UPDATE unasked SET state = 'kept', told = 1 WHERE state IN ('held', 'kept')",
    "UPDATE job SET unsure_until = :now",
    "DELETE FROM cursor WHERE name <> :moves",
)
_COUNTS: Final = {
    "messages": "SELECT count(*) FROM inbox WHERE state IN ('waiting', 'claimed')",
    "replies": "SELECT count(*) FROM outbox WHERE state IN ('ready', 'sending', 'ambiguous')",
    "unasked": "SELECT count(*) FROM unasked WHERE state IN ('held', 'kept')",
    "questions": "SELECT count(*) FROM approval WHERE state IN ('pending', 'approved')",
    "jobs": "SELECT count(*) FROM job WHERE state = 'active'",
    "jobs_due": "SELECT count(*) FROM job WHERE state = 'active' AND next_at <= :now",
    "people": "SELECT count(*) FROM approved",
    "hooks": "SELECT count(*) FROM hook WHERE state = 'active'",
}


class Held(Struct, frozen=True, kw_only=True):
    """What was taken out of its course: waiting ``messages``, ``replies``, ``unasked`` messages and ``questions``; and what is in force.

    ``jobs_due`` are jobs that were due since the backup: they are told and not fired. ``people`` may speak, ``hooks`` take calls.
    """

    messages: int = 0
    replies: int = 0
    unasked: int = 0
    questions: int = 0
    jobs: int = 0
    jobs_due: int = 0
    people: int = 0
    hooks: int = 0


def hold(path: Path, epoch: str, made: str, now: datetime) -> Held:
    """Bring a restored ledger, which nobody has open, to the present version, and hold what is open in it. Blocking.

    Raises:
        StorageFailed: it is damaged, of a later version, or cannot be written.
    """
    try:
        db = apsw.Connection(str(path))
        try:
            db.pragma("locking_mode", "EXCLUSIVE")
            if db.pragma("application_id") != APPLICATION_ID:
                raise apsw.NotADBError("it is no ledger")
            db.pragma("foreign_keys", "OFF")
            migrate(db, epoch, str(path))
            held = _hold(db, made, now)
            db.pragma("journal_mode", "DELETE")
        finally:
            db.close()
        sync(path)
    except apsw.Error as error:
        raise StorageFailed(f"the restored ledger cannot be used: {error}", where=str(path)) from error
    return held


def _hold(db: apsw.Connection, made: str, now: datetime) -> Held:
    values = {"now": stamp(now), "why": RESTORED, "moves": _MOVES}
    with db:
        counts: dict[str, Any] = {}
        for name, query in _COUNTS.items():
            counts[name] = db.execute(query, values if ":now" in query else {}).fetchall()[0][0]
        held = Held(**counts)
        for step in _STEPS:
            db.execute(step, {name: value for name, value in values.items() if f":{name}" in step})
        about = json.dumps({"made": made, "at": now.isoformat(timespec="seconds"), "held": asdict(held)})
        db.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (_MARK, about))
    return held


def begin(db: Database, now: datetime) -> dict[str, Any] | None:
    """At the first start of a restored ledger: jobs that were due up to now are told and not fired. Return what was restored, once."""
    found = db.execute("SELECT value FROM meta WHERE name = ?", (_MARK,)).fetchone()
    if found is None:
        return None
    db.execute("UPDATE job SET unsure_until = ?", (stamp(now),))
    db.execute("DELETE FROM meta WHERE name = ?", (_MARK,))
    about: dict[str, Any] = json.loads(str(found[0]))
    return about
