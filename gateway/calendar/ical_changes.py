"""Makes events, and changes or cancels one instance of a series, this and all later ones, or all of them.

What is not changed stays as it is, also properties that nothing here knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from itertools import takewhile
from typing import Any, Final, Literal

from gateway.calendar.ical_fields import (
    REPETITION,
    TEXTS,
    all_of,
    calendar_of,
    copy_of,
    describe,
    drop,
    keep,
    listed,
    naive,
    native,
    place,
    rid_of,
    rule_of,
    says,
    span_of,
    stamp,
    start_of,
    text_of,
)
from gateway.calendar.ical_instances import moment
from gateway.calendar.ical_ranges import covering, is_range, moved_by, name_instance, next_original, ranges_of
from gateway.calendar.ical_shift import Shift, shift_series
from gateway.calendar.ical_text import Time, ical, instant, key_of
from gateway.calendar.ical_wish import DAY, Setting, Span, Unchangeable, later, length, local, new_span, wished_span

Scope = Literal["one", "following", "all"]

_SECOND: Final = timedelta(seconds=1)


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
        self.ranges = ranges_of(self.changed, setting.zone)

    def change(self, scope: Scope, new_uid: str) -> dict[str, Any]:
        """Return the changed text as ``text``, a series that begins anew as ``new`` or None, and when the instance is then as ``span``.

        ``same``: all is as wished already.
        """
        span = wished_span(self.instance, self.setting)
        if self._as_wished(span, scope):
            return {"text": self.text, "new": None, "same": True, "span": self._written_as(span)}
        new = None
        self._refuse_mixed()
        if not self.rid:
            self._alter(self.main or self.changed[0], span if self._moves else None)
        elif scope == "one" or self.main is None:
            self._change_one(span, scope)
        elif scope == "following" and not self._from_the_first_on:
            new = self._change_following(span, new_uid)
        else:
            self._change_all(span)
        self.calendar.add_missing_timezones()
        return {"text": text_of(self.calendar), "new": new, "same": False, "span": self._written_as(span)}

    def cancel(self, scope: Scope) -> str | None:
        """Return the text without the instances; None where nothing is left, so that the object is to be deleted."""
        main = self.main
        if not self.rid or scope == "all" or (scope == "following" and self._from_the_first_on):
            return None
        self._refuse_mixed()
        if main is None:
            self._refuse_one_of_a_range(scope)
            drop(self.calendar, self._own)
            return text_of(self.calendar) if len(self._own) < len(self.changed) else None
        if scope == "one":
            self._begin_range_later()
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
    def _from_the_first_on(self) -> bool:
        return self.main is not None and self.rid == key_of(start_of(self.main))

    @property
    def _source(self) -> Any:
        """What says how the instance is, unless it is changed by itself: a range, or the event itself."""
        return covering(self.ranges, self._original(), self.setting.zone) or self.main

    @property
    def _moves(self) -> bool:
        return self.setting.wish.get("start") is not None or self.setting.wish.get("end") is not None

    def _as_wished(self, span: Span, scope: Scope) -> bool:
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
        others = all(says(one, self.setting) for one in self._altered(scope))
        return span == present and texts and others and alarm and (rule is None or bool(rule_of(rule) == event.get("RRULE")))

    def _altered(self, scope: Scope) -> list[Any]:
        """Return the events that a change of several instances alters, as far as they are not the instance itself."""
        if not self.rid or self.main is None or scope == "one":
            return []
        if scope == "all" or self._from_the_first_on:
            return [self.main, *self._with_texts(self.changed)]
        limit = instant(self._original(), self.setting.zone)
        return [
            self._source,
            *self._with_texts(one for one in self.changed if instant(rid_of(one), self.setting.zone) >= limit),
        ]

    def _with_texts(self, changed: Iterable[Any]) -> list[Any]:
        """Return those that get the texts of a change of several instances: with a move not those that were changed by themselves."""
        return [one for one in changed if not self._moves or is_range(one) or key_of(rid_of(one)) == self.rid]

    def _change_one(self, span: Span, scope: Scope) -> None:
        if self.setting.wish.get("repeat") is not None:
            raise Unchangeable(
                "one instance cannot be repeated by itself; change the rule of all of them, or create another event"
            )
        if self.main is None:
            self._refuse_one_of_a_range(scope)
        own = next(iter(self._own), None)
        if own is None or (is_range(own) and self.main is not None):
            own = copy_of(self._source)
            name_instance(own, self._original())
            start, end = (local(self.instance[name], self.setting.zone) for name in ("start", "end"))
            place(own, (start, end), like=self.main)
            self._begin_range_later()
            drop(self.calendar, self._own)
            self.calendar.add_component(own)
        self._alter(own, span if self._moves else None)

    def _refuse_mixed(self) -> None:
        """Refuse what programs read in several ways: a range of times in a series of whole days, or the other way round."""
        if self.main is not None and any(_timed(one) != _timed(self.main) for one in self.ranges):
            raise Unchangeable(
                "a later part of this series has times where the rest lasts whole days, or the other way round; cancel all of it and "
                "create it anew, or change it in another program"
            )

    def _refuse_one_of_a_range(self, scope: Scope) -> None:
        """Refuse to change an instance alone of which only the range that begins with it is known."""
        if scope == "one" and any(is_range(one) for one in self._own):
            raise Unchangeable(
                "it is written as one with all later instances, and their rule is not in this calendar, so it cannot be changed or "
                "cancelled alone; do it with this and all later ones, or ask who organizes it"
            )

    def _begin_range_later(self) -> None:
        """Where a range begins with the instance, let it begin with its next one; one without a next one is left as it is."""
        own = next((one for one in self._own if is_range(one)), None)
        after = None if own is None else next_original(self.main, self._original(), self.changed, self.setting.zone)
        if own is None or after is None:
            return
        begins = after + moved_by(own)
        place(own, (begins, later(begins, length(*span_of(own)))))
        name_instance(own, after, later=True)
        stamp(own, self.setting)

    def _change_all(self, span: Span) -> None:
        named = self._with_texts(self.changed)
        if self._moves:
            self._shift(self.main, self.changed, span, timedelta())
        for one in (self.main, *named):
            self._alter(one, None)

    def _change_following(self, span: Span, new_uid: str) -> dict[str, str]:
        """Make a series of its own of what follows, and end the former one before it."""
        main, zone = self.main, self.setting.zone
        original = self._original()
        limit = instant(original, zone)
        source = self._source
        fresh = copy_of(main, without=())
        if source is not main:
            former, fresh = fresh, copy_of(source, without=(*REPETITION, "RECURRENCE-ID"))
            fresh.update({name: former[name] for name in REPETITION if name in former})
        moved = [copy_of(one, without=()) for one in self.changed if one is not source and instant(rid_of(one), zone) >= limit]
        rules = all_of(main, "RRULE")
        if len(rules) == 1 and "COUNT" in rules[0]:
            fresh["RRULE"]["COUNT"] = [max(1, int(listed(rules[0]["COUNT"])[0]) - self._before(original))]
        for name in ("EXDATE", "RDATE"):
            keep(fresh, name, lambda value: instant(value, zone) >= limit)
        place(fresh, (original, later(original, length(*span_of(source)))), like=main)
        named = self._with_texts(moved)
        self._shift(fresh, moved, span, timedelta() if source is main else moved_by(source))
        for one in (fresh, *named):
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

    def _shift(self, main: Any, changed: list[Any], span: Span, moved: timedelta) -> None:
        """Move a series as its instance is moved. ``moved``: how much later than its rule says its instances are so far."""
        old, new = native(local(self.instance["start"], self.setting.zone), main), native(span[0], main)
        if isinstance(old, datetime) != isinstance(new, datetime):
            raise Unchangeable("a series cannot change between whole days and times; cancel it and create a new one")
        long = length(*span) if self.setting.wish.get("end") is not None else None
        own = [one for one in changed if key_of(rid_of(one)) == self.rid]
        shift = Shift(original=self._original(), moved=moved, wished=naive(new) - naive(old), long=long)
        shift_series(main, changed, shift, self.setting.zone)
        for one in own if self._moves else ():
            place(one, span, like=main)

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


def _timed(event: Any) -> bool:
    return isinstance(start_of(event), datetime)
