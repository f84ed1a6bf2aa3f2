"""Dates: the day of a note, and the days that a query mentions, also relative ones (see ``memory.text.relative_days``)."""

from __future__ import annotations

import re
from calendar import day_name, month_name, monthrange
from collections.abc import Sequence
from datetime import date
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from memory.text.folding import without_accents

if TYPE_CHECKING:
    from memory.text.relative_days import Counted

_NAMES = (
    "january jan januar janvier enero gennaio",
    "february feb februar fevrier febrero febbraio",
    "march mar marz mars marzo",
    "april apr avril abril aprile",
    "may mai mayo maggio",
    "june jun juni juin junio giugno",
    "july jul juli juillet julio luglio",
    "august aug aout agosto",
    "september sept sep septembre septiembre settembre",
    "october oct oktober okt octobre octubre ottobre",
    "november nov novembre noviembre",
    "december dec dezember dez decembre diciembre dicembre",
)
_MONTHS = {name: number for number, names in enumerate(_NAMES, 1) for name in names.split()}
_MONTH = f"({'|'.join(sorted(_MONTHS, key=len, reverse=True))})"
_DAY = r"(\d{1,2})(?:st|nd|rd|th|\.)?"
_YEAR = r"((?:19|20)\d\d)"

_IN_NAME = re.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)-(\d\d)(?!\d)")
_LAST = frozenset(
    """
    last past previous letzten letzter vergangenen vorigen dernier derniere passe passee pasado pasada scorso scorsa passato passata
    """.split()  # noqa: SIM905 - a list literal of them is three times as long
)
"""Words beside the name of a time by which it is the newest that is over."""
_THIS = frozenset(
    {"this", "early", "late", "mid", "diesen", "dieses", "cet", "cette", "este", "esta", "questo", "questa", "quest"}
)
_IN_WORDS = re.compile(r"[^\W_]+")
_LONGEST_SEASON = 92
_WHOLE_SPAN = 31
"""Days of a span of which the newest notes are looked up, rather than some from all of it."""


class Span(Struct, frozen=True):
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


class TimeWords(Struct, frozen=True):
    """Words of a query, in lower case and without accents, that say which month, season or year it means.

    ``names`` may stand in notes, too ("October", "Sommer"); ``beside`` only point at one ("last", "pasado"). ``months`` are those of
    a month or season as the headers of its notes have them.
    """

    names: frozenset[str]
    beside: frozenset[str]
    months: tuple[str, ...]


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
    from memory.text.relative_days import counted  # 37 patterns, which only a query needs

    relative = counted(question, today)
    found = [span for span, _ in _absolute(_without(question, relative), today)]
    found += [Span(one.first, one.last) for one in relative]
    return list(dict.fromkeys(found))


def time_words(question: str, *, today: date) -> TimeWords:
    """Return the words by which a query names months, seasons and years."""
    from memory.text.relative_days import counted

    relative = counted(question, today)
    phrases = [(Span(one.first, one.last), question[one.start : one.end]) for one in relative if one.season]
    phrases += [(span, match[0]) for span, match in _absolute(_without(question, relative), today) if span.days > 1]
    words = {word for _, phrase in phrases for word in _IN_WORDS.findall(without_accents(phrase).lower())}
    named = _MONTHS.keys() | {one.season for one in relative}
    return TimeWords(
        names=frozenset(word for word in words if word in named or word.isdecimal()),
        beside=frozenset(words & (_LAST | _THIS)),
        months=tuple(dict.fromkeys(month for span, _ in phrases for month in _months_of(span))),
    )


def _months_of(span: Span) -> list[str]:
    """Return the months of a span, or none of one that is longer than a season."""
    if span.days > _LONGEST_SEASON:
        return []
    first = span.first.year * 12 + span.first.month - 1
    return [month_name[number % 12 + 1] for number in range(first, span.last.year * 12 + span.last.month)]


def spelt_out(question: str, *, today: date) -> str:
    """Replace each relative date by the day in the spelling in which notes of that day are indexed.

    Phrases for several days are removed: their words ("last", "week") are in many notes. Seasons stay, by their names.
    """
    from memory.text.relative_days import counted

    pieces, end = [], 0
    for one in counted(question, today):
        if one.season:
            continue
        pieces += [question[end : one.start], header(one.first, "") if one.first == one.last else " "]
        end = one.end
    return "".join(pieces) + question[end:]


def _without(question: str, phrases: Sequence[Counted]) -> str:
    for one in reversed(phrases):
        question = f"{question[: one.start]} {question[one.end :]}"
    return question


@cache
def _written() -> tuple[tuple[re.Pattern[str], tuple[int, int, int]], ...]:
    """Return how days, months and years are written, and which groups are year, month and day (0: none). Compiled for the first search."""
    alone = (
        r"\b(?:in|during|last|past|previous|this|since|of|early|late|mid|im|seit|letzten|vergangenen|vorigen|diesen|en|cet|au mois de"
        rf"|depuis|desde|a|nel|da|lo scorso|questo) (?:early |late |mid[- ])?{_MONTH}(?: dernier| passe| pasado| scorso| passato)?\b"
    )
    after = rf"\b{_MONTH} (?:dernier|pasado|scorso|passato)\b"
    return (
        (re.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?(?![\d-])"), (1, 2, 3)),
        (re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.((?:19|20)\d\d)?(?!\d)"), (3, 2, 1)),
        (re.compile(rf"(?<!\d){_DAY}(?: of| de| di)? {_MONTH}\b(?:,?(?: de| del)? {_YEAR})?", re.IGNORECASE), (3, 2, 1)),
        (re.compile(rf"\b{_MONTH}\.? {_DAY}\b(?:,? {_YEAR})?(?!\d)", re.IGNORECASE), (3, 1, 2)),
        (re.compile(rf"\b{_MONTH}\.?,?(?: of| de| del)? {_YEAR}\b", re.IGNORECASE), (2, 1, 0)),
        (re.compile(alone, re.IGNORECASE), (0, 1, 0)),
        (re.compile(after, re.IGNORECASE), (0, 1, 0)),
        (re.compile(rf"\b(?:in|during|of|since|throughout|seit|en|depuis|desde|nel|dal) {_YEAR}\b", re.IGNORECASE), (1, 0, 0)),
    )


def _absolute(question: str, today: date) -> list[tuple[Span, re.Match[str]]]:
    found: list[tuple[Span, re.Match[str]]] = []
    rest = without_accents(question)
    for pattern, order in _written():
        for match in pattern.finditer(rest):
            year, month, day = (match[group] if group else None for group in order)
            span = _span(year, month, day, today)
            if span and not year and not day and today in span and not _LAST.isdisjoint(match[0].lower().split()):
                span = _span(str(today.year - 1), month, day, today)
            if span:
                found.append((span, match))
        rest = pattern.sub(" ", rest)
    return found


def _span(year: str | None, month: str | None, day: str | None, today: date) -> Span | None:
    if month is None:
        assert year is not None
        return Span(date(int(year), 1, 1), date(int(year), 12, 31))
    number = int(month) if month.isdigit() else _MONTHS[month.lower()]
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


def spread(days: int, ids: Sequence[int], most: int) -> Sequence[int]:
    """Choose at most ``most`` chunks of a span of so many days: the first ones, or of a long span some from all of it."""
    step = -(-len(ids) // most) if days > _WHOLE_SPAN else 1
    return ids[:: max(1, step)][:most]


def _date(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
