"""Moves a series with all that belongs to it: its rule, what was left out of it, and its changed instances."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from gateway.calendar.ical_fields import all_of, listed, move_dates, naive, native, place, rid_of, span_of, start_of
from gateway.calendar.ical_ranges import covering, is_range, moved_by, name_instance, ranges_of
from gateway.calendar.ical_text import Time, key_of
from gateway.calendar.ical_wish import DAY, Span, Unchangeable, later, length

_WEEK: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_TIMES: Final = frozenset({"BYHOUR", "BYMINUTE", "BYSECOND"})
_DAYS: Final = frozenset({"BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYSETPOS", "BYMONTH"})
"""Parts of a rule that fix on which days it happens, besides weekdays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """How a series is moved. ``original`` is where its rule puts the instance that is meant, and ``wished`` by how much that is moved.

    ``moved``: by how much its instances were later than its rule says, which the rule is to say now. ``long``: their new length, if any.
    """

    original: Time
    moved: timedelta
    wished: timedelta
    long: timedelta | None

    @property
    def by(self) -> timedelta:
        """By how much the rule is moved."""
        return self.wished + self.moved


def shift_series(main: Any, changed: list[Any], shift: Shift, zone: tzinfo) -> None:
    """Move a series: by as many days, and to that time of day. Instances that were moved by themselves stay where they are.

    Raises:
        Unchangeable: its rule says on which days or when it is.
    """
    ranges = ranges_of(changed, zone)
    spans = [_shifted(one, covering(ranges, rid_of(one), zone), main, shift) for one in changed]
    if shift.by:
        at = naive(shift.original)
        _shift_rules(main, shift.by, ((at + shift.by).date() - at.date()).days)
        for name in ("EXDATE", "RDATE"):
            move_dates(main, name, shift.by)
    for one, span in zip(changed, spans, strict=True):
        if span is not None:
            place(one, span, like=main)
        if shift.by:
            name_instance(one, native(rid_of(one), main) + shift.by, later=is_range(one))
    start = start_of(main) + shift.by
    place(main, (start, later(start, length(*span_of(main)) if shift.long is None else shift.long)), like=main)


def _shifted(one: Any, source: Any | None, main: Any, shift: Shift) -> Span | None:
    """Return when a changed instance is to be, for which the range ``source`` holds, if any; None where it stays as it is.

    It moves unless it was moved by itself. It gets the new length where it had that of its series, as ranges do.
    """
    rid, first = native(rid_of(one), main), native(start_of(one), main)
    usual = length(*span_of(one))
    at_its_time = key_of(rid + (shift.moved if source is None else moved_by(source))) == key_of(first)
    if not (at_its_time or is_range(one)) or not (shift.wished or shift.long is not None):
        return None
    if shift.long is not None and (is_range(one) or usual == length(*span_of(source or main))):
        usual = shift.long
    return first + shift.wished, later(first + shift.wished, usual)


def _shift_rules(main: Any, by: timedelta, days: int) -> None:
    rules = all_of(main, "RRULE")
    if len(rules) > 1:
        raise Unchangeable("this series has several rules and cannot be moved; cancel it and create a new one")
    for rule in rules:
        names = {name.upper() for name in rule}
        weekly = str(listed(rule.get("FREQ"))[0]).upper() == "WEEKLY"
        if names & _TIMES or (days and (names & _DAYS or ("BYDAY" in names and not weekly))):
            text = rule.to_ical().decode()
            raise Unchangeable(
                f"this series is bound to its days or times by its rule ({text}); cancel it and create a new one"
            )
        if days and "BYDAY" in rule:
            rule["BYDAY"] = [_WEEK[(_WEEK.index(str(one).upper()[-2:]) + days) % 7] for one in listed(rule["BYDAY"])]
        if "UNTIL" in rule:
            rule["UNTIL"] = [_moved_until(listed(rule["UNTIL"])[0], by, main)]


def _moved_until(value: Time, by: timedelta, main: Any) -> Time:
    start = start_of(main)
    if isinstance(value, datetime) and value.tzinfo is not None and isinstance(start, datetime) and start.tzinfo is not None:
        return (value.astimezone(start.tzinfo) + by).astimezone(UTC)
    return value + (by if isinstance(value, datetime) else timedelta(days=int(by / DAY)))
