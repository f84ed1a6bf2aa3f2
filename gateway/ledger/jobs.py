"""Jobs in the ledger: their next instants, and the runs that are logged. A run and what it sends are stored in one transaction."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from gateway.base.errors import InvalidTransition
from gateway.ledger.database import Database
from gateway.ledger.inbox import take
from gateway.ledger.job_columns import COLUMNS, TIMES, flat_job, flat_spans, read_job, read_run
from gateway.ledger.job_rows import Job, JobRun, JobStep, NewJob, StepResult
from gateway.ledger.outbox import enqueue
from gateway.ledger.removed_alarms import note_removal, removed_alarms
from gateway.ledger.rows import UNSURE, NewOutbound
from gateway.ledger.thread import LedgerConnection, NameCache
from gateway.ledger.unasked import add_line
from gateway.ledger.values import clean, instant, stamp

SCHEDULE_ACCOUNT: Final = "schedule"
"""The account under which messages of jobs are in the inbox."""
KEPT_RUNS: Final = 50
"""The most runs that are kept of a job."""
REFUSALS: Final = 2
"""After so many runs in a row whose messages a platform refused for good, a job is paused."""

HELD: Final = "what was due before it is held until quiet hours end"
UNENDED: Final = "the run before it has not ended"
"""Why a run is left out."""

_QUEUED: Final = "SELECT 1 FROM outbox WHERE key = :key UNION ALL SELECT 1 FROM unasked WHERE key = :key"
_LATEST_RUNS: Final = "SELECT inbox, message FROM job_run WHERE job = ? AND state = 'fired' ORDER BY instant DESC LIMIT 5"
_BUSY: Final = f"""
SELECT EXISTS (SELECT 1 FROM unasked WHERE unasked.key = run.message AND unasked.state = 'held') FROM ({_LATEST_RUNS}) AS run WHERE
    EXISTS (SELECT 1 FROM inbox WHERE inbox.id = run.inbox AND inbox.state IN ('waiting', 'claimed'))
    OR EXISTS (
        SELECT 1 FROM outbox WHERE outbox.key = run.message AND outbox.state IN ('ready', 'sending', 'ambiguous')
        AND NOT (outbox.unasked IS NOT NULL AND outbox.created_at >= ?)
    )
    OR EXISTS (SELECT 1 FROM unasked WHERE unasked.key = run.message AND unasked.state = 'held')
"""
"""A message that quiet hours held and that was queued at their end does not leave out a time of its own that came then or before."""
_SENT: Final = """
SELECT outbox.state, outbox.reason FROM outbox
WHERE outbox.key = :message OR outbox.turn = (SELECT turn FROM inbox WHERE inbox.id = :inbox AND turn IS NOT NULL)
"""
_NOT_REFUSED: Final = ("expired", "queued before a restore", *UNSURE)
_RUNS: Final = """
SELECT job_run.job, instant, job_run.at, job_run.state, coalesce(nullif(job_run.reason, ''), inbox.reason, ''), until,
       by_hand, inbox.state, inbox.turn,
       coalesce(outbox.state, unasked.state)
FROM job_run LEFT JOIN inbox ON inbox.id = job_run.inbox LEFT JOIN outbox ON outbox.key = job_run.message
LEFT JOIN unasked ON unasked.key = job_run.message
WHERE job_run.job = ? ORDER BY job_run.rowid DESC LIMIT ?
"""


class JobsPart:
    """Implements ``JobLedger``. ``events`` caches which conversations have context events."""

    def __init__(self, connection: LedgerConnection, events: NameCache) -> None:
        self._connection = connection
        self._events = events
        self._random = random.SystemRandom()

    async def add(self, new: NewJob, next_at: datetime, reckoned_in: str) -> Job:
        now = self._connection.now()
        values = flat_job(new) | {"state": "active", "reason": "", "reckoned_in": reckoned_in}
        values |= {"created_at": stamp(now), "changed_at": stamp(now), "next_at": stamp(next_at)}
        letters = self._random.choices

        def work(db: Database) -> Job:
            while True:
                named = values | {"id": "".join(letters(string.ascii_lowercase, k=5))}
                query = f"INSERT INTO job ({', '.join(named)}) VALUES ({', '.join(f':{name}' for name in named)}) ON CONFLICT DO NOTHING"
                db.execute(query, named)
                if db.changes():
                    return _one(db, named["id"])

        return await self._connection.run(work)

    async def get(self, job: str) -> Job | None:
        return await self._connection.run(lambda db: next(iter(_find(db, "id = ?", (clean(job),))), None))

    async def all(self, *, agent: str | None = None, asked_in: str | None = None) -> list[Job]:
        wanted = "(agent = :agent OR :agent IS NULL) AND (asked_in = :asked_in OR :asked_in IS NULL)"
        order = "ORDER BY state = 'done', next_at IS NULL, next_at, rowid"
        values = {"agent": agent, "asked_in": asked_in}
        return await self._connection.run(lambda db: _find(db, f"{wanted} {order}", values))

    async def count(self, agent: str) -> int:
        query = "SELECT count(*) FROM job WHERE agent = ? AND state <> 'done'"
        found: Any = await self._connection.run(lambda db: db.execute(query, (agent,)).fetchone())
        return int(found[0])

    async def change(self, job: Job) -> Job:
        now = self._connection.now()
        values = flat_job(job) | {"state": job.state, "reason": job.reason, "reckoned_in": job.reckoned_in}
        values |= {name: None if (at := getattr(job, name)) is None else stamp(at) for name in TIMES}
        values |= flat_spans(job.skipped) | {"changed_at": stamp(now)}

        def work(db: Database) -> Job:
            db.execute(
                f"UPDATE job SET {', '.join(f'{name} = :{name}' for name in values)} WHERE id = :id", values | {"id": job.id}
            )
            if not db.changes():
                raise InvalidTransition("there is no such job any more", where=f"job {job.id}")
            return _one(db, job.id)

        return await self._connection.run(work)

    async def remove(self, job: str, *, by_person: bool = False) -> bool:
        now = self._connection.now()

        def work(db: Database) -> bool:
            for found in _find(db, "id = ?", (job,)) if by_person else ():
                note_removal(db, found, found.next_at, now)
            db.execute("DELETE FROM job_run WHERE job = ?", (job,))
            db.execute("DELETE FROM job WHERE id = ?", (job,))
            return db.changes() == 1

        return await self._connection.run(work)

    async def stopped(self, limit: int) -> list[Job]:
        wanted = "state = 'paused' AND reason <> '' ORDER BY changed_at DESC, rowid LIMIT ?"
        return await self._connection.run(lambda db: _find(db, wanted, (limit,)))

    async def removed_alarms(self, begins: str) -> dict[str, str]:
        return await self._connection.run(lambda db: removed_alarms(db, begins))

    async def due(self, now: datetime, *, limit: int = 500) -> tuple[list[Job], datetime | None]:
        def work(db: Database) -> tuple[list[Job], datetime | None]:
            wanted = "state = 'active' AND next_at <= ? ORDER BY next_at, rowid LIMIT ?"
            jobs = _find(db, wanted, (stamp(now), limit))
            query = "SELECT min(next_at) FROM job WHERE state = 'active' AND next_at > ?"
            later: Any = db.execute(query, (stamp(now),)).fetchone()
            return jobs, None if later[0] is None else instant(later[0])

        return await self._connection.run(work)

    async def earliest(self) -> datetime | None:
        query = "SELECT min(next_at) FROM job WHERE state = 'active'"
        found: Any = await self._connection.run(lambda db: db.execute(query).fetchone())
        return None if found[0] is None else instant(found[0])

    async def mark(self) -> tuple[int | None, ...]:
        query = (
            "SELECT count(*), sum(changed_at / 1000), sum(next_at / 1000), (SELECT count(*) FROM job_run), (SELECT max(at) FROM job_run) "
            "FROM job"
        )
        found: Any = await self._connection.run(lambda db: db.execute(query).fetchone())
        return tuple(found)

    async def skipped_ahead(self, now: datetime) -> list[Job]:
        wanted = "state <> 'paused' AND (created_at > :now OR skipped_to > :now) ORDER BY rowid"
        return await self._connection.run(lambda db: _find(db, wanted, {"now": stamp(now)}))

    async def of_former_zone(self, agent: str, zone: str) -> list[Job]:
        wanted = "state = 'active' AND zone = '' AND schedule LIKE 'cron %' AND agent = ? AND reckoned_in <> ?"
        return await self._connection.run(lambda db: _find(db, wanted, (agent, zone)))

    async def reckon(self, job: Job) -> None:
        values = {"next_at": None if job.next_at is None else stamp(job.next_at)} | flat_spans(job.skipped)
        query = (
            f"UPDATE job SET {', '.join(f'{name} = :{name}' for name in values)}, reckoned_in = :zone, state = 'active', reason = '' "
            "WHERE id = :id AND state <> 'paused'"
        )
        await self._connection.run(lambda db: _run(db, query, values | {"id": job.id, "zone": job.reckoned_in}))

    async def step(self, step: JobStep) -> StepResult:
        now, token = self._connection.now(), self._connection.new_id
        if step.line:
            self._events.changed()

        def work(db: Database) -> StepResult:
            return _step(db, step, now, token)

        return await self._connection.run(work, self._connection.notify_outbound if step.message is not None else None)

    async def miss(self, steps: Sequence[JobStep], notice: NewOutbound) -> list[StepResult]:
        now, token = self._connection.now(), self._connection.new_id

        def work(db: Database) -> list[StepResult]:
            results = [_step(db, step, now, token) for step in steps]
            if any(one.outcome == "left out" for one in results):
                enqueue(db, [notice], now=now, token=token)
            return results

        return await self._connection.run(work, self._connection.notify_outbound)

    async def pause(self, job: str, reason: str) -> bool:
        query = "UPDATE job SET state = 'paused', reason = ?, next_at = NULL, changed_at = ? WHERE id = ? AND state <> 'paused'"
        values = (clean(reason), stamp(self._connection.now()), job)

        return await self._connection.run(lambda db: _run(db, query, values) == 1)

    async def log(self, job: str, limit: int) -> list[JobRun]:
        return await self._connection.run(lambda db: [read_run(found) for found in db.execute(_RUNS, (job, limit))])


def _run(db: Database, query: str, values: Any) -> int:
    db.execute(query, values)
    return db.changes()


def forget_jobs(db: Database, before: int, limit: int) -> int:
    """Delete the log older than ``before``, and jobs that were done by then; at most ``limit`` of each. Return how many rows."""
    ended = "SELECT id FROM job WHERE state = 'done' AND changed_at < ? LIMIT ?"
    count = _run(db, f"DELETE FROM job_run WHERE job IN ({ended})", (before, limit))
    count += _run(db, f"DELETE FROM job WHERE id IN ({ended})", (before, limit))
    return count + _run(
        db, "DELETE FROM job_run WHERE rowid IN (SELECT rowid FROM job_run WHERE at < ? LIMIT ?)", (before, limit)
    )


def _step(db: Database, step: JobStep, now: datetime, token: Any) -> StepResult:
    job = next(iter(_find(db, "id = ?", (step.job,))), None)
    if job is None or (not step.by_hand and (job.state != "active" or job.next_at != step.due)):
        return StepResult(outcome="changed")
    if not step.by_hand:
        if step.fire is not None and (refused := _refused(db, job)):
            db.execute(
                "UPDATE job SET state = 'paused', reason = ?, next_at = NULL, changed_at = ? WHERE id = ?",
                (refused, stamp(now), job.id),
            )
            return StepResult(outcome="refused", reason=refused)
        _advance(db, job, step, now)
    if step.left_out is not None:
        out = step.left_out
        _add_run(db, job.id, out.first, now, {"state": out.state, "reason": out.reason, "until": out.until})
    result = _fire(db, step, job.agent, now, token) if step.fire is not None else StepResult(outcome="left out")
    _trim(db, job.id)
    return result


def _advance(db: Database, job: Job, step: JobStep, now: datetime) -> None:
    """Store the next instant, the latest one that fired, and the span of instants that were left out."""
    last_at = job.last_at
    if step.fire is not None:
        last_at = step.fire if last_at is None else max(last_at, step.fire)
    values: dict[str, Any] = {
        "id": job.id,
        "next_at": None if step.next_at is None else stamp(step.next_at),
        "last_at": None if last_at is None else stamp(last_at),
        "state": "done" if step.next_at is None else "active",
        "reason": step.end_reason if step.next_at is None else "",
        "now": stamp(now),
        **flat_spans(step.skipped),
    }
    db.execute(
        "UPDATE job SET next_at = :next_at, last_at = :last_at, state = :state, reason = :reason, "
        "skipped = :skipped, skipped_from = :skipped_from, skipped_to = :skipped_to, "
        "changed_at = CASE WHEN :state = 'done' THEN :now ELSE changed_at END WHERE id = :id",
        values,
    )


def _fire(db: Database, step: JobStep, agent: str, now: datetime, token: Any) -> StepResult:
    fire = step.fire
    assert fire is not None
    if step.named and _is_known(db, step):
        return StepResult(outcome="known")
    if (busy := db.execute(_BUSY, (step.job, stamp(fire))).fetchone()) is not None:
        if not step.by_hand:
            _add_run(db, step.job, fire, now, {"state": "skipped", "reason": HELD if busy[0] else UNENDED})
        return StepResult(outcome="busy")
    query = "SELECT 1 FROM job_run WHERE job = ? AND instant = ? AND state = 'fired'"
    if db.execute(query, (step.job, stamp(fire))).fetchone():
        return StepResult(outcome="known")
    row, key = None, None
    if step.arrival is not None:
        row, _ = take(db, SCHEDULE_ACCOUNT, step.arrival, now)
        if row is None:
            return StepResult(outcome="known")
    if step.message is not None:
        key = clean(step.message.key or "")
        if db.execute(_QUEUED, {"key": key}).fetchone():
            return StepResult(outcome="known")
        enqueue(db, [step.message], now=now, token=token)
        if step.line:
            add_line(db, step.message, step.line, now, step.sources, agent=agent)
    run = {"state": "fired", "reason": step.reason, "by_hand": step.by_hand, "inbox": row.id if row else None, "message": key}
    _add_run(db, step.job, fire, now, run)
    return StepResult(outcome="fired", row=row)


def _is_known(db: Database, step: JobStep) -> bool:
    """Return whether the message of a step was stored before: the request that asked for it is repeated."""
    if step.arrival is not None:
        query, key = "SELECT 1 FROM inbox WHERE account = :account AND skey = :key", step.arrival.alias
    else:
        query, key = _QUEUED, (step.message.key or "") if step.message is not None else ""
    return db.execute(query, {"account": SCHEDULE_ACCOUNT, "key": clean(key)}).fetchone() is not None


def _add_run(db: Database, job: str, at: datetime, now: datetime, run: dict[str, Any]) -> None:
    """Insert a run. One that fired replaces one that was left out, never the other way round."""
    until = run.get("until")
    values = {
        "job": job,
        "instant": stamp(at),
        "at": stamp(now),
        "state": run["state"],
        "reason": clean(run["reason"]),
        "until": None if until in {None, at} else stamp(until),
        "by_hand": int(run.get("by_hand", False)),
        "inbox": run.get("inbox"),
        "message": run.get("message"),
    }
    changes = ", ".join(f"{name} = excluded.{name}" for name in values if name not in {"job", "instant"})
    db.execute(
        f"INSERT INTO job_run ({', '.join(values)}) VALUES ({', '.join(f':{name}' for name in values)}) "
        f"ON CONFLICT (job, instant) DO UPDATE SET {changes} WHERE job_run.state <> 'fired'",
        values,
    )


def _trim(db: Database, job: str) -> None:
    db.execute(
        "DELETE FROM job_run WHERE job = :job AND rowid IN "
        "(SELECT rowid FROM job_run WHERE job = :job ORDER BY instant DESC LIMIT 1000000 OFFSET :kept)",
        {"job": job, "kept": KEPT_RUNS},
    )


def _refused(db: Database, job: Job) -> str:
    """Return why the platform refused the messages of the last runs since the job was changed; "" when it did not refuse all of them."""
    query = "SELECT inbox, message FROM job_run WHERE job = ? AND state = 'fired' AND at > ? ORDER BY instant DESC LIMIT ?"
    runs: list[Any] = db.execute(query, (job.id, stamp(job.changed_at), REFUSALS)).fetchall()
    reason = ""
    for inbox, message in runs:
        sent: list[Any] = db.execute(_SENT, {"inbox": inbox, "message": message}).fetchall()
        reasons = [why or "" for state, why in sent if state == "dead"]
        reason = next((one for one in reasons if one not in _NOT_REFUSED and not one.startswith("may have arrived")), "")
        if not reason:
            return ""
    return reason if len(runs) == REFUSALS else ""


def _find(db: Database, wanted: str, values: Any) -> list[Job]:
    return [read_job(found) for found in db.execute(f"SELECT {COLUMNS} FROM job WHERE {wanted}", values)]


def _one(db: Database, job: str) -> Job:
    return _find(db, "id = ?", (job,))[0]
