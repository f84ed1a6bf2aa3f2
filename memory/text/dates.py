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
LONGEST_LOOKED_UP = 31
"""Days of a span whose notes are candidates whatever they say."""


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
    found = _absolute(_without(question, relative), today)
    found += [Span(one.first, one.last) for one in relative]
    return list(dict.fromkeys(found))


def spelt_out(question: str, *, today: date) -> str:
    """Replace each relative date by the day in the spelling in which notes of that day are indexed.

    Phrases for several days are removed: their words ("last", "week") are in many notes. Seasons stay, by their names.
    """
    from memory.text.relative_days import counted

    pieces, end = [], 0
    for one in counted(question, today):
        if one.by_name:
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
        rf"\b(?:in|during|last|since|of|early|late|mid|im|seit|letzten|en|au mois de|depuis|desde|a|nel|da|lo scorso) "
        rf"(?:early |late |mid[- ])?{_MONTH}\b"
    )
    return (
        (re.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)(?:-(\d\d))?(?![\d-])"), (1, 2, 3)),
        (re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.((?:19|20)\d\d)?(?!\d)"), (3, 2, 1)),
        (re.compile(rf"(?<!\d){_DAY}(?: of| de| di)? {_MONTH}\b(?:,?(?: de| del)? {_YEAR})?", re.IGNORECASE), (3, 2, 1)),
        (re.compile(rf"\b{_MONTH}\.? {_DAY}\b(?:,? {_YEAR})?(?!\d)", re.IGNORECASE), (3, 1, 2)),
        (re.compile(rf"\b{_MONTH}\.?,?(?: of| de| del)? {_YEAR}\b", re.IGNORECASE), (2, 1, 0)),
        (re.compile(alone, re.IGNORECASE), (0, 1, 0)),
        (re.compile(rf"\b(?:in|during|of|since|throughout|seit|en|depuis|desde|nel|dal) {_YEAR}\b", re.IGNORECASE), (1, 0, 0)),
    )


def _absolute(question: str, today: date) -> list[Span]:
    found: list[Span] = []
    rest = without_accents(question)

    def take(pattern: re.Pattern[str], order: tuple[int, int, int]) -> None:
        nonlocal rest
        for match in pattern.finditer(rest):
            year, month, day = (match[group] if group else None for group in order)
            span = _span(year, month, day, today)
            if span:
                found.append(span)
        rest = pattern.sub(" ", rest)

    for pattern, order in _written():
        take(pattern, order)
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


def _date(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
