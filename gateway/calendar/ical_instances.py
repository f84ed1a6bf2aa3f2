"""Works out when events are: the instances of series within a period, with their ends and alarms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from importlib import import_module
from typing import Any, Final

from gateway.calendar.ical_ranges import covering, original_of, ranges_of
from gateway.calendar.ical_text import Broken, Time, instant, key_of, time_of

recurring: Any = import_module("recurring_ical_events")

MOST: Final = 2000
"""Instances of one series in a period."""
MAX_NOTES: Final = 4000
_DAY: Final = timedelta(days=1)
_MOST_ALARMS: Final = 10
"""Alarms of one instance, repetitions included."""
_PERSON: Final = "mailto:"


def instances(events: Sequence[Any], start: datetime, end: datetime, zone: tzinfo, mine: str = "") -> list[dict[str, Any]]:
    """Return the instances of one series that lie within or touch a period, as plain values.

    ``start`` and ``end`` of an all-day event are dates, the end after its last day; those of any other are instants. ``mine`` is the
    address of the owner, by which it is known that an invitation was declined.

    Raises:
        Broken: it cannot be worked out.
    """
    calendar = import_module("icalendar").Calendar()
    for one in events:
        calendar.add_component(one)
    main = next((one for one in events if "RECURRENCE-ID" not in one), None)
    changed = {key_of(rid) for one in events if (rid := time_of(one, "RECURRENCE-ID")) is not None}
    try:
        ranges = ranges_of(events, zone)
        query = recurring.CalendarQuery(calendar)
        found = query.between(start.astimezone(zone) - _DAY, end.astimezone(zone) + _DAY)
        listed = [_plain(one, _Series(main, changed, ranges, zone, mine)) for one in found]
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise Broken(" ".join(str(error).split())[:160] or type(error).__name__) from error
    within = [one for one in listed if _touches(one, start, end, zone)]
    if len(within) > MOST:
        raise Broken(f"it repeats {len(within):,} times in this period")
    return within


@dataclass(frozen=True, slots=True)
class _Series:
    """The event itself, which of its instances are changed, the ranges among those, and the zone and address of the owner."""

    main: Any
    changed: set[str]
    ranges: Sequence[Any]
    zone: tzinfo
    mine: str


def _plain(one: Any, series: _Series) -> dict[str, Any]:
    main, zone = series.main, series.zone
    starts = time_of(one, "DTSTART")
    rid = time_of(one, "RECURRENCE-ID")
    assert starts is not None
    repeats = main is None or any(name in main for name in ("RRULE", "RDATE"))
    original = starts if rid is None else original_of(starts, rid, series.ranges)
    key = key_of(original)
    ends = time_of(one, "DTEND") or starts
    if main is not None and repeats and key not in series.changed:
        ends = _exact_end(covering(series.ranges, original, zone) or main, starts, ends, zone)
    people = _all(one, "ATTENDEE")
    return {
        "uid": str(one.get("UID", "")),
        "rid": key if repeats else "",
        "start": _text(starts, zone),
        "end": _text(ends, zone),
        "title": _words(one, "SUMMARY", 200),
        "place": _words(one, "LOCATION", 200),
        "notes": str(one.get("DESCRIPTION", "") or "")[:MAX_NOTES],
        "rule": _rule(main) if repeats and main is not None else "",
        "zone": _zone_name(starts),
        "status": str(one.get("STATUS", "") or "").upper(),
        "busy": str(one.get("TRANSP", "") or "").upper() != "TRANSPARENT" and not _declined(people, series.mine),
        "people": [_address(person) for person in people][:50],
        "organizer": _address(one.get("ORGANIZER")) if one.get("ORGANIZER") else "",
        "alarms": sorted({f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for at in alarms(one, starts, ends, zone)})[:_MOST_ALARMS],
    }


def _exact_end(main: Any, starts: Time, ends: Time, zone: tzinfo) -> Time:
    """Return the end of a repeated instance: with DTEND the same exact duration as the first one (RFC 5545, 3.8.5.3).

    With DURATION, days are days of the calendar and the rest is exact (3.3.6). The library adds to the local time.
    """
    first, last = time_of(main, "DTSTART"), time_of(main, "DTEND")
    if not isinstance(starts, datetime) or not isinstance(first, datetime) or not isinstance(ends, datetime):
        return ends
    if last is not None:
        exact = instant(last, zone) - instant(first, zone)
        if isinstance(last, datetime) and _wall(ends) - _wall(starts) == _wall(last) - _wall(first):
            return instant(starts, zone) + exact
        return ends
    said = main.get("DURATION")
    if said is None or _wall(ends) - _wall(starts) != said.dt:
        return ends
    nominal: timedelta = said.dt
    days = timedelta(days=nominal.days)
    return instant(starts + days, zone) + (nominal - days)


def _wall(value: datetime) -> datetime:
    return value.replace(tzinfo=None)


def alarms(one: Any, starts: Time, ends: Time, zone: tzinfo) -> Iterator[datetime]:
    """Yield the instants of an event's alarms. An alarm that cannot be read is none."""
    for alarm in one.subcomponents:
        if alarm.name != "VALARM" or str(alarm.get("ACTION", "")).upper() == "NONE":
            continue
        try:
            trigger = alarm.get("TRIGGER")
            said = trigger.dt
            if isinstance(said, timedelta):
                end = str(trigger.params.get("RELATED", "START")).upper() == "END"
                first = instant(ends if end else starts, zone) + said
            else:
                first = instant(said, zone)
            again = min(int(alarm.get("REPEAT", 0) or 0), _MOST_ALARMS)
            pause = alarm.get("DURATION").dt if again and alarm.get("DURATION") is not None else timedelta(0)
        except Exception:  # noqa: BLE001, S112 -- the library raises several kinds; the event itself is fine
            continue
        yield from (first + pause * number for number in range((again if pause else 0) + 1))


def _touches(one: dict[str, Any], start: datetime, end: datetime, zone: tzinfo) -> bool:
    begins, ends = (moment(one[name], zone) for name in ("start", "end"))
    return begins < end and (ends > start or (begins == ends and begins >= start))


def moment(text: str, zone: tzinfo) -> datetime:
    """Return what ``start`` or ``end`` of an instance says as an instant."""
    if "T" in text:
        return datetime.fromisoformat(text)
    day = date.fromisoformat(text)
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(UTC)


def _text(value: Time, zone: tzinfo) -> str:
    if not isinstance(value, datetime):
        return value.isoformat()
    return f"{instant(value, zone):%Y-%m-%dT%H:%M:%S+00:00}"


def _zone_name(value: Time) -> str:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return ""
    return str(getattr(value.tzinfo, "key", None) or value.tzinfo.tzname(value) or "")


def _words(one: Any, name: str, most: int) -> str:
    value = one.get(name)
    value = value[0] if isinstance(value, list) and value else value
    return " ".join(str(value or "").split())[:most]


def _rule(main: Any) -> str:
    rules = _all(main, "RRULE")
    return str(rules[0].to_ical().decode()) if rules else "on listed dates"


def _all(one: Any, name: str) -> list[Any]:
    value = one.get(name)
    return value if isinstance(value, list) else [] if value is None else [value]


def _address(person: Any) -> str:
    text = str(person)
    return text[len(_PERSON) :] if text.lower().startswith(_PERSON) else text[:200]


def _declined(people: Sequence[Any], mine: str) -> bool:
    return any(
        mine and _address(person).casefold() == mine.casefold() and str(person.params.get("PARTSTAT", "")).upper() == "DECLINED"
        for person in people
    )
