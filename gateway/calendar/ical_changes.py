"""Makes events, and changes or cancels one instance of a series, this and all later ones, or all of them.

What is not changed stays as it is, also properties that nothing here knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from itertools import takewhile
from typing import Any, Final, Literal

from gateway.calendar.ical_fields import (
    TEXTS,
    all_of,
    calendar_of,
    copy_of,
    describe,
    drop,
    keep,
    listed,
    move_dates,
    naive,
    native,
    place,
    rid_of,
    rule_of,
    span_of,
    stamp,
    start_of,
    text_of,
)
from gateway.calendar.ical_instances import moment
from gateway.calendar.ical_text import Time, ical, instant, key_of
from gateway.calendar.ical_wish import DAY, Setting, Span, Unchangeable, later, length, local, new_span, wished_span

Scope = Literal["one", "following", "all"]

_SECOND: Final = timedelta(seconds=1)
_WEEK: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_TIMES: Final = frozenset({"BYHOUR", "BYMINUTE", "BYSECOND"})
_DAYS: Final = frozenset({"BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYSETPOS", "BYMONTH"})
"""Parts of a rule that fix on which days it happens, besides weekdays."""


def create(setting: Setting, uid: str) -> str:
    """Return the text of a new event. Raises Unchangeable."""
    event = ical.Event()
    event.add("UID", uid)
    event.add("CREATED", setting.now.astimezone(UTC))
    place(event, new_span(setting))
    describe(event, setting)
    stamp(event, setting, new=True)
    calendar = calendar_of([event])
    calendar.add_missing_timezones()
    return text_of(calendar)


class Edit:
    """One change of one event: its object's ``text``, the ``instance`` that is meant (``ical_instances``), and what is wished.

    Making it raises Unchangeable where the event is not in the text, and so do its methods for what cannot be done.
    """

    def __init__(self, text: str, instance: Mapping[str, Any], setting: Setting) -> None:
        try:
            self.calendar = ical.Calendar.from_ical(text)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise Unchangeable(f"its text cannot be read ({' '.join(str(error).split())[:160]})") from error
        found = [one for one in self.calendar.walk("VEVENT") if str(one.get("UID", "")) == instance["uid"]]
        if not found:
            raise Unchangeable("it is not there any more")
        self.text = text
        self.instance = instance
        self.setting = setting
        self.rid: str = instance["rid"]
        self.main: Any = next((one for one in found if "RECURRENCE-ID" not in one), None)
        """The event itself; None where only changed instances are known, as in an invitation to one of them."""
        self.changed = [one for one in found if "RECURRENCE-ID" in one]

    def change(self, scope: Scope, new_uid: str) -> dict[str, Any]:
        """Return the changed text as ``text``, a series that begins anew as ``new`` or None, and when the instance is then as ``span``.

        ``same``: all is as wished already.
        """
        span = wished_span(self.instance, self.setting)
        if self._as_wished(span):
            return {"text": self.text, "new": None, "same": True, "span": self._written_as(span)}
        new = None
        if not self.rid:
            self._alter(self.main or self.changed[0], span if self._moves else None)
        elif scope == "one" or self.main is None:
            self._change_one(span)
        elif scope == "following" and self.rid != key_of(start_of(self.main)):
            new = self._change_following(span, new_uid)
        else:
            self._change_all(span)
        self.calendar.add_missing_timezones()
        return {"text": text_of(self.calendar), "new": new, "same": False, "span": self._written_as(span)}

    def cancel(self, scope: Scope) -> str | None:
        """Return the text without the instances; None where nothing is left, so that the object is to be deleted."""
        main = self.main
        if not self.rid or scope == "all" or (scope == "following" and main is not None and self.rid == key_of(start_of(main))):
            return None
        if main is None:
            drop(self.calendar, self._own)
            return text_of(self.calendar) if len(self._own) < len(self.changed) else None
        if scope == "one":
            main.add("EXDATE", self._original())
            drop(self.calendar, self._own)
        else:
            self._end_before(self._original())
        stamp(main, self.setting)
        return text_of(self.calendar)

    def _written_as(self, span: Span) -> list[str]:
        """Return when the instance is, written as instances are."""
        return [
            f"{instant(one, self.setting.zone):%Y-%m-%dT%H:%M:%S+00:00}" if isinstance(one, datetime) else one.isoformat()
            for one in span
        ]

    @property
    def _own(self) -> list[Any]:
        """What changes the very instance."""
        return [one for one in self.changed if key_of(rid_of(one)) == self.rid]

    @property
    def _moves(self) -> bool:
        return self.setting.wish.get("start") is not None or self.setting.wish.get("end") is not None

    def _as_wished(self, span: Span) -> bool:
        """Whether a change would change nothing, as when it is made again after a crash."""
        wish, instance = self.setting.wish, self.instance
        texts = all(
            " ".join(str(wish[name]).split()) == " ".join(str(instance[name]).split())
            for name in TEXTS
            if wish.get(name) is not None
        )
        rule, minutes = wish.get("repeat"), wish.get("alarm")
        event = self.main or self.changed[0]
        at = moment(instance["start"], self.setting.zone) - timedelta(minutes=minutes or 0)
        alarm = minutes is None or instance["alarms"] == [f"{at:%Y-%m-%dT%H:%M:%SZ}"]
        present = tuple(local(instance[name], self.setting.zone) for name in ("start", "end"))
        return span == present and texts and alarm and (rule is None or bool(rule_of(rule) == event.get("RRULE")))

    def _change_one(self, span: Span) -> None:
        own = next(iter(self._own), None)
        if own is None:
            own = copy_of(self.main)
            own.add("RECURRENCE-ID", self._original())
            start, end = (local(self.instance[name], self.setting.zone) for name in ("start", "end"))
            place(own, (start, end), like=self.main)
            self.calendar.add_component(own)
        self._alter(own, span if self._moves else None)

    def _change_all(self, span: Span) -> None:
        if self._moves:
            self._shift(self.main, self.changed, self.instance["start"], span)
            self._alter(self.main, None)
            return
        for one in (self.main, *self.changed):
            self._alter(one, None)

    def _change_following(self, span: Span, new_uid: str) -> dict[str, str]:
        """Make a series of its own of what follows, and end the former one before it."""
        main, zone = self.main, self.setting.zone
        original = self._original()
        limit = instant(original, zone)
        fresh = copy_of(main, without=())
        moved = [copy_of(one, without=()) for one in self.changed if instant(rid_of(one), zone) >= limit]
        rules = all_of(main, "RRULE")
        if len(rules) == 1 and "COUNT" in rules[0]:
            fresh["RRULE"]["COUNT"] = [max(1, int(listed(rules[0]["COUNT"])[0]) - self._before(original))]
        for name in ("EXDATE", "RDATE"):
            keep(fresh, name, lambda value: instant(value, zone) >= limit)
        place(fresh, (original, later(original, length(*span_of(main)))), like=main)
        if self._moves:
            self._shift(fresh, moved, self.instance["start"], span)
        for one in (fresh, *([] if self._moves else moved)):
            self._alter(one, None)
        for one in (fresh, *moved):
            one["UID"] = ical.vText(new_uid)
        self._end_before(original)
        stamp(main, self.setting)
        made = calendar_of([fresh, *moved])
        for one in self.calendar.walk("VTIMEZONE"):
            made.add_component(one)
        made.add_missing_timezones()
        return {"uid": new_uid, "text": text_of(made)}

    def _shift(self, main: Any, changed: list[Any], was: str, span: Span) -> None:
        """Move a series as its instance is moved: by as many days, and to that time of day."""
        old, new = native(local(was, self.setting.zone), main), native(span[0], main)
        if isinstance(old, datetime) != isinstance(new, datetime):
            raise Unchangeable("a series cannot change between whole days and times; cancel it and create a new one")
        by = naive(new) - naive(old)
        if by:
            _shift_rules(main, by, (naive(new).date() - naive(old).date()).days)
            for name in ("EXDATE", "RDATE"):
                move_dates(main, name, by)
        for one in changed if by else ():
            rid, (first, last) = rid_of(one), span_of(one)
            if key_of(rid) == key_of(first):
                place(one, (first + by, last + by), like=main)
            del one["RECURRENCE-ID"]
            one.add("RECURRENCE-ID", rid + by)
        start = start_of(main) + by
        place(main, (start, later(start, length(*span))), like=main)

    def _end_before(self, original: Time) -> None:
        """End the series before one of its instances."""
        main, zone = self.main, self.setting.zone
        if len(all_of(main, "RRULE")) > 1:
            raise Unchangeable("this series has several rules and cannot be ended there; cancel all of it, or one instance")
        limit = instant(original, zone)
        if "RRULE" in main:
            last = original - (_SECOND if isinstance(original, datetime) else DAY)
            main["RRULE"].pop("COUNT", None)
            main["RRULE"]["UNTIL"] = [last.astimezone(UTC) if isinstance(last, datetime) and last.tzinfo is not None else last]
        for name in ("RDATE", "EXDATE"):
            keep(main, name, lambda value: instant(value, zone) < limit)
        drop(self.calendar, [one for one in self.changed if instant(rid_of(one), zone) >= limit])

    def _original(self) -> Time:
        """Return when the instance was to be by the rule, written as the event itself is."""
        if "T" not in self.rid:
            return date.fromisoformat(self.rid)
        made = datetime.fromisoformat(self.rid.removesuffix("Z"))
        return native(made.replace(tzinfo=UTC), self.main) if self.rid.endswith("Z") else made

    def _before(self, original: Time) -> int:
        """Return how many instances the rule has before one; those that were taken out count (RFC 5545, 3.3.10)."""
        rule = self.main["RRULE"].to_ical().decode()
        found = import_module("dateutil.rrule").rrulestr(rule, dtstart=naive(start_of(self.main)))
        limit = naive(original)
        return sum(1 for _ in takewhile(lambda one: one < limit, found))

    def _alter(self, event: Any, span: Span | None) -> None:
        if span is not None:
            place(event, span, like=self.main or event)
        describe(event, self.setting)
        stamp(event, self.setting)


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
