"""Years in a question, by number or counted from today: "2025", "last year", "vor zwei Jahren", "l'année dernière"."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import cache, lru_cache

from msgspec import Struct

from memory.text.calendar_names import number_of
from memory.text.folding import without_accents
from memory.text.positions import overlaps

Days = tuple[date, date]
"""The first and the last day of a time."""
InYear = Callable[[int], Days | None]
"""What a time within a year is in that year, or None if that year has no such time."""
Meaning = Callable[[re.Match[str], int], Days | None]
"""What a phrase for such a time means in a year."""
Rule = tuple[str, Meaning, bool]
"""A pattern of such phrases, in lower case and without accents, what they mean, and whether they need no year."""

_WORDS = re.compile(r"[^\W_]+")
_MARK, MARKED = "\0", r"\0+"
_NEAR = timedelta(days=183)
_YEARS_BETWEEN = 8
"""Within so many years each day and each week of the calendar comes again."""


class SaidYear(Struct, frozen=True):
    """A year in a query: its position, and its number, or how many years it is before today's.

    ``ago`` tells that it is counted in words ("two years ago") and not named ("last year").
    """

    start: int
    end: int
    number: int | None
    back: int
    ago: bool

    def days_of(self, in_year: InYear, today: date) -> Days | None:
        """Return the days of a time within this year. What began "a year ago" is not nearer to today than to that day."""
        if self.number is not None:
            return in_year(self.number)
        year = today.year - self.back
        days = in_year(year) if year >= 1 else None
        if self.ago and days and days[1] - today > _NEAR - timedelta(days=365 * self.back):
            return in_year(year - 1) if year > 1 else None
        if days and days[0] > today and not self.back:
            return in_year(year - 1) if year > 1 else None
        return days


@lru_cache(maxsize=2)
def plain_words(question: str) -> tuple[str, frozenset[str]]:
    """Return a query without accents and with plain apostrophes, and its words in lower case."""
    plain = without_accents(question).replace("’", "'")
    return plain, frozenset(_WORDS.findall(plain.lower()))


def newest(in_year: InYear, today: date, *, over: bool = False) -> Days | None:
    """Return the days of the newest time of a kind that has begun, or that is over."""
    for year in range(
        min(9999, today.year + 1), max(0, today.year - _YEARS_BETWEEN - 1), -1
    ):  # its first week may begin in December
        days = in_year(year)
        if days and (days[1] < today if over else days[0] <= today):
            return days
    return None


@lru_cache(maxsize=4)
def said_years(plain: str) -> Sequence[SaidYear]:
    """Return the years in a query without accents, in order."""
    found: list[SaidYear] = []
    for pattern, back in _patterns():
        for match in pattern.finditer(plain):
            if overlaps(found, *match.span()):
                continue
            said = match.groupdict().get("said")
            count = match.groupdict().get("count")
            years = back if count is None else number_of(count)
            if years is not None:
                found.append(SaidYear(match.start(), match.end(), int(said) if said else None, years, ago=count is not None))
    return sorted(found, key=lambda one: one.start)


def marked(plain: str, years: Sequence[SaidYear]) -> str:
    """Return a query with marks that ``MARKED`` matches in the place of its years."""
    for one in years:
        plain = plain[: one.start] + _MARK * (one.end - one.start) + plain[one.end :]
    return plain


def year_beside(years: Sequence[SaidYear], plain: str, start: int, end: int) -> SaidYear | None:
    """Return the year that is said right after a phrase or, if none is, right before it."""
    after = next((one for one in years if one.start >= end), None)
    if after and _joins()[0].fullmatch(plain, end, after.start) and not plain.startswith("'s", after.end):
        return after
    before = next((one for one in reversed(years) if one.end <= start), None)
    return before if before and _joins()[1].fullmatch(plain, before.end, start) else None


@cache
def _joins() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what may stand between a time and its year, and between a year and its time."""
    after = r"\.?,?\s(?:(?:of|in|from|im|von|vom|des|de|del|dell[ao]|di)\s|d'|dell')?|/"
    return re.compile(after, re.IGNORECASE), re.compile(r"(?:,|'s)?\s(?:(?:on|am|from|vom|du|del|dal)\s)?", re.IGNORECASE)


@cache
def _patterns() -> Sequence[tuple[re.Pattern[str], int]]:
    """Return how years are said, and how many years back each is."""
    count = r"(?P<count>\w+)"
    written = (
        (r"this year|diese[sm] jahre?s?|cette annee|este ano|quest'anno", 0),
        (r"(?:the )?year before last|vorletzte[sn] jahre?s?|(?:l')?avant-derniere annee|(?:el )?ano antepasado", 2),
        (r"(?:the )?(?:last|past|previous) year|(?:letzt|vorig|vergangen)e[smn] jahre?s?", 1),
        (r"(?:l')?an(?:nee)? (?:derniere?|passee?)|(?:el )?(?:ano pasado|pasado ano)", 1),
        (r"(?:l')?anno (?:scorso|passato)|(?:lo )?scorso anno", 1),
        (r"(?:(?:im|des) )?vorjahre?s?", 1),
        (rf"{count} (?:years? ago|ann[io] fa)", 0),
        (rf"vor {count} jahr(?:en)?", 0),
        (rf"il y a {count} an(?:s|nees?)?", 0),
        (rf"hace {count} anos?", 0),
        (r"(?<![\d.-])(?P<said>(?:19|20)\d\d)(?![./-]?\d|\s?[€$£%]|\s(?:euro|eur|dollar))", 0),
    )
    return [(re.compile(rf"(?<!\w)(?:{text})(?!\w)", re.IGNORECASE), back) for text, back in written]
