"""Ranges of months in a question: "from September to November", "September bis November 2025", "entre mars et mai"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import cache

from memory.text.calendar_names import MONTHS, ONE_MONTH, OTHER_WORDS, month_of
from memory.text.day_ranges import DayRange
from memory.text.positions import overlaps
from memory.text.year_words import Days, plain_words, said_years, year_beside


def month_ranges(question: str, today: date) -> list[DayRange]:
    """Return the ranges of months in a query, in order; the last month of those without a year has begun. None overlap."""
    found: list[DayRange] = []
    plain, words = plain_words(question)
    if words.isdisjoint(MONTHS):
        return found
    for pattern in _patterns():
        for match in pattern.finditer(plain):
            start, end = match.start("range") if match["lead"] is None else match.start("lead"), match.end()
            bare = match["m1"] in OTHER_WORDS and not match["lead"] and start > 0
            if bare or overlaps(found, start, end):
                continue
            number = int(match["y2"]) if match["y2"] else None
            if number is None and not match["y1"]:
                years = [one for one in said_years(plain) if one.number is None]
                year = year_beside(years, plain, start, end)
                if year:
                    start, end, number = min(start, year.start), max(end, year.end), today.year - year.back
            days = _days(MONTHS[match["m1"].lower()], MONTHS[match["m2"].lower()], int(match["y1"] or 0) or None, number, today)
            if days:
                found.append(DayRange(start, end, *days))
    return sorted(found, key=lambda one: one.start)


def _days(first: int, last: int, year1: int | None, year2: int | None, today: date) -> Days | None:
    turns = last < first
    if year2 is None:
        year2 = year1 + turns if year1 is not None else today.year - (last > today.month)
    if year1 is None:
        year1 = year2 - turns
    if (year1, first) >= (year2, last) or year1 < 1:
        return None
    return month_of(year1, first)[0], month_of(year2, last)[1]


@cache
def _patterns() -> Sequence[re.Pattern[str]]:
    """Compile them for the first question with two months. "And" joins the ends after a word for "between"."""
    ends = [rf"(?P<m{n}>{ONE_MONTH})\b\.?(?:,?\s(?:de\s|del\s|of\s)?(?P<y{n}>(?:19|20)\d\d)(?!\d))?" for n in (1, 2)]
    leads = r"(?:(?P<lead>\b(?:from|between|von|vom|zwischen|de|desde|du|entre|da|dal|tra|fra))\s|(?<!\w))"
    between = r"(?P<lead>\b(?:between|zwischen|entre|tra|fra))\s"
    to = r"(?:\s?[-\u2010-\u2015]\s?|\s(?:to|until|till|through|thru|bis|au|al?|hasta|fino\sa|jusqu'(?:en|a))\s(?:zum\s)?)"
    both = r"\s(?:and|und|et|y|e)\s"
    return [
        re.compile(rf"{before}(?P<range>{ends[0]}{join}{ends[1]})", re.IGNORECASE)
        for before, join in ((between, both), (leads, to))
    ]
