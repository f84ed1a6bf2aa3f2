"""Says in words when a schedule is due, for people."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim

from gateway.schedules.schedule import At, Every, Schedule, next_after

_ORDINAL: Final = re.compile(r"\b(\d*([123]))(?<!1[123])th\b")
"""What the library says of days such as the 31st: "31th"."""
_ANY_DAY = datetime(2026, 1, 1, tzinfo=UTC)
"""What a cron expression means is the same on each."""
_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def in_words(schedule: Schedule, zone: ZoneInfo, now: datetime) -> str:
    """Return one phrase, such as "Every 30 minutes" or "At 09:00 on Monday through Friday". Times are in ``zone``.

    A cron expression of another zone is said in its own zone, which is named.
    """
    if isinstance(schedule, At):
        return f"Once, on {instant_in_words(schedule.instant, zone, now)}"
    if isinstance(schedule, Every):
        return f"Every {span_in_words(schedule.seconds, alone=True)}"
    said = _explained(schedule.expression)
    return said if schedule.zone.key == zone.key else f"{said} ({schedule.zone.key})"


@lru_cache(maxsize=512)
def _explained(expression: str) -> str:
    said = _ORDINAL.sub(_ordinal, CronSim(expression, _ANY_DAY).explain())
    if expression.split()[2:] == ["*", "*", "*"] and said.startswith("At ") and "every" not in said:
        said += " every day"
    return said


def _ordinal(found: re.Match[str]) -> str:
    return found[1] + {"1": "st", "2": "nd", "3": "rd"}[found[2]]


def next_three(schedule: Schedule, zone: ZoneInfo, now: datetime) -> list[datetime]:
    """Return the next instants after ``now``, at most three, in ``zone``."""
    found: list[datetime] = []
    instant: datetime | None = now
    while len(found) < 3 and instant is not None and (instant := next_after(schedule, instant)) is not None:  # noqa: PLR2004
        found.append(instant.astimezone(zone))
    return found


def instant_in_words(instant: datetime, zone: ZoneInfo, now: datetime) -> str:
    """Return a date and time such as "Tue 24 Nov, 09:00", with the year unless it is that of ``now``; seconds only if there are any."""
    local = instant.astimezone(zone)
    year = "" if local.year == now.astimezone(zone).year else f" {local.year}"
    seconds = f":{local.second:02}" if local.second else ""
    return f"{local:%a} {local.day} {local:%b}{year}, {local:%H:%M}{seconds}"


def span_in_words(seconds: int, *, alone: bool = False) -> str:
    """Return a span such as "1 hour 30 minutes". Less than two days is said in hours, because not every day has 24.

    ``alone``: a single unit is said without its one, as in "every hour".
    """
    units = _UNITS if seconds >= 2 * 86_400 else _UNITS[1:]
    parts: list[str] = []
    for size, unit in units:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    said = " ".join(parts) or "0 seconds"
    return said.removeprefix("1 ") if alone and len(parts) == 1 else said
