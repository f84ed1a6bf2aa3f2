"""Times within a year in a question: "October last year", "im Sommer vor zwei Jahren", "early November"."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date
from functools import cache, partial

from msgspec import Struct

from memory.text import parts_of_months
from memory.text.calendar_names import (
    DAY_ENDING,
    DAYS,
    MONTHS,
    ONE_MONTH,
    ONE_SEASON,
    OTHER_WORDS,
    SEASONS,
    month_of,
    season_of,
)
from memory.text.halves_and_quarters import KEYS as HALF_AND_QUARTER_KEYS
from memory.text.halves_and_quarters import halves_and_quarters
from memory.text.parts_of_months import PARTS
from memory.text.positions import overlaps
from memory.text.weekdays_of_weeks import weekdays_of_weeks
from memory.text.weeks import CALENDAR_WEEK_KEYS, WEEK_OF_MONTH_KEYS, calendar_weeks, weeks_of_months
from memory.text.year_words import Days, Meaning, Rule, SaidYear, marked, newest, plain_words, said_years, year_beside

_VAGUE, _COUNTED = {"part", "nth"}, {"part", "nth", "number"}
"""Groups of patterns whose times have no sharp ends, and whose words may be in notes of any time."""
_SINCE = ("since", "seit")
_WORDS, _YEAR = re.compile(r"[^\W_]+"), re.compile(r"(?:19|20)\d\d")


class NamedTime(Struct, frozen=True):
    """A time in a query: its position, its first and last day, and the words of it that notes of that time may have, too.

    These are in lower case and without accents; ``parts`` are those that name a part of it, which notes of any time may have.
    ``vague`` tells that its ends are not sharp, as those of a part of a month.
    """

    start: int
    end: int
    first: date
    last: date
    names: frozenset[str]
    parts: frozenset[str] = frozenset()
    vague: bool = False


def named_times(question: str, today: date) -> list[NamedTime]:
    """Return the times within a year in a query, in order; those without a year have begun. None overlap."""
    found: list[NamedTime] = []
    plain, words = plain_words(question)
    years: Sequence[SaidYear] | None = None
    text = plain
    if not words.isdisjoint(DAYS):
        singles = weekdays_of_weeks(plain, today)
        found = [NamedTime(start, end, day, day, frozenset()) for start, end, day in singles]
    for keys, rules in _TOPICS:
        if words.isdisjoint(keys):
            continue
        if years is None:
            years = said_years(plain)
            text = marked(plain, years)
        for pattern, meaning, alone in _compiled(rules):
            for match in pattern.finditer(text) if alone or years else ():
                time = _read(match, meaning, plain, years, today, alone=alone)
                if time and not overlaps(found, time.start, time.end):
                    found.append(time)
    return sorted(found, key=lambda one: one.start)


def _read(
    match: re.Match[str], meaning: Meaning, plain: str, years: Sequence[SaidYear], today: date, *, alone: bool
) -> NamedTime | None:
    said = match.groupdict()
    if said.get("name") in OTHER_WORDS and not alone and not said.get("lead") and not said.get("day") and match.start() > 0:
        return None
    if said.get("year"):
        year = next((one for one in years if one.end == match.end("year")), None)
    else:
        year = year_beside(years, plain, *match.span())
    within = partial(meaning, match)
    if year and (alone or year.number is None or said.get("season")):
        days = year.days_of(within, today)
    else:
        year, days = None, newest(within, today, over=bool(said.get("over") or said.get("over2"))) if alone else None
    if days is None:
        return None
    if (said.get("lead") or "").lower().startswith(_SINCE):
        days = days[0], max(days[1], today)
    start, end = (min(match.start(), year.start), max(match.end(), year.end)) if year else match.span()
    names, parts = _names_of(plain[start:end]), frozenset[str]()
    if not said.keys().isdisjoint(_COUNTED):
        parts = frozenset(_WORDS.findall(match[0].lower())) - names
    vague = not said.keys().isdisjoint(_VAGUE) and days[0] < days[1]
    return NamedTime(start, end, *days, names | parts, parts=parts if "part" in said else frozenset(), vague=vague)


def _names_of(phrase: str) -> frozenset[str]:
    return frozenset(
        word for word in _WORDS.findall(phrase.lower()) if word in MONTHS or word in SEASONS or _YEAR.fullmatch(word)
    )


@cache
def _compiled(rules: Callable[[], Iterator[Rule]]) -> Sequence[tuple[re.Pattern[str], Meaning, bool]]:
    """Compile them for the first question with one of their words."""
    return [(re.compile(text, re.IGNORECASE), meaning, alone) for text, meaning, alone in rules()]


def _rules_with_a_year() -> Iterator[Rule]:
    lead = r"(?P<lead>\b(?:in|during|since|of|until|the|im|seit|bis|en|au|cet|nel|nell'|l'|d')\s?(?:the\s)?)?"
    day = rf"(?P<day>\d{{1,2}}){DAY_ENDING}?"
    yield rf"(?<![\d.]){day}(?:\s(?:of|de|di|du))?\s(?P<name>{ONE_MONTH})\b", _day, False
    yield rf"\b(?P<name>{ONE_MONTH})\.?\s{day}(?!\d)", _day, False
    yield rf"{lead}\b(?P<name>{ONE_MONTH})\b", _month, False
    not_last = "".join(rf"(?<!\b{word}\s)" for word in ("last", "past", "letzten", "vergangenen", "vorigen"))
    yield rf"{lead}{not_last}\b(?P<name>(?P<season>{ONE_SEASON}))\b", _season, False


def _day(match: re.Match[str], year: int) -> Days | None:
    month, day = MONTHS[match["name"].lower()], int(match["day"])
    return (date(year, month, day),) * 2 if 1 <= day <= monthrange(year, month)[1] else None


def _month(match: re.Match[str], year: int) -> Days:
    return month_of(year, MONTHS[match["name"].lower()])


def _season(match: re.Match[str], year: int) -> Days:
    return season_of(year, SEASONS[match["name"].lower()])


_TOPICS: Sequence[tuple[Collection[str], Callable[[], Iterator[Rule]]]] = (
    (HALF_AND_QUARTER_KEYS, halves_and_quarters),
    (PARTS, parts_of_months.rules),
    (WEEK_OF_MONTH_KEYS, weeks_of_months),
    (CALENDAR_WEEK_KEYS, calendar_weeks),
    (MONTHS.keys() | SEASONS.keys(), _rules_with_a_year),
)
"""Rules, and words of which a question to which they apply has one."""
