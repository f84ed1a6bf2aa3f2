"""Reads and writes single properties of events; what is not written stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from importlib import import_module
from typing import Any, Final

from gateway.calendar.ical_text import Time, ical, time_of
from gateway.calendar.ical_wish import DAY, Setting, Span, Unchangeable

PRODUCT: Final = "-//Homebody//Homebody//EN"
REPETITION: Final = ("RRULE", "RDATE", "EXDATE")
TEXTS: Final = {"title": "SUMMARY", "place": "LOCATION", "notes": "DESCRIPTION"}


def describe(event: Any, setting: Setting) -> None:
    """Write the texts, the rule and the alarm that are wished. Raises Unchangeable."""
    for name, field in TEXTS.items():
        if (value := setting.wish.get(name)) is not None:
            event.pop(field, None)
            if value:
                event.add(field, value)
    if (rule := setting.wish.get("repeat")) is not None and "RECURRENCE-ID" not in event:
        event.pop("RRULE", None)
        if rule:
            event["RRULE"] = rule_of(rule)
    if (minutes := setting.wish.get("alarm")) is not None:
        event.subcomponents = [one for one in event.subcomponents if one.name != "VALARM"]
        alarm = ical.Alarm()
        alarm.add("ACTION", "DISPLAY")
        alarm.add("DESCRIPTION", str(event.get("SUMMARY", "Reminder")))
        alarm.add("TRIGGER", timedelta(minutes=-minutes))
        event.add_component(alarm)


def says(event: Any, setting: Setting) -> bool:
    """Whether an event has the texts that are wished."""
    wished = {field: setting.wish[name] for name, field in TEXTS.items() if setting.wish.get(name) is not None}
    return all(" ".join(str(value).split()) == " ".join(str(event.get(field, "")).split()) for field, value in wished.items())


def rule_of(text: str) -> Any:
    """Read a rule of repetition. Raises Unchangeable."""
    try:
        made = ical.vRecur.from_ical(text.removeprefix("RRULE:").strip().upper())
        import_module("dateutil.rrule").rrulestr(made.to_ical().decode().replace("UNTIL", "X-UNTIL").partition(";X-UNTIL")[0])
    except (ValueError, KeyError, TypeError) as error:
        raise Unchangeable(f"repeat: {text[:80]!r} is no rule such as FREQ=WEEKLY;BYDAY=TU;COUNT=10 ({error})") from error
    return made


def place(event: Any, span: Span, like: Any = None) -> None:
    """Write when an event is, in the zone in which ``like`` is written."""
    start, end = span
    if like is not None and isinstance(start, datetime) and isinstance(end, datetime):
        start, end = native(start, like), native(end, like)
    for name in ("DTSTART", "DTEND", "DURATION"):
        event.pop(name, None)
    event.add("DTSTART", start)
    event.add("DTEND", end)


def stamp(event: Any, setting: Setting, *, new: bool = False) -> None:
    """Mark an event as made or changed now."""
    sequence = int(event.pop("SEQUENCE", 0))
    event.add("SEQUENCE", 0 if new else sequence + 1)
    for name in ("DTSTAMP", "LAST-MODIFIED"):
        event.pop(name, None)
        event.add(name, setting.now.astimezone(UTC).replace(microsecond=0))


def copy_of(event: Any, without: tuple[str, ...] = REPETITION) -> Any:
    """Copy an event with its alarms."""
    made = ical.Event.from_ical(event.to_ical())
    for name in without:
        made.pop(name, None)
    return made


def keep(event: Any, name: str, wanted: Callable[[Any], bool]) -> None:
    """Keep those dates of a property that are ``wanted``."""
    values = [value for value in _dates(event, name) if wanted(value[0] if isinstance(value, tuple) else value)]
    event.pop(name, None)
    for value in values:
        event.add(name, value)


def move_dates(event: Any, name: str, by: timedelta) -> None:
    """Move all dates of a property."""
    values = _dates(event, name)
    event.pop(name, None)
    for value in values:
        event.add(
            name,
            tuple(part + by if isinstance(part, date) else part for part in value) if isinstance(value, tuple) else value + by,
        )


def _dates(event: Any, name: str) -> list[Any]:
    return [one.dt for group in all_of(event, name) for one in group.dts]


def drop(calendar: Any, events: list[Any]) -> None:
    """Take events out of a calendar."""
    calendar.subcomponents = [one for one in calendar.subcomponents if not any(one is other for other in events)]


def span_of(event: Any) -> Span:
    """Return the beginning and the end of an event."""
    start = start_of(event)
    end = time_of(event, "DTEND")
    if end is not None:
        return start, end
    duration = event.get("DURATION")
    usual = timedelta() if isinstance(start, datetime) else DAY
    return start, start + (duration.dt if duration is not None else usual)


def start_of(event: Any) -> Any:
    """Return the beginning of an event."""
    return time_of(event, "DTSTART")


def rid_of(event: Any) -> Any:
    """Return which instance an event changes."""
    return time_of(event, "RECURRENCE-ID")


def native(value: Time, main: Any) -> Time:
    """Return a time in the zone in which the event itself is written."""
    start = start_of(main)
    if not isinstance(value, datetime) or not isinstance(start, datetime) or value.tzinfo is None:
        return value
    return value.replace(tzinfo=None) if start.tzinfo is None else value.astimezone(start.tzinfo)


def naive(value: Time) -> datetime:
    """Return a time without its zone, or the beginning of a day."""
    return value.replace(tzinfo=None) if isinstance(value, datetime) else datetime.combine(value, time())


def all_of(event: Any, name: str) -> list[Any]:
    """Return all properties of a name."""
    value = event.get(name)
    return value if isinstance(value, list) else [] if value is None else [value]


def listed(value: Any) -> list[Any]:
    """Return a value as a list."""
    return value if isinstance(value, list) else [value]


def calendar_of(events: list[Any]) -> Any:
    """Make a calendar of events."""
    calendar = ical.Calendar()
    calendar.add("VERSION", "2.0")
    calendar.add("PRODID", PRODUCT)
    for one in events:
        calendar.add_component(one)
    return calendar


def text_of(calendar: Any) -> str:
    """Write a calendar."""
    return str(calendar.to_ical().decode())
