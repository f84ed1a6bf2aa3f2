"""Whether a text names a day: "3 November", "November 3rd, 2026", "3.11.", "2026-11-03"."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import date
from functools import cache

from memory.text.calendar_names import DAY_ENDING, MONTHS, ONE_MONTH
from memory.text.folding import without_accents

_BEFORE, _AFTER, _FIGURES = 24, 40, "0123456789"
"""Characters around the figure of a day that are looked at, and what may be the rest of a number that is cut there."""


def names_a_day(text: str, days: Collection[date]) -> bool:
    """Return whether a text names one of some days, with its year or with none. With a slash the month may come first."""
    for day in days:
        for found in _figures(day.day).finditer(text):
            start = max(0, found.start() - _BEFORE)
            near = without_accents(text[start : found.end() + _AFTER])
            near = near.lstrip(_FIGURES) if start else near
            if any(_is(day, match.groupdict()) for match in _pattern().finditer(near)):
                return True
    return False


@cache
def _figures(day: int) -> re.Pattern[str]:
    return re.compile(rf"(?<!\d)0?{day}(?!\d)")


def _is(day: date, said: dict[str, str | None]) -> bool:
    year, name = _of(said, "year"), _of(said, "name")
    if year and not str(day.year).endswith(year):
        return False
    one, other = int(_of(said, "one")), MONTHS[name.lower()] if name else int(_of(said, "other"))
    return (one, other) == (day.day, day.month) or (said["slash"] == "/" and (other, one) == (day.day, day.month))


def _of(said: dict[str, str | None], name: str) -> str:
    return next((value for key in (name, *(f"{name}{number}" for number in (2, 3, 4))) if (value := said.get(key))), "")


@cache
def _pattern() -> re.Pattern[str]:
    th, year = rf"(?:{DAY_ENDING}|[º°])?", r"(?:19|20)\d\d"
    written = (
        rf"(?<![\d.])(?P<one>\d{{1,2}}){th}\s?(?:(?:of|de|di)\s)?(?P<name>{ONE_MONTH})\b(?:\.?,?\s(?:del?\s)?(?P<year>{year}))?",
        rf"\b(?P<name2>{ONE_MONTH})\.?\s(?P<one2>\d{{1,2}})(?!\d)(?:{th},?\s(?P<year2>{year}))?",
        rf"(?<![\d./-])(?P<year3>{year})-(?P<other>\d\d)-(?P<one3>\d\d)(?!\d)",
    )
    figures = r"(?<![\d./-])(?P<one4>\d{1,2})(?P<slash>[./])\s?(?P<other2>\d{1,2})(?!\d|[./]\d\b)"
    return re.compile("|".join((*written, rf"{figures}(?:[./]\s?(?P<year4>{year}|\d\d)(?!\d))?")), re.IGNORECASE)
