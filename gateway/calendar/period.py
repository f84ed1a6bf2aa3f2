"""Periods in the owner's local time, and how times are written for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from agent.errors import CalendarFailed

LONGEST: Final = timedelta(days=400)
"""The longest period that is looked at."""
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Period:
    """From one instant to before another. ``whole``: it was given in days."""

    start: datetime
    end: datetime
    whole: bool = True


def period_of(start: str | None, end: str | None, zone: ZoneInfo, now: datetime, *, days: int) -> Period:
    """Return the period that a call names: local days or times, the last day included; ``days`` from today on where it names none.

    Raises:
        CalendarFailed: it ends before it begins, or is too long.
    """
    begins = _instant(start, zone) if start is not None else midnight(now.astimezone(zone).date(), zone)
    if end is not None:
        ends = _instant(end, zone) if "T" in end else midnight(date.fromisoformat(end) + _DAY, zone)
    elif start is not None:
        ends = midnight(begins.astimezone(zone).date() + _DAY, zone)
    else:
        ends = midnight(now.astimezone(zone).date() + timedelta(days=days), zone)
    if ends <= begins:
        raise CalendarFailed("to lies before from")
    if ends - begins > LONGEST:
        raise CalendarFailed(f"that is more than {LONGEST.days} days", hint="Ask for less time.")
    return Period(begins, ends, whole=not any("T" in one for one in (start or "", end or "")))


def midnight(day: date, zone: ZoneInfo) -> datetime:
    """Return when a local day begins."""
    return datetime.combine(day, time(), tzinfo=zone).astimezone(UTC)


def instant_of(text: str, zone: ZoneInfo) -> datetime:
    """Return what ``start`` or ``end`` of an instance says as an instant."""
    return datetime.fromisoformat(text) if "T" in text else midnight(date.fromisoformat(text), zone)


def _instant(text: str, zone: ZoneInfo) -> datetime:
    if "T" not in text:
        return midnight(date.fromisoformat(text), zone)
    found = datetime.fromisoformat(text)
    return (found.replace(tzinfo=zone) if found.tzinfo is None else found).astimezone(UTC)


def day_in_words(day: date, now: datetime) -> str:
    """Write a day as ``Tue 3 Feb``, with the year where it is not this one."""
    return f"{day:%a} {day.day} {day:%b}" + (f" {day.year}" if day.year != now.year else "")


def begin_in_words(begins: date | datetime, now: datetime) -> str:
    """Write when something begins, as ``Tue 3 Feb 10:00``."""
    return day_in_words(begins, now) + (f" {begins:%H:%M}" if isinstance(begins, datetime) else "")


def span_in_words(instance: Mapping[str, Any], zone: ZoneInfo, now: datetime) -> str:
    """Write when an instance is, as ``Tue 3 Feb 10:00–11:00`` or ``Tue 3 Feb to Thu 5 Feb, all day``."""
    if "T" not in instance["start"]:
        first, last = date.fromisoformat(instance["start"]), date.fromisoformat(instance["end"]) - _DAY
        more = f" to {day_in_words(last, now)}" if last > first else ""
        return f"{day_in_words(first, now)}{more}, all day"
    start, end = (datetime.fromisoformat(instance[name]).astimezone(zone) for name in ("start", "end"))
    if start == end:
        return begin_in_words(start, now)
    return f"{begin_in_words(start, now)}–" + (f"{end:%H:%M}" if start.date() == end.date() else begin_in_words(end, now))
