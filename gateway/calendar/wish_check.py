"""Refuses what no calendar can take, by the call alone: before anybody is asked about it, and before anything is looked up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from agent.errors import CalendarFailed
from agent.tools.calendar_tool import CalendarArguments
from gateway.calendar.references import read_reference

MOST_A_DAY: Final = 24
"""Instances of a series in a day. Servers work out each of them whenever they are asked what there is."""
_A_DAY: Final = {"SECONDLY": 86_400, "MINUTELY": 1440, "HOURLY": 24}
_TIMES: Final = ("BYHOUR", "BYMINUTE", "BYSECOND")


def check_wish(wish: CalendarArguments, zone: ZoneInfo) -> None:
    """Refuse a change that cannot be made whatever is in the calendar.

    Raises:
        CalendarFailed: it cannot be made; the text says why.
    """
    if wish.action != "create":
        read_reference(wish.event or "")
    for text in (wish.start, wish.end):
        if text is not None and "T" in text:
            _check_time(datetime.fromisoformat(text), zone)
    if wish.repeat is not None:
        _check_rule(wish.repeat)


def _check_time(at: datetime, zone: ZoneInfo) -> None:
    if at.tzinfo is None and at.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != at:
        raise CalendarFailed(
            f"there is no {at:%H:%M} on {at:%Y-%m-%d} in {zone.key}: the clock goes forward then", hint="Take another time."
        )


def _check_rule(rule: str) -> None:
    parts = {
        name.strip().upper(): value.strip().upper()
        for name, _, value in (one.partition("=") for one in rule.removeprefix("RRULE:").split(";"))
    }
    interval = parts.get("INTERVAL", "1")
    if interval.isascii() and interval.isdigit() and int(interval) < 1:
        raise CalendarFailed("INTERVAL of a rule is at least 1", hint="Leave it out for every time.")
    every = int(interval) if interval.isascii() and interval.isdigit() else 1
    often = max(1, _A_DAY.get(parts.get("FREQ", ""), 1) // every)
    for name in _TIMES:
        often *= len(parts[name].split(",")) if name in parts else 1
    if often > MOST_A_DAY:
        raise CalendarFailed(
            f"this would repeat {often:,} times a day, and no calendar could be read any more; at most {MOST_A_DAY} are possible",
            hint="For something to be done or said so often, add a job with cron.",
        )
