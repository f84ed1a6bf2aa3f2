"""Decides what becomes of a job that is due: which instant fires, which are left out, and when it is due next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gateway.ledger.job_rows import Job, LeftOut, Span
from gateway.schedules.schedule import Schedule, latest_until, next_after

LATE: Final = timedelta(minutes=1)
"""A run that fires this late is said to be late."""
_MOST_SPANS: Final = 8
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
    skipped: tuple[Span, ...]
    end_reason: str = ""


def plan(job: Job, schedule: Schedule, now: datetime) -> Plan:
    """Plan a job whose ``next_at`` is not after ``now``.

    Of several instants that passed only the latest fires, if it is not later than the job's ``catch_up``; the others are left out.
    Instants before the job was made count only while the clock is before that, too: then one of both times is wrong.
    """
    assert job.next_at is not None
    first = job.next_at
    before_made = first < job.created_at <= now and bool(job.skipped) and job.skipped[0][0] < job.created_at
    if not before_made and (not job.skipped or job.skipped[-1][1] <= first) and (job.last_at is None or job.last_at < first):
        after_first = next_after(schedule, first)
        if (after_first is None or after_first > now) and _fires(job, first, now):  # as nearly always
            return Plan(fire=first, missed=None, left_out=None, next_at=after_first, skipped=job.skipped)
    found = _waiting(job, schedule, job.created_at if before_made else first, now)
    if found is None:
        return Plan(fire=None, missed=None, left_out=None, next_at=following(job, schedule, now), skipped=job.skipped)
    earliest, latest = found
    fires = _fires(job, latest, now)
    unsure = job.unsure_until is not None and latest <= job.unsure_until
    left_out, begins = None, earliest if job.last_at is None else max(earliest, job.last_at + _TICK)
    if not fires:
        left_out = LeftOut(first=earliest, until=latest, state="missed", reason=UNSURE if unsure else NOT_RUNNING)
    elif latest > earliest:
        until = latest_until(schedule, earliest, latest - _TICK)
        left_out = LeftOut(first=earliest, until=until, state="skipped", reason=NOT_RUNNING)
    spans = job.skipped if not fires and unsure else _joined([*job.skipped, (begins, latest if fires else latest + _TICK)])
    left = replace(job, skipped=_without(spans, latest) if fires else spans)
    if fires:
        left = replace(left, last_at=latest if job.last_at is None else max(job.last_at, latest))
    next_at = following(left, schedule, now)
    return Plan(
        fire=latest if fires else None,
        missed=None if fires else latest,
        left_out=left_out,
        next_at=next_at,
        skipped=left.skipped,
        end_reason="" if fires or next_at is not None else "missed",
    )


def _fires(job: Job, instant: datetime, now: datetime) -> bool:
    return now - instant <= job.catch_up and (job.unsure_until is None or instant > job.unsure_until)


def following(job: Job, schedule: Schedule, now: datetime) -> datetime | None:
    """Return the next instant of a job after ``now`` that has not been dealt with.

    That is one after all that fired, or one that was left out and lies ahead again because the clock was set back.
    """
    for first, end in job.skipped:
        if end > now and (found := next_after(schedule, max(now, first - _TICK))) is not None and found < end:
            return found
    return next_after(schedule, now if job.last_at is None else max(now, job.last_at))


def _waiting(job: Job, schedule: Schedule, since: datetime, now: datetime) -> tuple[datetime, datetime] | None:
    """Return the first and the last instant from ``since`` to ``now`` that have not been dealt with."""
    after_all = since if job.last_at is None else max(since, job.last_at + _TICK)
    found = []
    for first, end in [*((max(first, since), min(end - _TICK, now)) for first, end in job.skipped), (after_all, now)]:
        begins = first if first == job.next_at else next_after(schedule, first - _TICK)
        if begins is not None and begins <= end:
            found += [begins, latest_until(schedule, begins, end)]
    return (min(found), max(found)) if found else None


def after_set_back(job: Job, now: datetime) -> Job:
    """Return a job as it is after the clock was set back: what lies between ``now`` and when it was made is still to come."""
    known_since = min(job.created_at, *(first for first, _ in job.skipped)) if job.skipped else job.created_at
    return replace(job, skipped=_joined([*job.skipped, (now, known_since)])) if now < known_since else job


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Return spans in order, those that touch as one; of too many the longest."""
    joined: list[Span] = []
    for first, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    return tuple(sorted(sorted(joined, key=lambda span: span[0] - span[1])[:_MOST_SPANS]))


def _without(spans: Sequence[Span], instant: datetime) -> tuple[Span, ...]:
    """Return what is left of spans without an instant."""
    cut: list[Span] = []
    for first, end in spans:
        cut += [(first, instant), (instant + _TICK, end)] if first <= instant < end else [(first, end)]
    return _joined(cut)
