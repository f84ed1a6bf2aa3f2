"""Reads what is wished of an event: when it is to be, in the owner's local time, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Final

from gateway.calendar.ical_instances import moment
from gateway.calendar.ical_text import Time
from gateway.calendar.other_zones import on_day, zone_written_in

Span = tuple[Time, Time]

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)


class Unchangeable(ValueError):
    """What was asked for cannot be done with this event. The message is for a model and for people."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What every change needs: the owner's zone, the present time, and the texts and times that are wished."""

    zone: tzinfo
    now: datetime
    wish: Mapping[str, Any]


def wished_span(instance: Mapping[str, Any], setting: Setting) -> Span:
    """Return when an instance is to be: as wished, and as it is where nothing is wished. Raises Unchangeable.

    A day alone keeps the time of day, in the zone in which the event is written, and a beginning alone keeps the length.
    """
    start, end = (local(instance[name], setting.zone) for name in ("start", "end"))
    begins = _moved(setting.wish.get("start"), start, setting, zone_written_in(instance["zone"], setting.zone))
    given = setting.wish.get("end")
    if given is None:
        ends = (
            begins + length(start, end) if isinstance(begins, datetime) == isinstance(start, datetime) else _usual_end(begins)
        )
        if isinstance(begins, datetime):
            ends = (begins.astimezone(UTC) + (length(start, end) if isinstance(start, datetime) else HOUR)).astimezone(
                setting.zone
            )
        return begins, ends
    return _checked(begins, _read_end(given, begins, setting))


def new_span(setting: Setting) -> Span:
    """Return when a new event is to be: an hour, or a day, where no end is wished. Raises Unchangeable."""
    given = setting.wish.get("start")
    if given is None:
        raise Unchangeable("create needs from: when it begins")
    begins = _read(given, setting)
    end = setting.wish.get("end")
    return (begins, _usual_end(begins)) if end is None else _checked(begins, _read_end(end, begins, setting))


def _checked(begins: Time, ends: Time) -> Span:
    if isinstance(begins, datetime) != isinstance(ends, datetime):
        raise Unchangeable("from and to must both have a time, or both be days")
    if ends < begins or (ends == begins and not isinstance(begins, datetime)):
        raise Unchangeable("it would end before it begins")
    return begins, ends


def later(start: Time, by: timedelta) -> Time:
    """Return what is exactly so much later, in the same zone."""
    if not isinstance(start, datetime) or start.tzinfo is None:
        return start + by
    return (start.astimezone(UTC) + by).astimezone(start.tzinfo)


def _usual_end(begins: Time) -> Time:
    return later(begins, HOUR if _timed(begins) else DAY)


def _timed(value: Time) -> bool:
    return isinstance(value, datetime)


def _read(text: str, setting: Setting) -> Time:
    """Read a local day or time; a time that the clock leaves out is refused."""
    if "T" not in text:
        return date.fromisoformat(text)
    local = datetime.fromisoformat(text)
    if local.tzinfo is not None:
        return local.astimezone(setting.zone)
    made = local.replace(tzinfo=setting.zone)
    if made.astimezone(UTC).astimezone(setting.zone).replace(tzinfo=None) != local:
        raise Unchangeable(f"there is no {local:%H:%M} on {local:%Y-%m-%d} in {setting.zone}: the clock goes forward then")
    return made


def _read_end(text: str, begins: Time, setting: Setting) -> Time:
    found = _read(text, setting)
    if isinstance(found, datetime):
        return found
    return found + DAY if not isinstance(begins, datetime) else found  # the last day is included


def _moved(text: str | None, start: Time, setting: Setting, written_in: tzinfo | None) -> Time:
    if text is None:
        return start
    found = _read(text, setting)
    if isinstance(found, datetime) or not isinstance(start, datetime):
        return found
    if written_in is not None:
        return on_day(start, found, written_in)
    return _read(f"{found:%Y-%m-%d}T{start:%H:%M:%S}", setting)


def local(text: str, zone: tzinfo) -> Time:
    """Return ``start`` or ``end`` of an instance: a day, or a time in ``zone``."""
    return moment(text, zone).astimezone(zone) if "T" in text else date.fromisoformat(text)


def length(start: Time, end: Time) -> timedelta:
    """Return the exact time between two instants, or the days between two days."""
    if isinstance(start, datetime) and isinstance(end, datetime):
        return end.astimezone(UTC) - start.astimezone(UTC)
    return timedelta(days=end.toordinal() - start.toordinal())
