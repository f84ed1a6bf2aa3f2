"""Dates: the day of a note, and the days that a query mentions, also relative ones (see ``memory.text.relative_days``)."""

from __future__ import annotations

import re
from calendar import day_name, month_name, monthrange
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from functools import cache, lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from memory.text.calendar_names import MONTHS, ONE_MONTH, OTHER_WORDS
from memory.text.figure_dates import FigureDate, Order, figure_dates
from memory.text.folding import without_accents
from memory.text.positions import overlaps

if TYPE_CHECKING:
    from memory.text.day_ranges import DayRange
    from memory.text.named_times import NamedTime
    from memory.text.positions import Placed, Timed
    from memory.text.relative_days import Counted

_MONTH = f"({ONE_MONTH})"
_ORDINAL = r"(?:st|nd|rd|th|er|[º°o])"
"""Behind the figure of a day: "31st", "1er", "1º", which is "1o" without its accent."""
_DAY = rf"(\d{{1,2}})(?:{_ORDINAL}|\.)?"
_YEAR = r"((?:19|20)\d\d)"

_IN_NAME = re.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)-(\d\d)(?!\d)")
_LAST = frozenset(
    """
    last past previous letzten letzter vergangenen vorigen dernier derniere passe passee pasado pasada scorso scorsa passato passata
    before vorletzte vorletzten vorletzter vorletztes vorletztem avant antepasado antepasada penultimo penultima prima
    """.split()  # noqa: SIM905 - a list literal of them is three times as long
)
"""Words beside the name of a time by which it is the newest that is over."""
_YEARS = frozenset(
    {"year", "years", "ago", "jahr", "jahres", "jahren", "an", "ans", "annee", "ano", "anos", "hace", "anno", "anni", "fa"}
)
_THIS = frozenset({"this", "diesen", "dieses", "cet", "cette", "este", "esta", "questo", "questa", "quest"})
_PEOPLE = frozenset({"jan", "april", "avril", "june", "august"})
"""Months by whose names people go, too."""
_BESIDE = re.compile(r"\s?[,(]?\s?(?:(?:the|den|dem|le|el|il)\s)?", re.IGNORECASE)
_FULL_YEAR = re.compile(r"(?:19|20)\d\d")
_SINCE = ("since ", "seit ", "depuis ", "desde ", "dal ")
_BOUNDS = frozenset(
    """
    since until till before after seit bis ab vor nach depuis jusqu avant apres desde hasta antes despues dal fino prima dopo
    week woche semaine semana settimana weekend wochenende month monat monats mois mes mese
    """.split()  # noqa: SIM905 - a list literal of them is longer
)
"""Words of ranges with one end that tell nothing else."""
_IN_WORDS = re.compile(r"[^\W_]+")
_NUMBERS = re.compile(r"[\d.]*\d[\d.]*(?:(?:st|nd|rd|th|er)\b)?", re.IGNORECASE)
_LONGEST_SEASON = 92
_SLACK = 3
_UNEVEN = 4
T = TypeVar("T")
P = TypeVar("P", bound="Placed")


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


class TimeWords(Struct, frozen=True):
    """Words of a query, in lower case and without accents, that say which month, season or year it means.

    ``names`` may stand in notes, too ("October", "Sommer"); ``parts`` are those of them that name a part of one ("Ende", "fin"), which
    are in notes of any time; ``beside`` only point at one ("last", "pasado"). ``months`` are those of a month or season as the headers
    of its notes have them.
    """

    names: frozenset[str]
    parts: frozenset[str]
    beside: frozenset[str]
    months: tuple[str, ...]


class DayWords(Struct, frozen=True):
    """What a query says of single days, in figures, with the name of a month or counted from today.

    ``named`` tells whether it names any by other words than notes of that day are indexed with ("3.11.", "yesterday"); ``literals``
    are figures with a year, which notes of other days may have to the letter; ``rest`` is the query without words for single days,
    and without phrases for several. ``exact`` are these days, and ranges of days; ``phrases`` are what it says of them, and ``years``
    those of days with the name of a month. ``itself`` are the days that it counts to where some before and after are meant as well.
    """

    named: bool
    literals: tuple[str, ...]
    rest: str
    exact: tuple[Span, ...]
    phrases: tuple[str, ...]
    years: tuple[str, ...]
    itself: tuple[date, ...]


def day_of(path: str) -> date | None:
    """Return the day in a note's name (``memory/2026-01-26-api.md``), if any."""
    found = _IN_NAME.search(path.rsplit("/", 1)[-1])
    return _date(*found.groups()) if found else None


def header(day: date | None, heading: str) -> str:
    """Return the header that is indexed and embedded with a chunk: its day in several spellings, and its heading."""
    if day is None:
        return heading
    return f"{day:%Y-%m-%d} ({day.day} {month_name[day.month]} {day.year}, {day_name[day.weekday()]}) {heading}".rstrip()


class _WrittenTime(Struct, frozen=True):
    """A day, a month or a year with its name or number in a query, and its position."""

    start: int
    end: int
    first: date
    last: date


class _Read(Struct, frozen=True):
    """What a query says of days: ranges, times of a year, relative dates, and dates in figures and in words.

    ``text`` is the query with days of months in figures and whole names of months; positions are those in it.
    """

    text: str
    ranges: list[DayRange]
    times: list[NamedTime]
    relative: list[Counted]
    figures: list[FigureDate]
    absolute: list[_WrittenTime]


@lru_cache(maxsize=16)
def _read(question: str, today: date, order: Order) -> _Read:
    """Read it once for all that a search asks of a query."""
    from memory.text.bare_weekdays import bare_weekdays, weekday_ranges
    from memory.text.day_lists import day_lists  # these have some hundred patterns, which only a query needs
    from memory.text.day_ranges import day_ranges
    from memory.text.days_in_words import with_days_in_figures
    from memory.text.month_ranges import month_ranges
    from memory.text.named_times import named_times
    from memory.text.open_ranges import joined_ranges, open_ranges
    from memory.text.relative_days import counted
    from memory.text.short_months import with_whole_months

    question = with_whole_months(with_days_in_figures(question))
    ranges = day_ranges(question, today, order)
    rest = _without(question, ranges)
    ranges += [*month_ranges(rest, today), *weekday_ranges(rest, today)]
    rest = _without(question, ranges)
    lists = day_lists(rest, today)
    rest = _without(rest, lists)
    times = named_times(rest, today)
    rest = _without(rest, times)
    relative = counted(rest, today)
    rest = _without(rest, relative)
    figures = figure_dates(rest, today, order)
    rest = _without(rest, figures)
    absolute = _absolute(rest, today)
    relative += bare_weekdays(_without(rest, absolute), today)
    exact: list[Placed] = [*figures, *absolute]
    relative = [one for one in relative if not any(_is_beside(question, one, other) for other in exact)]
    found: list[Timed] = [*times, *relative, *figures, *absolute]
    if joined := joined_ranges(question, found):
        ranges += joined
        times, relative = _not_in(joined, times), _not_in(joined, relative)
        figures, absolute = _not_in(joined, figures), _not_in(joined, absolute)
    times, open_times = open_ranges(question, times, today)
    relative, open_relative = open_ranges(question, relative, today)
    figures, open_figures = open_ranges(question, figures, today)
    absolute, open_absolute = open_ranges(question, absolute, today)
    begun = [*open_times, *open_relative, *open_figures, *open_absolute]
    ranges += begun
    relative = _not_in(begun, relative)
    return _Read(question, ranges, times, relative, lists + figures, absolute)


def _not_in(ranges: Sequence[DayRange], found: Sequence[P]) -> list[P]:
    """Return the phrases found that are no parts of ranges."""
    return [one for one in found if not overlaps(ranges, one.start, one.end)]


def _is_beside(question: str, one: Placed, other: Placed) -> bool:
    """Return whether only a comma and an article are between two phrases: "Tuesday, the 3rd of November" is one day."""
    first, second = (one, other) if one.start < other.start else (other, one)
    return bool(_BESIDE.fullmatch(question, first.end, second.start))


def spans(question: str, *, today: date, order: Order = "unknown", widely: bool = False) -> list[Span]:
    """Return the days in a query, absolute or relative to ``today``. Dates without a year are in the past.

    ``order`` is that of figures with slashes in English. ``widely`` adds some days to times whose ends are not sharp.
    """
    read = _read(question, today, order)
    found = [Span(one.first, one.last) for one in read.absolute]
    found += [Span(day, day) for one in read.figures for day in one.days]
    found += [Span(one.first, one.last) for one in read.relative]
    slack = timedelta(days=_SLACK if widely else 0)
    found += [Span(one.first - slack, one.last + slack) if one.vague else Span(one.first, one.last) for one in read.times]
    found += [Span(one.first, one.last) for one in read.ranges]
    return list(dict.fromkeys(found))


def time_words(question: str, *, today: date, order: Order = "unknown") -> TimeWords:
    """Return the words by which a query names months, seasons, years and ranges of days."""
    read = _read(question, today, order)
    ranges = [(Span(one.first, one.last), read.text[one.start : one.end]) for one in read.ranges]
    phrases = [(Span(one.first, one.last), read.text[one.start : one.end]) for one in read.relative if one.name]
    phrases += [(Span(one.first, one.last), read.text[one.start : one.end]) for one in read.absolute if one.first < one.last]
    words = {word for _, phrase in phrases for word in _words_of(phrase)}
    named = MONTHS.keys() | {one.name for one in read.relative}
    names = {word for word in words if word in named or word.isdecimal()}
    times = [one for one in read.times if one.first != one.last]
    names = names.union(*(one.names - _LAST - _THIS for one in times))
    beside = (words & (_LAST | _THIS | _BOUNDS)).union(*(_words_of(read.text[one.start : one.end]) for one in times))
    ranged = {word for _, phrase in ranges for word in _words_of(phrase)}
    beside |= ranged & (_LAST | _THIS | _YEARS | _BOUNDS)
    several = [span for span, _ in (*phrases, *ranges)] + [Span(one.first, one.last) for one in times]
    return TimeWords(
        names=frozenset(names | (ranged - beside)),
        parts=frozenset[str]().union(*(one.parts for one in times)),
        beside=frozenset(beside - names),
        months=tuple(dict.fromkeys(month for span in several for month in _months_of(span))),
    )


def _words_of(phrase: str) -> list[str]:
    return _IN_WORDS.findall(without_accents(phrase).lower())


def _months_of(span: Span) -> list[str]:
    """Return the months of a span, or none of one that is longer than a season."""
    if span.days > _LONGEST_SEASON:
        return []
    first = span.first.year * 12 + span.first.month - 1
    return [month_name[number % 12 + 1] for number in range(first, span.last.year * 12 + span.last.month)]


def spelt_out(question: str, *, today: date, order: Order = "unknown") -> str:
    """Replace each relative date by the day in the spelling in which notes of that day are indexed, and each in figures by day and month.

    Phrases for several days are removed: their words ("last", "week") are in many notes, and so are the figures of ranges. Seasons and
    months, which notes may have, too, stay.
    """
    read = _read(question, today, order)
    question = _without_figures(read.text, read.ranges)
    pieces, end = [], 0
    for one in sorted(_replaced(read), key=lambda one: one.start):
        if isinstance(one, FigureDate):
            said = " ".join(f"{day.day} {month_name[day.month]}" for day in one.days)
        else:
            said = header(one.first, "") if one.first == one.last else " "
        pieces += [question[end : one.start], said]
        end = one.end
    text = "".join(pieces) + question[end:]
    return _in_figures(text) if any(one.first == one.last for one in read.absolute) else text


def _in_figures(question: str) -> str:
    """Write the days of months in a query as notes of these days are indexed: "31" for "31st"."""
    return _ordinals().sub("", question)


@cache
def _ordinals() -> re.Pattern[str]:
    return re.compile(rf"(?<=\d){_ORDINAL}(?!\w)", re.IGNORECASE)


def day_words(question: str, *, today: date, order: Order = "unknown") -> DayWords:
    """Return what a query says of single days, and the query without it."""
    read = _read(question, today, order)
    written = [one for one in read.absolute if one.first == one.last]
    counted = [one.first for one in read.relative if one.first == one.last]
    counted += [one.first for one in read.times if one.first == one.last]
    figures = [day for one in read.figures for day in one.days]
    exact = [Span(day, day) for day in (*(one.first for one in written), *counted, *figures)]
    said: list[Placed] = [*written, *read.figures, *read.ranges]
    return DayWords(
        named=bool(read.figures or counted),
        literals=tuple(read.text[one.start : one.end] for one in read.figures if one.whole),
        rest=_without(_without_figures(read.text, read.ranges), [*_replaced(read), *written]),
        exact=tuple(dict.fromkeys([*exact, *(Span(one.first, one.last) for one in read.ranges)])),
        phrases=tuple(read.text[one.start : one.end] for one in said),
        years=tuple(dict.fromkeys(year for one in written for year in _FULL_YEAR.findall(read.text, one.start, one.end))),
        itself=tuple(one.itself for one in read.relative if one.itself),
    )


def _replaced(read: _Read) -> list[Counted | FigureDate | NamedTime]:
    """Return the phrases of a query whose words notes of that time need not have."""
    times = (one for one in read.times if one.first == one.last)
    return [*(one for one in read.relative if not one.name), *times, *read.figures]


def _without_figures(question: str, ranges: Iterable[DayRange]) -> str:
    """Return a query with blanks in the place of the figures of ranges."""
    for one in ranges:
        phrase = _NUMBERS.sub(lambda found: " " * len(found[0]), question[one.start : one.end])
        question = f"{question[: one.start]}{phrase}{question[one.end :]}"
    return question


def _without(question: str, phrases: Iterable[Placed]) -> str:
    """Return a query with blanks in the place of phrases."""
    for one in phrases:
        question = f"{question[: one.start]}{' ' * (one.end - one.start)}{question[one.end :]}"
    return question


@cache
def _written() -> tuple[tuple[re.Pattern[str], tuple[int, int, int]], ...]:
    """Return how days, months and years are written, and which groups are year, month and day (0: none). Compiled for the first search."""
    alone = (
        r"\b(?:in|during|last|past|previous|this|since|of|im|seit|letzten|vergangenen|vorigen|diesen|en|cet|au mois de"
        rf"|depuis|desde|a|nel|da|lo scorso|questo) {_MONTH}(?: dernier| passe| pasado| scorso| passato)?\b"
    )
    after = rf"\b{_MONTH} (?:dernier|pasado|scorso|passato)\b"
    return (
        (re.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)(?![\d-])"), (1, 2, 0)),
        (re.compile(r"(?<![\w./-])(0?[1-9]|1[0-2])/((?:19|20)\d\d)(?![\w/-])"), (2, 1, 0)),
        (
            re.compile(rf"(?<![\d.]){_DAY}(?:(?: of| de| di)? |(?<=\.)){_MONTH}\b(?:,?(?: de| del)? {_YEAR})?", re.IGNORECASE),
            (3, 2, 1),
        ),
        (re.compile(rf"\b{_MONTH}\.? {_DAY}\b(?:,? {_YEAR})?(?!\d)", re.IGNORECASE), (3, 1, 2)),
        (re.compile(rf"\b{_MONTH}\.?,?(?: of| de| del)? {_YEAR}\b", re.IGNORECASE), (2, 1, 0)),
        (re.compile(alone, re.IGNORECASE), (0, 1, 0)),
        (re.compile(after, re.IGNORECASE), (0, 1, 0)),
        (re.compile(rf"\A\W*(?!(?:{'|'.join(OTHER_WORDS | _PEOPLE)})\b){_MONTH}\W*\Z", re.IGNORECASE), (0, 1, 0)),
        (re.compile(rf"\b(?:in|during|of|since|throughout|seit|en|depuis|desde|nel|dal) {_YEAR}\b", re.IGNORECASE), (1, 0, 0)),
    )


def _absolute(question: str, today: date) -> list[_WrittenTime]:
    from memory.text.year_words import plain_words

    found: list[_WrittenTime] = []
    rest, words = plain_words(question)
    if words.isdisjoint(MONTHS) and not any(character.isdecimal() for character in rest):
        return found
    for pattern, order in _written():
        for match in pattern.finditer(rest):
            year, month, day = (match[group] if group else None for group in order)
            span = _span(year, month, day, today)
            if span and not year and not day and today in span and not _LAST.isdisjoint(match[0].lower().split()):
                span = _span(str(today.year - 1), month, day, today)
            if span and not day and match[0].lower().startswith(_SINCE):
                span = Span(span.first, max(span.last, today))
            if span:
                found.append(_WrittenTime(match.start(), match.end(), span.first, span.last))
        rest = pattern.sub(lambda phrase: " " * len(phrase[0]), rest)
    return found


def _span(year: str | None, month: str | None, day: str | None, today: date) -> Span | None:
    if month is None:
        assert year is not None
        return Span(date(int(year), 1, 1), date(int(year), 12, 31))
    number = int(month) if month.isdigit() else MONTHS[month.lower()]
    if not 1 <= number <= 12:  # noqa: PLR2004 - months of a year
        return None
    this = int(year) if year else today.year
    if day:
        exact = _date(str(this), str(number), day)
        if exact and not year and exact > today:
            exact = _date(str(this - 1), str(number), day)
        return Span(exact, exact) if exact else None
    if not year and number > today.month:
        this = max(1, this - 1)
    return Span(date(this, number, 1), date(this, number, monthrange(this, number)[1]))


def day_after(day: date) -> date:
    """Return the next day, or the calendar's last one."""
    return day if day == date.max else day + timedelta(days=1)


def evenly(items: Sequence[T], most: int) -> Sequence[T]:
    """Choose at most ``most`` items from all of a sequence, in their order."""
    count = min(most, len(items))
    return [items[(2 * place + 1) * len(items) // (2 * count)] for place in range(count)]


def spread(rows: Iterable[tuple[date | str, int]], most: int) -> list[int]:
    """Choose at most ``most`` chunks of several days, given as days and ids: of days from all of the time, and of each as many."""
    by_day: dict[date | str, list[int]] = {}
    for day, id_ in rows:
        by_day.setdefault(day, []).append(id_)
    chosen = [by_day[day] for day in evenly(sorted(by_day, key=str), most)]
    return [id_ for turn in zip_longest(*chosen) for id_ in turn if id_ is not None][:most]


def of_each_day(days: int, most: int) -> int:
    """Return how many chunks of each of so many days ``spread`` needs: some days have fewer than their share."""
    return -(-most // max(1, min(days, most))) * _UNEVEN


def _date(year: str, month: str, day: str) -> date | None:
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None
