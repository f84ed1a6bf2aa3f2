"""Writes what a call wishes in words, its times in the owner's zone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from zoneinfo import ZoneInfo

from agent.tools.calendar_tool import CalendarArguments
from gateway.calendar.period import begin_in_words


def local_time(text: str, zone: ZoneInfo) -> date | datetime:
    """Read a day, or a time, which is in the owner's zone unless it says another offset; return it in the owner's zone."""
    if "T" not in text:
        return date.fromisoformat(text)
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is None else found.astimezone(zone).replace(tzinfo=None)


def begins_of(wish: CalendarArguments, zone: ZoneInfo) -> date | datetime | None:
    """Return when a wished event begins, in local time."""
    return None if wish.start is None else local_time(wish.start, zone)


def wished_time(wish: CalendarArguments, zone: ZoneInfo, now: datetime, begins: date | datetime | None = None) -> str:
    """Write the wished time of an event in local time; it begins then, or as is wished."""
    begins = begins or begins_of(wish, zone)
    when = begin_in_words(begins, now) if begins is not None else ""
    if wish.end is None:
        return when
    end = local_time(wish.end, zone)
    same = isinstance(end, datetime) and isinstance(begins, datetime) and end.date() == begins.date()
    return f"{when} to {f'{end:%H:%M}' if same else begin_in_words(end, now)}"


def details_of(wish: CalendarArguments, facts: Sequence[str]) -> str:
    """Return all that a call says, and facts about its event, a line each."""
    names = {"start": "from", "end": "to", "title": "title", "place": "place", "notes": "notes", "repeat": "repeat"}
    lines = [f"{name}: {getattr(wish, field)}" for field, name in names.items() if getattr(wish, field) is not None]
    alarm = [f"alarm: {wish.minutes} minutes before"] if wish.minutes is not None and wish.action != "cancel" else []
    return "\n".join([*(lines if wish.action != "cancel" else []), *alarm, *facts])
