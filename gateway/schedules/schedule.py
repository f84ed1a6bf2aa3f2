"""Schedules: a single instant, a fixed interval or a cron expression, and the instants that follow from them.

Cron expressions are evaluated by cronsim, which follows Debian's cron: weekday 0 and 7 are Sunday; a day matches if the day of the month
or the weekday does, unless one of the fields begins with ``*``; a fixed time that a clock change leaves out is due when the clock has gone
forward, and one that comes twice is due once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from msgspec import Struct

from gateway.base.errors import ScheduleError

SHORTEST: Final = 60
"""The shortest interval, in seconds."""
FURTHEST: Final = timedelta(days=50 * 366)
"""No instant further ahead is accepted or computed."""
_LOOKBACK: Final = (timedelta(hours=3), timedelta(days=2), timedelta(days=70), timedelta(days=800), FURTHEST)
"""How far back ``latest_until`` looks, one after the other: a frequent schedule has a hit near by, so none needs many steps."""


class At(Struct, frozen=True):
    """Once, at ``instant`` (UTC)."""

    instant: datetime


class Every(Struct, frozen=True):
    """At ``anchor`` (UTC) plus every multiple of ``seconds``, without the anchor itself. Clock changes make no difference."""

    seconds: int
    anchor: datetime


class Cron(Struct, frozen=True):
    """A cron expression of five fields, evaluated in ``zone``. Made by ``cron``, which checks it."""

    expression: str
    zone: ZoneInfo


Schedule = At | Every | Cron


def cron(expression: str, zone: ZoneInfo, now: datetime) -> Cron:
    """Return the schedule of an expression that cronsim understands and that has an instant after ``now``. Raises ScheduleError."""
    schedule = Cron(expression, zone)
    try:
        found = next_after(schedule, now)
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        if field == "month" or not _understood(expression, but_any_month=True):
            range_of = f". The {field} is {RANGES[field]}" if field in RANGES else ""
            raise ScheduleError(f"{expression!r} is not a cron expression: {error}{range_of}", hint=CRON_HINT) from error
        found = None
    if found is None:
        raise ScheduleError(f"{expression!r} is never due: no such day exists in the months that it names", hint=CRON_HINT)
    return schedule


@lru_cache(maxsize=512)
def _understood(expression: str, *, but_any_month: bool = False) -> bool:
    fields = expression.split()
    if but_any_month and len(fields) == 5:  # noqa: PLR2004
        fields[3] = "*"
    try:
        CronSim(" ".join(fields), datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return True


RANGES: Final = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, or L for the last",
    "month": "1 to 12, or JAN to DEC",
    "day-of-week": "0 to 7 (0 and 7 are Sunday), or MON to SUN",
}
"""What the fields of a cron expression may be, by the names that cronsim has for them."""

CRON_HINT: Final = (
    "Five fields: minute hour day-of-month month weekday, such as `0 9 * * 1-5` (at 09:00 on Monday through Friday)."
)


def next_after(schedule: Schedule, instant: datetime) -> datetime | None:
    """Return the first instant of the schedule after ``instant``, in UTC; None when there is none within ``FURTHEST``.

    For any ``a`` before ``b`` before ``next_after(schedule, a)``, ``next_after(schedule, b)`` is the same instant.
    """
    if isinstance(schedule, At):
        return schedule.instant if schedule.instant > instant else None
    if isinstance(schedule, Every):
        step = timedelta(seconds=schedule.seconds)
        passed = (instant - schedule.anchor) // step
        try:
            return _within(schedule.anchor + (passed + 1) * step, instant)
        except OverflowError:
            return None
    return next(_after(schedule, instant), None)


def first_instant(schedule: Schedule, now: datetime) -> datetime | None:
    """Return when a new job is due for the first time. A single instant is kept even if it has just passed."""
    return schedule.instant if isinstance(schedule, At) else next_after(schedule, now)


def latest_until(schedule: Schedule, first: datetime, now: datetime) -> datetime:
    """Return the last instant of the schedule that is not after ``now``; ``first`` is one that is not after ``now`` either."""
    if isinstance(schedule, At):
        return first
    if isinstance(schedule, Every):
        step = timedelta(seconds=schedule.seconds)
        return max(first, schedule.anchor + (now - schedule.anchor) // step * step)
    for back in _LOOKBACK:
        start = max(first, now - back)
        found = first
        for instant in _after(schedule, start):
            if instant > now:
                break
            found = instant
        if found > start or start == first:
            return found
    return first


def to_text(schedule: Schedule) -> str:
    """Write a schedule for the ledger. The zone of a cron expression is not part of it."""
    if isinstance(schedule, At):
        return f"at {schedule.instant.isoformat()}"
    if isinstance(schedule, Every):
        return f"every {schedule.seconds} since {schedule.anchor.isoformat()}"
    return f"cron {schedule.expression}"


def from_text(text: str, zone: ZoneInfo) -> Schedule:
    """Read what ``to_text`` wrote. Raises ValueError for anything else."""
    kind, _, rest = text.partition(" ")
    if kind == "at":
        return At(_instant(rest))
    if kind == "every":
        seconds, _, anchor = rest.partition(" since ")
        if int(seconds) < SHORTEST:
            raise ValueError(f"not a stored schedule: {text!r}")
        return Every(int(seconds), _instant(anchor))
    if kind == "cron" and _understood(rest):
        return Cron(rest, zone)
    raise ValueError(f"not a stored schedule: {text!r}")


def _instant(text: str) -> datetime:
    read = datetime.fromisoformat(text)
    if read.tzinfo is None:
        raise ValueError(f"an instant without a zone: {text!r}")
    return read.astimezone(UTC)


def _after(schedule: Cron, instant: datetime) -> Iterator[datetime]:
    """Yield the instants after ``instant`` in order, in UTC.

    Where the clock goes back, cronsim may name instants that are not after ``instant``; they are left out. Where a day begins with a gap
    (in Cairo, say), it may name the midnight that does not exist; it is asked again from just before the gap.
    """
    last = instant
    try:
        simulated = CronSim(schedule.expression, instant.astimezone(schedule.zone))
        while (local := next(simulated, None)) is not None:
            found = local.astimezone(UTC)
            if found.astimezone(schedule.zone).replace(tzinfo=None) != local.replace(tzinfo=None):
                simulated = CronSim(schedule.expression, (found - timedelta(seconds=1)).astimezone(schedule.zone))
                continue
            if found > last:
                if _within(found, instant) is None:
                    return
                last = found
                yield found
    except (OverflowError, ValueError):  # the calendar ends with the year 9999
        return


def _within(found: datetime, instant: datetime) -> datetime | None:
    return found if found - instant <= FURTHEST else None
