"""Weeks, weekends and days of weeks in a question: "first week of November", "zweite Novemberwoche", "last Friday in May", "KW 45"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta

from memory.text.calendar_names import DAYS, MONTHS, ONE_DAY, ONE_MONTH, month_of
from memory.text.year_words import MARKED, Days, Rule

NTH = {
    word: number
    for number, words in enumerate(
        (
            "last final letzte letzten letzter letztem letztes derniere dernier ultima ultimo",
            "first 1st 1 erste ersten erster erstem erstes premiere premier 1re 1ere 1er primera primero primer prima primo",
            "second 2nd 2 zweite zweiten zweiter zweitem zweites deuxieme seconde second 2e 2eme segunda segundo seconda secondo",
            "third 3rd 3 dritte dritten dritter drittem drittes troisieme 3e 3eme tercera tercero tercer terza terzo",
            "fourth 4th 4 vierte vierten vierter viertem viertes quatrieme 4e 4eme cuarta cuarto quarta quarto",
            "fifth 5th 5 funfte funften funfter funftem funftes cinquieme 5e 5eme quinta quinto",
        )
    )
    for word in words.split()
}
"""How weeks of a month are counted; 0 is the last one."""
ONE_NTH = rf"(?<!\w)(?P<nth>{'|'.join(sorted(NTH, key=len, reverse=True))})"
WEEK_OF_MONTH_KEYS = NTH.keys()
_WEEK = "week woche semaine semana settimana"
_WEEKS = "weeks wochen semaines semanas settimane kws"
CALENDAR_WEEK_KEYS = frozenset(
    [
        *f"{_WEEK} {_WEEKS} kw kalenderwoche".split(),
        *(f"kw{week}" for week in range(1, 54)),
        *(f"w{week:02}" for week in range(1, 54)),
    ]
)
_NOT_AFTER = "a per each every this last next pro jede diese nachste par chaque cette cada esta ogni questa pregnancy training"
_NOT_BEFORE = (
    r"(?:minut|hour|stunde|heure|hora|ore\b|euro|dollar|pound|franc|day|tage|jour|dia|giorn|times|mal\b|fois|vece|volt|people|person|leute"
    r"|k[mg]\b|percent|prozent)"
)
_SUNDAY, _SATURDAY = 7, 5


def weeks_of_months() -> Iterator[Rule]:
    """Return how weeks, weekends and days of the week are counted in a month."""
    name = rf"(?P<name>{ONE_MONTH})"
    weekend = r"week-?end|wochenende|fin\sde\ssemana|fine\ssettimana"
    unit = rf"(?P<unit>{weekend}|{_WEEK.replace(' ', '|')}|{ONE_DAY})s?"
    of = r"(?:of\s|in\s|im\s|des\s|vom\s|von\s|en\s|d(?:e|i|u|el)\s(?:(?:mois|mes|mese)\s)?(?:d(?:e|i)\s|d')?|d'|a\s)"
    yield rf"{ONE_NTH}[.ªº]?\s(?:full\s)?{unit}\s{of}{name}(?:e?s)?(?!\w)", _in_month, True
    yield rf"{ONE_NTH}\.?\s{name}-?(?P<unit>wochenende|woche|{ONE_DAY})[ns]?(?!\w)", _in_month, True


def calendar_weeks() -> Iterator[Rule]:
    """Return how weeks of the calendar are numbered. What else has weeks, as a plan does, is named after the number."""
    before = r"(?<![\w.-])" + "".join(rf"(?<!\b{word}\s)" for word in _NOT_AFTER.split())
    number = r"(?P<number>\d{1,2})"
    to = (
        r"(?:\s?[-\u2010-\u2015]\s?|\s(?:to|bis|au?|al|(?P<and>and|und|et|y|e))\s)(?:kw\s?|week\s|woche\s)?(?P<number2>\d{1,2})"
    )
    after = rf"(?![\w%€$]|[.,:]\d|\s(?:€|\$|%)|\s{_NOT_BEFORE})"
    end = rf"(?:{to})?{after}"
    other = rf"(?!\s(?:of|into|de|del|della|di|des|der|vom|von)\s(?!{MARKED})|\sd')"
    lead, of = r"(?<!\w)(?:(?:on|am|le|el|il)\s)?", r"(?:(?:of|in|der|in\sder|von|vom|de\sla|della)\s)?(?:the\s)?"
    week = rf"(?:kw\s?|(?:kalenderwoche|calendar\sweek|{_WEEK.replace(' ', '|')})\s)"
    yield rf"{lead}(?P<weekday>{ONE_DAY}),?\s{of}{week}{number}{after}{other}", _day_of_calendar_week, True
    no = r"(?:(?:no\.?|nr\.?|n°|number|nummer|numero)\s?)?"
    yield rf"(?<![\w.-])(?:kw|kalenderwoche|calendar\sweek|semaine\scivile)\s?{no}{number}{end}", _calendar_week, True
    yield rf"{before}(?:{_WEEK.replace(' ', '|')})\s{no}{number}{end}{other}", _calendar_week, True
    yield rf"(?<!\d\s){before}(?:{_WEEKS.replace(' ', '|')})\s{number}{to}{after}{other}", _calendar_week, True
    yield rf"(?<![\w.,]){number}\.\s?(?:kw|kalenderwoche)(?!\w)", _calendar_week, True
    yield rf"(?<![\w.-])(?P<year>{MARKED})-w{number}(?!\w)", _calendar_week, True


def _in_month(match: re.Match[str], year: int) -> Days | None:
    first, last = month_of(year, MONTHS[match["name"].lower()])
    unit, nth = match["unit"].lower(), NTH[match["nth"].lower()]
    if unit in DAYS:
        return _nth_day(first, last, DAYS[unit], nth, days=1)
    if "end" in unit or "fin" in unit:
        return _nth_day(first, last, _SATURDAY, nth, days=2)
    start = first + timedelta(days=7 * (nth - 1)) if nth else last - timedelta(days=6)
    return (start, min(last, start + timedelta(days=6))) if start <= last else None


def _nth_day(first: date, last: date, weekday: int, nth: int, *, days: int) -> Days | None:
    """Return so many days from a weekday of a month on."""
    if nth:
        start = first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (nth - 1))
    else:
        start = last - timedelta(days=(last.weekday() - weekday) % 7)
    return (start, start + timedelta(days=days - 1)) if start <= last else None


def _day_of_calendar_week(match: re.Match[str], year: int) -> Days | None:
    try:
        return (date.fromisocalendar(year, int(match["number"]), DAYS[match["weekday"].lower()] + 1),) * 2
    except ValueError:
        return None


def _calendar_week(match: re.Match[str], year: int) -> Days | None:
    """A week from Monday to Sunday as ISO 8601 numbers it, or several."""
    said = match.groupdict()
    first = int(match["number"])
    last = int(said.get("number2") or first)
    if said.get("and") and last != first + 1:
        last = first
    try:
        days = date.fromisocalendar(year, first, 1), date.fromisocalendar(year, last, _SUNDAY)
    except ValueError:
        return None
    return days if days[0] < days[1] else None
