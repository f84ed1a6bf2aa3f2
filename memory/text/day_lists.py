"""Several days of one month in a question: "der 3. und der 7. November", "November 3rd, 5th and 7th"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from functools import cache, partial

from memory.text.calendar_names import DAY_ENDING, MONTHS, ONE_MONTH, OTHER_WORDS
from memory.text.figure_dates import FigureDate
from memory.text.positions import overlaps
from memory.text.year_words import Days, newest, plain_words, said_years, year_beside

_DAYS = re.compile(r"\d+")


def day_lists(question: str, today: date) -> list[FigureDate]:
    """Return the lists of days of a month in a query, in order; of days without a year the first is in the past. None overlap."""
    found: list[FigureDate] = []
    if len(_DAYS.findall(question)) <= 1:
        return found
    plain, _ = plain_words(question)
    for pattern in _patterns():
        for match in pattern.finditer(plain):
            start, end = match.span()
            if overlaps(found, start, end) or _is_another_word(match):
                continue
            said = match.groupdict()
            month = MONTHS[said["name"].lower()] if said.get("name") else int(said["number"])
            within = partial(_in_year, month, [int(day) for day in _DAYS.findall(said["days"])])
            year = year_beside(said_years(plain), plain, start, end)
            first = year.days_of(within, today) if year else newest(within, today)
            if first:
                start, end = (min(start, year.start), max(end, year.end)) if year else (start, end)
                found.append(FigureDate(start, end, _dates(first[0].year, month, said["days"]), whole=False))
    return sorted(found, key=lambda one: one.start)


def _is_another_word(match: re.Match[str]) -> bool:
    said = match.groupdict()
    return said.get("name") in OTHER_WORDS and not said["th"] and not said["the"]


def _dates(year: int, month: int, days: str) -> tuple[date, ...]:
    return tuple(dict.fromkeys(date(year, month, int(day)) for day in _DAYS.findall(days)))


def _in_year(month: int, days: Sequence[int], year: int) -> Days | None:
    try:
        return date(year, month, min(days)), date(year, month, max(days))
    except ValueError:
        return None


@cache
def _patterns() -> Sequence[re.Pattern[str]]:
    """Compile them for the first question with two numbers. After a month, what comes then shows that the last one is a day."""
    the, th = r"(?:(?:on|the|de[rnm]|am|le|el|il)\s)?", DAY_ENDING
    first, other = rf"(?P<the>(?:on|the|de[rnm]|am|le|el|il)\s)?\d{{1,2}}(?P<th>{th})?", rf"{the}\d{{1,2}}"
    also, both = rf"(?:\s?,\s{other}{th}?)*", r"\s?,?\s(?:and|und|et|y|e|or|oder|ou|o)\s"
    name = rf"(?P<name>{ONE_MONTH})(?!\w)"
    written = (
        rf"(?<![\w.,/-])(?P<days>{first}{also}{both}{other}{th}?)\s(?:of\s|de\s|di\s)?{name}",
        rf"(?<!\w){name}\.?\s(?P<days>{first}{also}{both}{other}(?:{th}|(?=,?\s(?:19|20)\d\d|\s?[?!.;]|\s?$)))(?![\w:%]|[.,]\d)",
        rf"(?<![\w.,/-])(?P<days>{the}\d{{1,2}}\.{also}\s(?:und|oder)\s{other}\.)\s?(?P<number>\d{{1,2}})\.(?!\d)",
    )
    return [re.compile(text, re.IGNORECASE) for text in written]
