"""Dates in figures in a question: "2026-11-03", "03.11.2026", "am 3.11.", "on 11/03/2026".

With points the day comes first. With slashes and hyphens it does in all languages but English, and there as the owner's time zone has
it; where nothing says which of two numbers is the month, both days are meant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, tzinfo
from functools import cache
from typing import Final, Literal

from msgspec import Struct

from memory.text import stop_words
from memory.text.folding import without_accents
from memory.text.positions import overlaps

Order = Literal["day first", "month first", "unknown"]

_MONTH_FIRST: Final = re.compile(
    r"America/(?:Adak|Anchorage|Boise|Chicago|Denver|Detroit|Juneau|Los_Angeles|Menominee|Metlakatla|New_York|Nome|Phoenix|Puerto_Rico"
    r"|Sitka|Yakutat|Indiana/.+|Kentucky/.+|North_Dakota/.+)|US/.+|Pacific/(?:Guam|Honolulu)|Asia/Manila"
)
_UNCERTAIN: Final = re.compile(
    r"(?:Etc/)?(?:UTC|UCT|GMT.*|Universal|Zulu)"
    r"|America/(?:Edmonton|Halifax|Moncton|Montreal|Regina|St_Johns|Toronto|Vancouver|Winnipeg)|Canada/.+"
)
_WORDS: Final = re.compile(r"[^\W\d_]+")
_LAST_MONTH: Final = 12
_LEAP_YEARS: Final = 8
"""Years within which each day of the calendar comes again."""


class FigureDate(Struct, frozen=True):
    """A date in figures in a query: its position, the days that it may mean, and whether it names the year in full."""

    start: int
    end: int
    days: tuple[date, ...]
    whole: bool

    @property
    def first(self) -> date:
        """The first of the days."""
        return min(self.days)

    @property
    def last(self) -> date:
        """The last of them."""
        return max(self.days)


def order_in(zone: tzinfo) -> Order:
    """Return how dates with slashes are written in English where clocks show the time of a zone."""
    name = getattr(zone, "key", None) or "UTC"
    if _MONTH_FIRST.fullmatch(name):
        return "month first"
    return "unknown" if _UNCERTAIN.fullmatch(name) else "day first"


def figure_dates(question: str, today: date, order: Order = "unknown") -> list[FigureDate]:
    """Return the dates in figures in a query, in order; those without a year are in the past. None overlap.

    ``order`` is that of English questions whose dates have slashes or hyphens.
    """
    found: list[FigureDate] = []
    if not any(character.isdecimal() for character in question):
        return found
    plain = without_accents(question)
    for pattern, first in _patterns():
        for match in pattern.finditer(plain):
            start, end = match.span("date")
            if overlaps(found, start, end):
                continue
            read = _read(match, first or order_of(question, order), today, certain=first is not None)
            if days := tuple(dict.fromkeys(day for day in read if day is not None)):
                found.append(FigureDate(start, end, days, whole="year" in pattern.groupindex))
    return sorted(found, key=lambda one: one.start)


@cache
def _patterns() -> Sequence[tuple[re.Pattern[str], Order | None]]:
    """Return how dates are written, and which number comes first where that is certain.

    Without a year, or with a short one, figures are a date after a word that leads to one, or by themselves: others are versions,
    fractions or scores.
    """
    one, other, year, short = r"(?P<one>\d{1,2})", r"(?P<other>\d{1,2})", r"(?P<year>(?:19|20)\d\d)", r"'?(?P<short>\d\d)"
    free, after = r"(?<![\w./-])", r"(?![\w/-]|\.\d)"
    on = r"\b(?:on|by|since|from|until|am|vom|seit|bis|zum|le|du|depuis|el|del|desde|il|dal|al)\s+(?:the\s+)?"
    written: tuple[tuple[str, str, str, Order | None], ...] = (
        (r"(?<![\w.])", rf"{year}(?P<sep>[-/.]){one}(?P=sep){other}", r"(?![\d-]|[./]\d)", "month first"),
        (free, rf"{one}\.\s?{other}\.\s?{year}", after, "day first"),
        (free, rf"{one}(?P<sep>[-/]){other}(?P=sep){year}", after, None),
        (on, rf"{one}\.\s?{other}\.\s?{short}", after, "day first"),
        (on, rf"{one}/{other}/{short}", after, None),
        (r"\A\W*", rf"{one}\.\s?{other}\.\s?{short}", r"\W*\Z", "day first"),
        (free, rf"{one}\.\s?{other}\.", r"(?![\d.])", "day first"),
        (on, rf"{one}\.{other}", after, "day first"),
        (on, rf"{one}/{other}", after, None),
    )
    return [(re.compile(rf"{before}(?P<date>{text}){end}", re.IGNORECASE), first) for before, text, end, first in written]


def order_of(question: str, order: Order) -> Order:
    """Return how dates with slashes are written in a question: ``order`` is that of English ones."""
    language, count = stop_words.language(word.lower() for word in _WORDS.findall(question))
    return "day first" if count and language != "English" else order


def _read(match: re.Match[str], order: Order, today: date, *, certain: bool) -> list[date | None]:
    one, other = int(match["one"]), int(match["other"])
    readings = {"month first": [(one, other)], "day first": [(other, one)], "unknown": [(other, one), (one, other)]}[order]
    month, day = readings[0]
    if not certain and month > _LAST_MONTH:
        readings = [(day, month)]
    return [_day_of(month, day, today, **match.groupdict()) for month, day in readings]


def _day_of(month: int, day: int, today: date, *, year: str = "", short: str = "", **_: str) -> date | None:
    if year:
        return _date(int(year), month, day)
    if short:
        return _date(year_of(int(short), today), month, day)
    years = range(today.year, max(0, today.year - _LEAP_YEARS - 1), -1)
    return next((found for one in years if (found := _date(one, month, day)) and found <= today), None)


def year_of(short: int, today: date) -> int:
    """Return the year that its last two figures mean: the next one at most."""
    full = today.year - today.year % 100 + short
    return full if full <= today.year + 1 else full - 100


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
