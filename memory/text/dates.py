"""Dates: the day of a note, and the days that a query mentions, also relative ones (yesterday, letzten Dienstag, 5 days ago)."""

from __future__ import annotations

import re
from calendar import day_name, month_name, monthrange
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

_MONTHS = {name[:3].lower(): number for number, name in enumerate(month_name) if name} | {
    "mär": 3,
    "mai": 5,
    "okt": 10,
    "dez": 12,
}
_MONTH = (
    "(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    "|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|januar|februar|märz|mai|juni|juli|oktober|dezember)"
)
_DAY = r"(\d{1,2})(?:st|nd|rd|th|\.)?"
_YEAR = r"((?:19|20)\d\d)"

_IN_NAME = re.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)-(\d\d)(?!\d)")
_DOTTED = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.((?:19|20)\d\d)?(?!\d)")
_ISO = re.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?(?![\d-])")
_DAY_MONTH = re.compile(rf"(?<!\d){_DAY}(?: of)? {_MONTH}\b(?:,? {_YEAR})?", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"\b{_MONTH}\.? {_DAY}\b(?:,? {_YEAR})?(?!\d)", re.IGNORECASE)
_MONTH_YEAR = re.compile(rf"\b{_MONTH}\.?,?(?: of)? {_YEAR}\b", re.IGNORECASE)
_MONTH_ALONE = re.compile(
    rf"\b(?:in|during|last|since|of|early|late|mid|im|seit|letzten) (?:early |late |mid[- ])?{_MONTH}\b", re.IGNORECASE
)
_YEAR_ALONE = re.compile(rf"\b(?:in|during|of|since|throughout) {_YEAR}\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Span:
    """Days from ``first`` to ``last``, both included."""

    first: date
    last: date

    def __contains__(self, day: date) -> bool:
        """Whether the day is in the span."""
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
    """Return the header that is indexed and embedded with a chunk: its day in several spellings, and its heading."""
    if day is None:
        return heading
    return f"{day:%Y-%m-%d} ({day.day} {month_name[day.month]} {day.year}, {day_name[day.weekday()]}) {heading}".rstrip()


def spans(question: str, *, today: date) -> list[Span]:
    """Return the days in a query, absolute or relative to ``today``. Dates without a year are in the past."""
    relative = counted(question, today)
    found = _absolute(_without(question, relative), today)
    found += [Span(one.first, one.last) for one in relative]
    return list(dict.fromkeys(found))


def spelt_out(question: str, *, today: date) -> str:
    """Replace each relative date by the day in the spelling in which notes of that day are indexed.

    Phrases for several days are removed: their words ("last", "week") are in many notes.
    """
    pieces, end = [], 0
    for one in counted(question, today):
        pieces += [question[end : one.start], header(one.first, "") if one.first == one.last else " "]
        end = one.end
    return "".join(pieces) + question[end:]


def _without(question: str, phrases: Sequence[Counted]) -> str:
    for one in reversed(phrases):
        question = f"{question[: one.start]} {question[one.end :]}"
    return question


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
    take(_DOTTED, (3, 2, 1))
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


def _date(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


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
