"""Ranges of days in a question: "Nov 3-7", "3.–7.11.", "du 3 au 7 novembre", "between 30 October and 2 November 2026"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache

from msgspec import Struct

from memory.text.calendar_names import MONTHS, ONE_MONTH
from memory.text.figure_dates import year_of
from memory.text.folding import without_accents

_LEAP_YEARS = 8
"""Years within which each day of the calendar comes again."""
_FIGURES = re.compile(r"\d")


class DayRange(Struct, frozen=True):
    """A range of days in a query: its position, and its first and last day."""

    start: int
    end: int
    first: date
    last: date


def day_ranges(question: str, today: date) -> list[DayRange]:
    """Return the ranges of days in a query, in order; those without a year have begun. None overlap."""
    found: list[DayRange] = []
    if len(_FIGURES.findall(question)) <= 1:
        return found
    plain = without_accents(question)
    for pattern in _patterns():
        for match in pattern.finditer(plain):
            start, end = match.span("range")
            days = _days(match.groupdict(), today)
            if days is not None and not any(start < one.end and one.start < end for one in found):
                found.append(DayRange(start, end, *days))
    return sorted(found, key=lambda one: one.start)


@cache
def _patterns() -> Sequence[re.Pattern[str]]:
    """Compile them for the first question with figures.

    "And" joins the ends of a range after a word for "between". Without a year and a last point, figures are one after a word that
    leads to dates: others are versions.
    """
    return [re.compile(text, re.IGNORECASE) for text in _written()]


def _written() -> Iterator[str]:
    between = r"\b(?:between|zwischen|entre|tra|fra)\s(?:the\s|dem\s|el\s|le\s|il\s)?"
    leading = r"\b(?:on|by|from|am|vom|von)\s+"
    free, end = r"(?<![\w./:-])", r"(?![\w:]|[.,]\d|\s?(?:am|pm|uhr)\b)"
    first, last = r"(?P<d1>\d{1,2})", r"(?P<d2>\d{1,2})"
    th = r"(?:st|nd|rd|th|er|\.)?"
    year1, year2 = r"(?P<y1>(?:19|20)\d\d)", r"(?P<y2>(?:19|20)\d\d)"
    name1, name2 = rf"(?P<m1>{ONE_MONTH})", rf"(?P<m2>{ONE_MONTH})"
    of, of_year = r"\s?(?:(?:of|de|di)\s)?", r"(?:,?\s(?:de\s|del\s)?"
    to = r"(?:\s?[-\u2010-\u2015]\s?|\s(?:to|until|till|through|thru|bis|au|al|a)\s(?:the\s|zum\s|dem\s)?)"
    both = r"\s(?:and|und|et|y|e)\s(?:the\s|dem\s|el\s|le\s|il\s)?"
    for before, join in ((between, both), (free, to)):
        yield rf"{before}(?P<range>{year1}-(?P<n1>\d\d)-{first}{join}{year2}-(?P<n2>\d\d)-{last}){end}"
        yield rf"{before}(?P<range>{name1}\.?\s{first}{th}(?:,?\s{year1})?{join}(?:{name2}\.?\s)?{last}{th}(?:,?\s{year2})?){end}"
        start, stop = rf"{first}{th}(?:{of}{name1}\.?{of_year}{year1})?)?", rf"{last}{th}{of}{name2}\b{of_year}{year2})?"
        yield rf"{before}(?P<range>{start}{join}{stop}){end}"
        numbers = rf"{first}\.(?:\s?(?P<n1>\d{{1,2}})\.(?:\s?{year1})?)?{join}{last}\.\s?(?P<n2>\d{{1,2}})"
        yield rf"{before}(?P<range>{numbers}\.(?:\s?{year2}|\s?'?(?P<short>\d\d))?){end}"
        yield rf"{leading if before == free else before}(?P<range>{numbers}){end}"


def _days(said: dict[str, str | None], today: date) -> tuple[date, date] | None:
    day1, day2 = int(said["d1"] or 0), int(said["d2"] or 0)
    ends = [_month(said, "1"), _month(said, "2")]
    month2 = ends[1] or ends[0] or 0
    month1 = ends[0] or month2
    short = said.get("short")
    year1 = int(said.get("y1") or 0) or None
    year2 = int(said.get("y2") or 0) or (year_of(int(short), today) if short else None)
    turns = (month2, day2) <= (month1, day1)
    if turns and month1 == month2 and year1 is None:
        return None
    if year1 is None and year2 is not None:
        year1 = year2 - turns
    years = [year1] if year1 is not None else range(today.year, max(0, today.year - _LEAP_YEARS - 1), -1)
    for one in years:
        first, last = _date(one, month1, day1), _date(year2 or one + turns, month2, day2)
        if first and last and first < last and (year1 is not None or first <= today):
            return first, last
    return None


def _month(said: dict[str, str | None], end: str) -> int | None:
    name, number = said.get(f"m{end}"), said.get(f"n{end}")
    return MONTHS[name.lower()] if name else int(number) if number else None


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
