"""Decides what becomes of a job that is due: which instant fires, which are left out, and when it is due next."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gateway.ledger.job_rows import Job, LeftOut
from gateway.schedules.schedule import Schedule, latest_until, next_after

LATE: Final = timedelta(minutes=1)
"""A run that fires this late is said to be late."""
_TICK: Final = timedelta(microseconds=1)
NOT_RUNNING: Final = "Homebody was not running then, or the clock was set"
UNSURE: Final = "the ledger is from a backup or was damaged, and does not know what happened after that"


class Plan(Struct, frozen=True, kw_only=True):
    """What becomes of a due job.

    ``fire`` is the instant that fires now, or None. ``missed``: the instant that was too late to be made up, about which the owner is
    told. See ``JobStep`` for the others.
    """

    fire: datetime | None
    missed: datetime | None
    left_out: LeftOut | None
    next_at: datetime | None
    skipped: tuple[datetime, datetime] | None
    end_reason: str = ""


def plan(job: Job, schedule: Schedule, now: datetime) -> Plan:
    """Plan a job whose ``next_at`` is not after ``now``.

    Of several instants that passed only the latest fires, if it is not later than the job's ``catch_up``; the others are left out.
    """
    assert job.next_at is not None
    first = job.next_at
    if job.skipped_to is None or job.skipped_to <= first:
        after_first = next_after(schedule, first)
        if (after_first is None or after_first > now) and _fires(job, first, now):  # as nearly always
            return Plan(fire=first, missed=None, left_out=None, next_at=after_first, skipped=_span_of(job))
    again = job.skipped_from is not None and job.skipped_to is not None and job.skipped_from <= first < job.skipped_to
    end = min(now, job.skipped_to - _TICK) if again and job.skipped_to is not None else now
    latest = latest_until(schedule, first, end)
    unsure = job.unsure_until is not None and latest <= job.unsure_until
    fires = _fires(job, latest, now)
    left_out, span = None, None
    if fires and latest > first:
        left_out = LeftOut(
            first=first, until=latest_until(schedule, first, latest - _TICK), state="skipped", reason=NOT_RUNNING
        )
        span = (first, latest)
    elif not fires:
        left_out = LeftOut(first=first, until=latest, state="missed", reason=UNSURE if unsure else NOT_RUNNING)
        span = None if unsure else (first, latest + _TICK)
    kept = _longer(span, _span_of(job))
    if again and job.skipped_to is not None:
        ahead = (latest + _TICK, job.skipped_to)
        kept = (first, job.skipped_to) if not fires else ahead if now < job.skipped_to else _longer(span, ahead)
    following = _next(schedule, max(now, end), job.last_at, kept, after_skipped=job.skipped_to if again else None)
    return Plan(
        fire=latest if fires else None,
        missed=None if fires else latest,
        left_out=left_out,
        next_at=following,
        skipped=kept,
        end_reason="" if fires or following is not None else "missed",
    )


def _fires(job: Job, instant: datetime, now: datetime) -> bool:
    return now - instant <= job.catch_up and (job.unsure_until is None or instant > job.unsure_until)


def following(job: Job, schedule: Schedule, now: datetime) -> datetime | None:
    """Return the next instant of a job after ``now`` that has not been dealt with.

    That is one after all that fired, or one that was left out and lies ahead again because the clock was set back.
    """
    return _next(schedule, now, job.last_at, _span_of(job), after_skipped=job.skipped_to)


def after_set_back(job: Job, now: datetime) -> Job:
    """Return a job as it is after the clock was set back: if it was added later than ``now``, what lies between is still to come."""
    return replace(job, created_at=now, skipped_from=now, skipped_to=job.created_at) if job.created_at > now else job


def _next(
    schedule: Schedule,
    now: datetime,
    last_at: datetime | None,
    skipped: tuple[datetime, datetime] | None,
    *,
    after_skipped: datetime | None,
) -> datetime | None:
    if skipped is not None:
        found = next_after(schedule, max(now, skipped[0] - _TICK))
        if found is not None and found < skipped[1]:
            return found
    dealt_with = [
        now,
        *([last_at] if last_at is not None else []),
        *([after_skipped - _TICK] if after_skipped is not None else []),
    ]
    return next_after(schedule, max(dealt_with))


def _span_of(job: Job) -> tuple[datetime, datetime] | None:
    return None if job.skipped_from is None or job.skipped_to is None else (job.skipped_from, job.skipped_to)


def _longer(one: tuple[datetime, datetime] | None, other: tuple[datetime, datetime] | None) -> tuple[datetime, datetime] | None:
    """Return the longer of two spans: the clock was wrong by the most there."""
    return max((span for span in (one, other) if span is not None), key=lambda span: span[1] - span[0], default=None)
