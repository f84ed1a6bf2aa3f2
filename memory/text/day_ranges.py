"""Ranges of days in a question: "Nov 3-7", "3.–7.11.", "3/11–7/11", "du 3 au 7 novembre", "between 30 October and 2 November 2026"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from functools import cache

from msgspec import Struct

from memory.text import stop_words
from memory.text.calendar_names import DAY_ENDING, MONTHS, ONE_MONTH
from memory.text.figure_dates import Order, order_of, year_of
from memory.text.positions import overlaps
from memory.text.times import asks_what
from memory.text.year_words import SaidYear, plain_words, said_years, year_beside

_LEAP_YEARS = 8
"""Years within which each day of the calendar comes again."""
_FIGURES = re.compile(r"\d")
_LONGEST_BARE = timedelta(days=92)
_WHOLES = frozenset({2, 3, 4, 5, 6, 8, 10, 16})
_RATIOS = frozenset({"ratio", "ratios", "odds", "scale", "verhaltnis", "rapport", "proporcion", "rapporto"})
_WERE = frozenset({"did", "were", "war", "waren", "habe", "haben"})
_WORDS = re.compile(r"[^\W\d_]+")
_LEADS = frozenset({"from", "on", "vom", "von", "am", "du", "le", "del", "el", "dal", "il"})


class DayRange(Struct, frozen=True):
    """A range of days in a query: its position, and its first and last day."""

    start: int
    end: int
    first: date
    last: date


def day_ranges(question: str, today: date, order: Order = "unknown") -> list[DayRange]:
    """Return the ranges of days in a query, in order; those without a year have begun. None overlap but such with two meanings.

    ``order`` is that of English questions whose dates have slashes.
    """
    found: list[DayRange] = []
    if len(_FIGURES.findall(question)) <= 1:
        return found
    plain, _ = plain_words(question)
    for pattern in (*_patterns(), *(_patterns_with_slashes() if "/" in plain else ())):
        for match in pattern.finditer(plain):
            start, end = match.span("range")
            if overlaps(found, start, end) or _are_fractions(match):
                continue
            year = year_beside([one for one in said_years(plain) if one.number is None], plain, start, end)
            if year:
                start, end = min(start, year.start), max(end, year.end)
            read = (_days(said, today, year) for said in _readings(match.groupdict(), order_of(question, order)))
            longest = _LONGEST_BARE if _is_bare(match) and not year else timedelta.max
            found += [DayRange(start, end, *days) for days in dict.fromkeys(read) if days and days[1] - days[0] <= longest]
    return sorted(found, key=lambda one: one.start)


@cache
def _patterns() -> Sequence[re.Pattern[str]]:
    """Compile them for the first question with figures.

    "And" joins the ends of a range after a word for "between". Without a year and a last point, figures are one after a word that
    leads to dates: others are versions.
    """
    return [re.compile(text, re.IGNORECASE) for text in _written()]


@cache
def _patterns_with_slashes() -> Sequence[re.Pattern[str]]:
    ends = (("1", _FIRST, _YEAR1), ("2", _LAST, _YEAR2))
    one, other = (rf"{day}/(?P<n{n}>\d{{1,2}})(?:/(?:{year}|(?P<short{n}>\d\d)))?" for n, day, year in ends)
    written = [rf"{before}(?P<slash>){one}{join}{other})(?!/){_END}" for before, join in _JOINS]
    written.append(rf"(?P<range>(?<=\bdu |\bdel|\bdal)\s?{_FIRST}\s(?:au|al)\s{other})(?!/){_END}")
    return [re.compile(text, re.IGNORECASE) for text in written]


_END = r"(?![\w:]|[.,]\d|\s?(?:am|pm|uhr)\b)"
_FIRST, _LAST = r"(?P<d1>\d{1,2})", r"(?P<d2>\d{1,2})"
_YEAR1, _YEAR2 = r"(?P<y1>(?:19|20)\d\d)", r"(?P<y2>(?:19|20)\d\d)"
_JOINS = (
    (
        r"(?P<range>\b(?:between|zwischen|entre|tra|fra)\s(?:the\s|dem\s|el\s|le\s|il\s)?",
        r"\s(?:and|und|et|y|e)\s(?:the\s|dem\s|el\s|le\s|il\s)?",
    ),
    (
        r"(?<![\w./:-])(?P<range>",
        r"(?:\s?(?:[-\u2010-\u2015]|\.\.\.?)\s?|\s(?:to|until|till|through|thru|bis|auf|au|al|a|hasta|fino\sal?|jusqu'au)\s(?:(?:the|zum|dem|den|el)\s)?)",
    ),
)
"""What stands before the first day of a range, and between its ends."""


def _written() -> Iterator[str]:
    leading, th = r"\b(?:on|by|from|am|vom|von)\s+(?P<range>", rf"{DAY_ENDING}?"
    name1, name2 = rf"(?P<m1>{ONE_MONTH})", rf"(?P<m2>{ONE_MONTH})"
    of, of_year = r"\s?(?:(?:of|de|di)\s)?", r"(?:,?\s(?:de\s|del\s)?"
    for before, join in _JOINS:
        yield rf"{before}{_YEAR1}-(?P<n1>\d\d)-{_FIRST}(?:{join}|/){_YEAR2}-(?P<n2>\d\d)-{_LAST}){_END}"
        start, stop = rf"{name1}\.?\s{_FIRST}{th}(?:,?\s{_YEAR1})?", rf"(?:{name2}\.?\s)?{_LAST}{th}(?:,?\s{_YEAR2})?"
        yield rf"{before}{start}{join}{stop}){_END}"
        start, stop = rf"{_FIRST}{th}(?:{of}{name1}\.?{of_year}{_YEAR1})?)?", rf"{_LAST}{th}{of}{name2}\b{of_year}{_YEAR2})?"
        yield rf"{before}{start}{join}{stop}){_END}"
        begin, number2 = rf"{_FIRST}\.(?:\s?(?P<n1>\d{{1,2}})\.(?:\s?(?:{_YEAR1}|(?P<short1>\d\d)))?)?", r"(?P<n2>\d{1,2})"
        numbers = rf"{begin}{join}{_LAST}\.\s?{number2}"
        yield rf"{before}{numbers}\.(?:\s?{_YEAR2}|\s?'?(?P<short2>\d\d))?){_END}"
        yield rf"{leading if before == _JOINS[1][0] else before}{numbers}){_END}"
    yield rf"\b(?:du|del|dal|vom)\s(?P<range>{_FIRST}\.?{_JOINS[1][1]}{_LAST}\.\s?{number2}\.){_END}"


def _is_bare(match: re.Match[str]) -> bool:
    """Return whether these are dates with slashes and without a year, to which no word leads."""
    said = match.groupdict()
    if said.get("slash") is None or said["y1"] or said["y2"] or said["short1"] or said["short2"]:
        return False
    return _LEADS.isdisjoint(match.string[: match.start()].lower().split()[-1:])


def _are_fractions(match: re.Match[str]) -> bool:
    """Return whether dates with slashes are rather fractions or marks out of ten: not if only what was or happened is asked besides."""
    if not _is_bare(match):
        return False
    before, after = match.string[: match.start("range")], match.string[match.end("range") :]
    if not _RATIOS.isdisjoint(before.lower().split()[-1:]):
        return True
    parts = ((int(match["d1"]), int(match["n1"])), (int(match["d2"]), int(match["n2"])))
    if not all(part <= whole and whole in _WHOLES for part, whole in parts):
        return False
    words = _WORDS.findall(f"{before} {after}".lower())
    besides = set(words) - stop_words.of(words)
    return not (asks_what(besides) and (besides or not _WERE.isdisjoint(words)))


def _readings(said: dict[str, str | None], order: Order) -> list[dict[str, str | None]]:
    """Return what a range may mean: with slashes, days and months may be the other way round."""
    if said.get("slash") is None:
        return [said]
    swapped = {**said, "d1": said["n1"], "n1": said["d1"], "d2": said["n2"], "n2": said["d2"]}
    if order != "unknown":
        return [said if order == "day first" else swapped]
    if (said["n1"] == said["n2"]) != (said["d1"] == said["d2"]):
        return [said if said["n1"] == said["n2"] else swapped]
    return [said, swapped]


def _days(said: dict[str, str | None], today: date, year: SaidYear | None) -> tuple[date, date] | None:
    day1, day2 = int(said["d1"] or 0), int(said["d2"] or 0)
    ends = [_month(said, "1"), _month(said, "2")]
    month2 = ends[1] or ends[0] or 0
    month1 = ends[0] or month2
    year1, year2 = _year(said, "1", today), _year(said, "2", today)
    if year and year2 is None:
        year2 = max(1, today.year - year.back)
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


def _year(said: dict[str, str | None], end: str, today: date) -> int | None:
    year, short = said.get(f"y{end}"), said.get(f"short{end}")
    return int(year) if year else year_of(int(short), today) if short else None


def _month(said: dict[str, str | None], end: str) -> int | None:
    name, number = said.get(f"m{end}"), said.get(f"n{end}")
    return MONTHS[name.lower()] if name else int(number) if number else None


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None
