"""Days: which one a note is about, and which ones a question names."""

from __future__ import annotations

import re
from calendar import day_name, month_name, monthrange
from dataclasses import dataclass
from datetime import date, timedelta

_MONTHS = {name[:3].lower(): number for number, name in enumerate(month_name) if name}
_DAYS = {name[:3].lower(): number for number, name in enumerate(day_name)}
_MONTH = (
    "(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    "|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"((?:19|20)\d\d)"

_IN_NAME = re.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)-(\d\d)(?!\d)")
_ISO = re.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?(?![\d-])")
_DAY_MONTH = re.compile(rf"(?<!\d){_DAY}(?: of)? {_MONTH}\b(?:,? {_YEAR})?", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"\b{_MONTH}\.? {_DAY}\b(?:,? {_YEAR})?(?!\d)", re.IGNORECASE)
_MONTH_YEAR = re.compile(rf"\b{_MONTH}\.?,?(?: of)? {_YEAR}\b", re.IGNORECASE)
_MONTH_ALONE = re.compile(rf"\b(?:in|during|last|since|of|early|late|mid) (?:early |late |mid[- ])?{_MONTH}\b", re.IGNORECASE)
_YEAR_ALONE = re.compile(rf"\b(?:in|during|of|since|throughout) {_YEAR}\b", re.IGNORECASE)
_AGO = re.compile(r"\b(\d{1,3}|an?|one|two|three|four|five|six) (day|week|month)s? ago\b", re.IGNORECASE)
_LAST = re.compile(
    r"\b(last|past|this|previous) (week|month|year|mon|tues?|wednes|thurs?|fri|satur|sun)(?:day)?\b", re.IGNORECASE
)
_NAMED = re.compile(r"\b(today|yesterday|day before yesterday|recently|lately)\b", re.IGNORECASE)
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_RECENT = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class Span:
    """Days from ``first`` to ``last``, both included."""

    first: date
    last: date

    def __contains__(self, day: date) -> bool:
        """Whether the day lies within."""
        return self.first <= day <= self.last

    @property
    def days(self) -> int:
        """How many days it has."""
        return (self.last - self.first).days + 1


def day_of(path: str) -> date | None:
    """Return the day in a note's name (``memory/2026-01-26-api.md``), if any."""
    found = _IN_NAME.search(path.rsplit("/", 1)[-1])
    return _date(*found.groups()) if found else None


def header(day: date | None, heading: str) -> str:
    """Return the line that is indexed and embedded with a chunk: its day, spelt so that any way of asking meets it, and heading."""
    if day is None:
        return heading
    return f"{day:%Y-%m-%d} ({day.day} {month_name[day.month]} {day.year}, {day_name[day.weekday()]}) {heading}".rstrip()


def spans(question: str, *, today: date) -> list[Span]:
    """Return the days that an English question names, absolutely or counted from ``today``. Dates without a year are past ones."""
    found = _absolute(question, today)
    found += [span for match in _AGO.finditer(question) if (span := _ago(match[1], match[2], today))]
    found += [_last(match[1].lower(), match[2].lower(), today) for match in _LAST.finditer(question)]
    found += [_named(match[1].lower(), today) for match in _NAMED.finditer(question)]
    return list(dict.fromkeys(found))


def _absolute(question: str, today: date) -> list[Span]:
    found: list[Span] = []
    rest = question

    def take(pattern: re.Pattern[str], order: tuple[int, int, int]) -> None:
        nonlocal rest
        for match in pattern.finditer(rest):
            year, month, day = (match[group] if group else None for group in order)
            span = _span(year, month, day, today)
            if span:
                found.append(span)
        rest = pattern.sub(" ", rest)

    take(_ISO, (1, 2, 3))
    take(_DAY_MONTH, (3, 2, 1))
    take(_MONTH_DAY, (3, 1, 2))
    take(_MONTH_YEAR, (2, 1, 0))
    take(_MONTH_ALONE, (0, 1, 0))
    take(_YEAR_ALONE, (1, 0, 0))
    return found


def _span(year: str | None, month: str | None, day: str | None, today: date) -> Span | None:
    if month is None:
        assert year is not None
        return Span(date(int(year), 1, 1), date(int(year), 12, 31))
    number = int(month) if month.isdigit() else _MONTHS[month[:3].lower()]
    if not 1 <= number <= 12:  # noqa: PLR2004 - months of a year
        return None
    this = int(year) if year else today.year
    if day:
        exact = _date(str(this), str(number), day)
        if exact and not year and exact > today:
            exact = _date(str(this - 1), str(number), day)
        return Span(exact, exact) if exact else None
    if not year and number > today.month:
        this -= 1
    return Span(date(this, number, 1), date(this, number, monthrange(this, number)[1]))


def _ago(count: str, unit: str, today: date) -> Span | None:
    number = int(count) if count.isdigit() else _NUMBERS[count.lower()]
    length, slack = {"day": (1, 0), "week": (7, 3), "month": (30, 10)}[unit.lower()]
    middle = today - timedelta(days=number * length)
    return Span(middle - timedelta(days=slack), middle + timedelta(days=slack))


def _last(which: str, unit: str, today: date) -> Span:
    monday = today - timedelta(days=today.weekday())
    if unit == "week":
        start = monday if which == "this" else monday - timedelta(days=7)
        return Span(min(start, today - timedelta(days=7)) if which == "past" else start, min(start + timedelta(days=6), today))
    if unit == "month":
        last = today if which == "this" else today.replace(day=1) - timedelta(days=1)
        return Span(last.replace(day=1), last)
    if unit == "year":
        year = today.year if which == "this" else today.year - 1
        return Span(date(year, 1, 1), date(year, 12, 31))
    back = (today.weekday() - _DAYS[unit[:3]]) % 7 or (0 if which == "this" else 7)
    day = today - timedelta(days=back)
    return Span(day, day)


def _named(name: str, today: date) -> Span:
    if name in {"recently", "lately"}:
        return Span(today - _RECENT, today)
    day = today - timedelta(days={"today": 0, "yesterday": 1}.get(name, 2))
    return Span(day, day)


def _date(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
