"""Ranges with one end in a question, and the week of a day: "since Tuesday", "bis zum 3. November", "semaine du 3 novembre"."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from functools import cache
from itertools import pairwise
from typing import TypeVar

from memory.text.calendar_names import DAYS
from memory.text.day_ranges import DayRange
from memory.text.positions import Timed, overlaps
from memory.text.year_words import Days, plain_words

_MONTH = 30
T = TypeVar("T", bound=Timed)
"""So many days at most before the end of a range that is said to have only an end."""
Bound = Callable[[date, date], Days | None]
"""What a word before a day makes of that day and today."""


def bound_before(plain: str, start: int) -> tuple[int, Bound] | None:
    """Return where the words right before a day begin that make it the end of a range or name its week, and what they make of it."""
    for pattern, bound in _leads() if start else ():
        if match := pattern.search(plain, max(0, start - _LONGEST), start):
            before = plain[: match.start()].lower().split()[-1:]
            return None if bound in {_before, _after} and not _COUNTED.isdisjoint(before) else (match.start(), bound)
    return None


def joined_ranges(question: str, found: Sequence[Timed]) -> list[DayRange]:
    """Return the ranges from one of the phrases found in a query to the next: "from early September to yesterday". None overlap."""
    ranges: list[DayRange] = []
    plain = plain_words(question)[0] if len(found) > 1 else ""
    for one, other in pairwise(sorted(found, key=lambda one: one.start)):
        lead = _from().search(plain, max(0, one.start - _LONGEST), one.start)
        to = (_and() if lead and lead["between"] else _to()).match(plain, one.end)
        if not lead or not to or not other.start <= to.end() <= other.start + _LONGEST_JOIN:
            continue
        if one.first < other.last and not overlaps(ranges, lead.start(), other.end):
            ranges.append(DayRange(lead.start(), other.end, one.first, other.last))
    return ranges


@cache
def _from() -> re.Pattern[str]:
    return re.compile(
        r"(?<!\w)(?:from|von|vom|de|du|depuis|desde|del|da|dal|(?P<between>between|zwischen|entre|tra|fra))\s(?:(?:the|dem|el|le|il)\s)?\Z",
        re.IGNORECASE,
    )


@cache
def _to() -> re.Pattern[str]:
    the = r"(?:(?:the|dem|den|el|le|il)\s)?"
    return re.compile(
        rf"\s(?:to|until|till|through|bis(?:\szum)?|au|a|al|jusqu'(?:au|a)|hasta|fino\sal?)\s{the}", re.IGNORECASE
    )


@cache
def _and() -> re.Pattern[str]:
    return re.compile(r"\s(?:and|und|et|y|e)\s(?:(?:the|dem|el|le|il)\s)?", re.IGNORECASE)


def open_ranges(question: str, found: Sequence[T], today: date) -> tuple[list[T], list[DayRange]]:
    """Tell what of the phrases found in a query is without words before it that make a range of it, and return these ranges."""
    alone: list[T] = []
    ranges: list[DayRange] = []
    plain = plain_words(question)[0] if found else ""
    for one in found:
        before = bound_before(plain, one.start)
        if before and (days := _days_of(before[1], one, today)):
            ranges.append(DayRange(before[0], one.end, *days))
        else:
            alone.append(one)
    return alone, ranges


def _days_of(bound: Bound, one: Timed, today: date) -> Days | None:
    if bound in {_week, _weekend} and one.first < one.last:
        return None
    return bound(one.last if bound in {_after, _until} else one.first, today)


def is_since(bound: Bound) -> bool:
    """Return whether a word before a day tells that the range has begun with it."""
    return bound is _since


def _since(day: date, today: date) -> Days | None:
    return (day, today) if day < today else None


def _after(day: date, today: date) -> Days | None:
    return _since(date.fromordinal(min(date.max.toordinal(), day.toordinal() + 1)), today)


def _until(day: date, _: date) -> Days:
    return date.fromordinal(max(1, day.toordinal() - _MONTH)), day


def _before(day: date, today: date) -> Days | None:
    return _until(date.fromordinal(day.toordinal() - 1), today) if day.toordinal() > 1 else None


def _week(day: date, _: date) -> Days | None:
    monday = day.toordinal() - day.weekday()
    return (date.fromordinal(monday), date.fromordinal(monday + 6)) if 1 <= monday <= date.max.toordinal() - 6 else None


def _weekend(day: date, today: date) -> Days | None:
    week = _week(day, today)
    return (date.fromordinal(week[1].toordinal() - 1), week[1]) if week else None


_LONGEST, _LONGEST_JOIN = 40, 6
"""Characters before a phrase that are looked at, and those of a word between two that the second may have taken ("bis Mitte November")."""
_COUNTED = frozenset(
    """
    day days night week weeks weekend month months year years tag tage abend woche wochen wochenende monat monate jour jours soir veille
    semaine semaines mois dia dias noche semana semanas mes meses giorno giorni sera settimana settimane mese mesi
    """.split()  # noqa: SIM905 - a list literal of them is longer
).union(DAYS)
"""What is so long before or after a day is not in all of that time."""
_LEADS: Sequence[tuple[str, Bound]] = (
    (r"(?:(?:on|at|over)\s)?(?:the\s)?weekend\sof(?:\sthe)?|(?:(?:am|das)\s)?wochenende\s(?:vom|um\sden|des)", _weekend),
    (
        r"(?:le\s)?week-?end\sdu|(?:(?:el|en\sel)\s)?fin\sde\ssemana\sdel|(?:(?:il|nel)\s)?(?:fine\ssettimana|weekend)\sdel",
        _weekend,
    ),
    (r"(?:(?:in|during)\s)?(?:the\s)?week\s(?:of|beginning|starting|commencing)(?:\son)?(?:\sthe)?", _week),
    (r"(?:(?:in\sder|der|die)\s)?woche\s(?:vom|ab|um|des)(?:\s(?:dem|den))?", _week),
    (r"(?:(?:la|dans\sla)\s)?semaine\sdu|(?:(?:en\sla|la)\s)?semana\sdel|(?:(?:nella|la)\s)?settimana\sdel", _week),
    (
        r"(?:ever\s)?since(?:\sthe)?|seit(?:\sdem)?|ab(?:\sdem)?|depuis(?:\sle)?|des\sle|a\spartir\s(?:du|del?)|desde(?:\sel)?",
        _since,
    ),
    (r"(?:a\spartire\s)?(?:dal|da)|starting(?:\son)?", _since),
    (r"until(?:\sthe)?|till|bis(?:\szum)?|jusqu'(?:au|a)|hasta(?:\sel)?|fino\sal?", _until),
    (r"before(?:\sthe)?|vor(?:\sdem)?|avant(?:\sle)?|antes\sdel?|prima\sd(?:el|i)", _before),
    (r"after(?:\sthe)?|nach(?:\sdem)?|apres(?:\sle)?|despues\sdel?|tras\sel|dopo(?:\sil)?", _after),
)


@cache
def _leads() -> Sequence[tuple[re.Pattern[str], Bound]]:
    return [(re.compile(rf"(?<![\w'])(?:{text})\s\Z", re.IGNORECASE), bound) for text, bound in _LEADS]
