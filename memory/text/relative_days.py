"""Relative dates in queries: yesterday, last Tuesday, 5 days ago; gestern, letzten Dienstag, vor 5 Tagen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

_WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_TAGE = ["montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag"]
_WEEKDAY = r"(mon|tues|wednes|thurs|fri|satur|sun)day"
_TAG = rf"({'|'.join(_TAGE)}|sonnabend)"
_NUMBERS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
}
_ZAHLEN = {"zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "sechs": 6, "sieben": 7, "acht": 8, "neun": 9, "zehn": 10}
_RECENT = timedelta(days=14)
_PART_OF_DAY = r"(?:\s+(?:morning|noon|afternoon|evening|night))?"
_TAGESZEIT = r"(?:\s+(?:früh|morgen|vormittag|mittag|nachmittag|abend|nacht))?"


@dataclass(frozen=True, slots=True)
class Counted:
    """A relative date in a query: its position, and the first and last day that it means."""

    start: int
    end: int
    first: date
    last: date


def counted(question: str, today: date) -> list[Counted]:
    """Return the phrases by which a question, in English or German, counts days from ``today``, in order. None overlap."""
    found: list[Counted] = []
    for pattern, meaning in _RULES:
        for match in pattern.finditer(question):
            if any(match.start() < one.end and one.start < match.end() for one in found):
                continue
            first, last = meaning(match, today)
            found.append(Counted(match.start(), match.end(), first, last))
    return sorted(found, key=lambda one: one.start)


def _day(back: int) -> Callable[[re.Match[str], date], tuple[date, date]]:
    def meaning(_: re.Match[str], today: date) -> tuple[date, date]:
        day = _back(today, back)
        return day, day

    return meaning


def _ago(match: re.Match[str], today: date) -> tuple[date, date]:
    word, unit = match[1].lower(), match[2].lower()[0]
    number = int(word) if word.isdigit() else _NUMBERS.get(word) or _ZAHLEN.get(word) or 1
    length, slack = {"d": (1, 0), "t": (1, 0), "w": (7, 3), "m": (30, 10)}[unit]
    return _back(today, number * length + slack), _back(today, number * length - slack)


def _weekday(match: re.Match[str], today: date) -> tuple[date, date]:
    """The last such day before today; of "this" one, today may be it."""
    name = match["day"].lower()
    name = "samstag" if name == "sonnabend" else name
    number = _TAGE.index(name) if name in _TAGE else _WEEKDAYS.index(name[:3])
    this = match["which"].lower() in {"this", "diesen"}
    day = _back(today, (today.weekday() - number) % 7 or (0 if this else 7))
    return day, day


def _week(match: re.Match[str], today: date) -> tuple[date, date]:
    which, monday = match[1].lower(), _back(today, today.weekday())
    if which in {"this", "diese"}:
        return monday, today
    if which == "past":
        return _back(today, 7), today
    return _back(monday, 7), _back(monday, 1)


def _month(match: re.Match[str], today: date) -> tuple[date, date]:
    last = today if match[1].lower() in {"this", "diesen", "diesem"} else _back(today.replace(day=1), 1)
    return last.replace(day=1), last


def _year(match: re.Match[str], today: date) -> tuple[date, date]:
    year = max(1, today.year - (match[1].lower() not in {"this", "dieses", "diesem"}))
    return date(year, 1, 1), date(year, 12, 31)


def _recently(_: re.Match[str], today: date) -> tuple[date, date]:
    return _back(today, _RECENT.days), today


def _back(day: date, days: int) -> date:
    """Return the day so many days earlier, or the calendar's first one."""
    return date.fromordinal(max(1, day.toordinal() - days))


def _rules() -> Iterator[tuple[re.Pattern[str], Callable[[re.Match[str], date], tuple[date, date]]]]:
    count = "|".join([r"\d{1,3}", *_NUMBERS])
    zahl = "|".join([r"\d{1,3}", *_ZAHLEN, "einem", "einer"])
    letzt = "(?:letzt|vergangen|vorig)"
    for pattern, meaning in (
        (r"\b(?:the )?day before yesterday\b", _day(2)),
        (rf"\byesterday{_PART_OF_DAY}\b|\blast night\b", _day(1)),
        (r"\btoday\b|\bthis (?:morning|afternoon|evening)\b|\btonight\b", _day(0)),
        (rf"\bvorgestern{_TAGESZEIT}\b", _day(2)),
        (rf"\bgestern{_TAGESZEIT}\b", _day(1)),
        (rf"\bheute{_TAGESZEIT}\b", _day(0)),
        (rf"\b({count}) (day|week|month)s? ago\b", _ago),
        (rf"\bvor ({zahl}) (tag|woche|monat)(?:en|e|n)?\b", _ago),
        (rf"\b(?P<which>this past|last|past|this|previous|on) (?P<day>{_WEEKDAY}){_PART_OF_DAY}\b", _weekday),
        (rf"\b(?P<which>{letzt}en|diesen|am) (?P<day>{_TAG}){_TAGESZEIT}\b", _weekday),
        (r"\b(last|past|this|previous) week\b", _week),
        (rf"\b({letzt}e|diese) woche\b", _week),
        (r"\b(last|past|this|previous) month\b", _month),
        (rf"\b({letzt}e[nm]|diese[nm]) monat\b", _month),
        (r"\b(last|past|this|previous) year\b", _year),
        (rf"\b({letzt}e[sm]|diese[sm]) jahre?\b", _year),
        (r"\brecently\b|\blately\b|\bneulich\b|\bkürzlich\b|\bin letzter zeit\b", _recently),
    ):
        yield re.compile(pattern, re.IGNORECASE), meaning


_RULES = tuple(_rules())
