"""Times within a year in a question, with the year in words: "October last year", "im Sommer vor zwei Jahren"."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import date
from functools import cache, partial

from msgspec import Struct

from memory.text.calendar_names import MONTHS, ONE_MONTH, ONE_SEASON, SEASONS, season_of
from memory.text.folding import without_accents
from memory.text.year_words import Days, said_years, year_beside

Meaning = Callable[[re.Match[str], int], Days | None]
"""What a phrase means in a year."""

_WORDS = re.compile(r"[^\W_]+")
_KEYS = MONTHS.keys() | SEASONS.keys()
"""Words of which a question has one that names such a time."""
_OTHER_WORDS = frozenset({"may", "march", "mar", "fall", "mai", "mars", "sept", "ete"})
"""Names that are common words in one of the languages: they need a word that leads to a time, or a capital letter."""


class NamedTime(Struct, frozen=True):
    """A time in a query: its position, its first and last day, and the words of it that notes of that time may have, too.

    These are in lower case and without accents.
    """

    start: int
    end: int
    first: date
    last: date
    names: frozenset[str]


def named_times(question: str, today: date) -> list[NamedTime]:
    """Return the times within a year in a query whose year is counted in words, in order. None overlap."""
    found: list[NamedTime] = []
    plain = without_accents(question).replace("’", "'")
    if _KEYS.isdisjoint(_WORDS.findall(plain.lower())):
        return found
    years = [one for one in said_years(plain) if one.number is None]
    if not years:
        return found
    for pattern, meaning in _patterns():
        for match in pattern.finditer(plain):
            year = None if _is_another_word(match) else year_beside(years, plain, *match.span())
            days = year.days_of(partial(meaning, match), today) if year else None
            if year and days:
                start, end = min(match.start(), year.start), max(match.end(), year.end)
                if not any(start < one.end and one.start < end for one in found):
                    found.append(NamedTime(start, end, *days, _names_of(plain[start:end])))
    return sorted(found, key=lambda one: one.start)


def _is_another_word(match: re.Match[str]) -> bool:
    name = match["name"]
    leads = match.groupdict().get("lead") or match.groupdict().get("day")
    return name in _OTHER_WORDS and not leads and match.start() > 0


def _names_of(phrase: str) -> frozenset[str]:
    return frozenset(word for word in _WORDS.findall(phrase.lower()) if word in MONTHS or word in SEASONS)


@cache
def _patterns() -> Sequence[tuple[re.Pattern[str], Meaning]]:
    """Compile them for the first question with such a name."""
    lead = r"(?P<lead>\b(?:in|during|since|of|until|im|seit|bis|en|au|cet|nel|nell'|l'|d')\s?(?:the\s)?)?"
    day = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|\.)?"
    written = (
        (rf"(?<![\d.]){day}(?:\s(?:of|de|di|du))?\s(?P<name>{ONE_MONTH})", _day),
        (rf"\b(?P<name>{ONE_MONTH})\.?\s{day}(?!\d)", _day),
        (rf"{lead}\b(?P<name>{ONE_MONTH})\b", _month),
        (rf"{lead}\b(?P<name>{ONE_SEASON})\b", _season),
    )
    return [(re.compile(text, re.IGNORECASE), meaning) for text, meaning in written]


def _day(match: re.Match[str], year: int) -> Days | None:
    month, day = MONTHS[match["name"].lower()], int(match["day"])
    return (date(year, month, day),) * 2 if 1 <= day <= monthrange(year, month)[1] else None


def _month(match: re.Match[str], year: int) -> Days:
    month = MONTHS[match["name"].lower()]
    return date(year, month, 1), date(year, month, monthrange(year, month)[1])


def _season(match: re.Match[str], year: int) -> Days:
    return season_of(year, SEASONS[match["name"].lower()])
