"""Takes the text of a calendar apart into series of events, so that a broken one costs itself and nothing else.

Runs in the process that ``ical_process`` starts, like all modules that read iCalendar.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from importlib import import_module
from typing import Any, Final, TypeAlias

ical: Any = import_module("icalendar")

Time: TypeAlias = "date | datetime"
"""A date of an all-day event, a time with a zone, or one without, which is meant in the owner's zone."""

_LINES: Final = re.compile(r"\r\n|\n|\r")
_UID: Final = re.compile(r"^UID(?:;[^:\n]*)?:(.+)$", re.IGNORECASE | re.MULTILINE)
_SUMMARY: Final = re.compile(r"^SUMMARY(?:;[^:\n]*)?:(.+)$", re.IGNORECASE | re.MULTILINE)
_TZID: Final = re.compile(r"TZID=\"?([^\":;\n]+)", re.IGNORECASE)
_ZONE_NAME: Final = re.compile(r"^TZID(?:;[^:\n]*)?:(.+)$", re.IGNORECASE | re.MULTILINE)
_ALARMS: Final = re.compile(r"^BEGIN:VALARM\s*$.*?^END:VALARM\s*?$\n?", re.IGNORECASE | re.MULTILINE | re.DOTALL)
_FOLD: Final = re.compile(r"\n[ \t]")
_VITAL: Final = frozenset({"DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "RECURRENCE-ID"})
"""Properties without which it is not known when an event is; one with another broken property is still shown."""


class Broken(ValueError):
    """An event cannot be read. The message continues after its name and a colon."""


@dataclass(slots=True)
class Series:
    """The parts of one event: the event itself and changed instances. ``zones`` are the definitions of time zones that it names."""

    uid: str
    parts: list[str] = field(default_factory=list)
    zones: list[str] = field(default_factory=list)
    problem: str = ""

    @property
    def title(self) -> str:
        """What it is called, as far as that can be read."""
        found = _SUMMARY.search(unfolded("\n".join(self.parts)))
        return found[1].strip()[:80] if found else self.uid[:40]

    def events(self) -> Sequence[Any]:
        """Parse it. Raises Broken."""
        if self.problem:
            raise Broken(self.problem)
        try:
            found = self._parsed(self.parts)
        except Broken:  # an alarm that cannot be read costs the alarms, not the event
            found = self._parsed([_ALARMS.sub("", part) for part in self.parts])
        for one in found:
            wrong = [(name, told) for name, told in one.errors if name in _VITAL or name is None]
            if wrong or "DTSTART" not in one:
                raise Broken(f"{wrong[0][0]}: {_line(wrong[0][1])}" if wrong else "it has no DTSTART")
        if not found:
            raise Broken("it holds no event")
        return found

    def _parsed(self, parts: Sequence[str]) -> list[Any]:
        lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//homebody//", *self.zones, *parts, "END:VCALENDAR", ""]
        try:
            return list(ical.Calendar.from_ical("\n".join(lines)).walk("VEVENT"))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise Broken(f"its text cannot be read ({_line(error)})") from error


def series_in(text: str) -> Sequence[Series]:
    """Return the events of a calendar, each with its changed instances."""
    zones: dict[str, str] = {}
    found: dict[str, Series] = {}
    for kind, block, problem in _blocks(text):
        plain = unfolded(block)
        if kind == "VTIMEZONE":
            if (named := _ZONE_NAME.search(plain)) is not None:
                zones[named[1].strip()] = block
            continue
        said = _UID.search(plain)
        uid = said[1].strip() if said else "without-uid-" + hashlib.sha256(plain.encode()).hexdigest()[:16]
        one = found.setdefault(uid, Series(uid))
        one.parts.append(block)
        one.problem = one.problem or problem
    for one in found.values():
        named_zones = {name.strip() for part in one.parts for name in _TZID.findall(unfolded(part))}
        one.zones = [zones[name] for name in sorted(named_zones) if name in zones]
    return list(found.values())


def _blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield events and zone definitions as (kind, text, what is wrong)."""
    kind, lines = "", list[str]()
    for line in _LINES.split(text):
        upper = line.strip().upper()
        opened = upper.removeprefix("BEGIN:") if upper.startswith("BEGIN:") else ""
        if opened in {"VEVENT", "VTIMEZONE"}:
            if lines:
                yield kind, "\n".join([*lines, f"END:{kind}"]), "it has no end"
            kind, lines = opened, [line]
        elif lines:
            lines.append(line)
            if upper == f"END:{kind}":
                yield kind, "\n".join(lines), ""
                lines = []
    if lines:
        yield kind, "\n".join([*lines, f"END:{kind}"]), "it has no end"


def unfolded(text: str) -> str:
    """Return lines as they were before they were folded, with single line feeds."""
    return _FOLD.sub("", _LINES.sub("\n", text))


def time_of(component: Any, name: str) -> Time | None:
    """Return a date or time of a component; None where it has none. Raises Broken."""
    try:
        value = component.get(name)
        found = None if value is None else value.dt
    except Exception as error:  # the library raises several kinds, some of them its own
        raise Broken(f"{name}: {_line(error)}") from error
    if found is not None and not isinstance(found, date):
        raise Broken(f"{name} is no date")
    return found


def instant(value: Time, zone: tzinfo) -> datetime:
    """Return a date's beginning or a time as an instant. Without a zone of its own it is meant in ``zone``."""
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)  # noqa: DTZ001 -- the next line gives it its zone
    return (value.replace(tzinfo=zone) if value.tzinfo is None else value).astimezone(UTC)


def key_of(value: Time) -> str:
    """Name an instance of a series after its original beginning, the same in whatever zone that is written."""
    if not isinstance(value, datetime):
        return f"{value:%Y%m%d}"
    return f"{value:%Y%m%dT%H%M%S}" if value.tzinfo is None else f"{value.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _line(error: object) -> str:
    return " ".join(str(error).split())[:160]
