"""Halves of months and years and quarters of years in a question: "first half of November", "erste Novemberhälfte", "Q3 2026"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta

from memory.text.calendar_names import MONTHS, ONE_MONTH, month_of
from memory.text.weeks import NTH, ONE_NTH
from memory.text.year_words import MARKED, Days, Rule

_HALF = "halfte moitie quinzaine mitad quincena meta quindicina"
KEYS = frozenset(
    [
        *f"half halves {_HALF} halbjahr jahreshalfte semestre quarter quartal trimestre".split(),
        *(f"{name}{half}" for name in MONTHS for half in ("halfte", "haelfte")),
        *(f"{letter}{number}" for letter in "qht" for number in range(1, 5)),
    ]
)
_MIDDLE = 15


def halves_and_quarters() -> Iterator[Rule]:
    """Return how they are written. A half or a quarter of a year needs that year, or stands alone: others are of games and plans."""
    nth = rf"{ONE_NTH}[.ªº]?\s"
    name = rf"(?P<name>{ONE_MONTH})(?!\w)"
    lead = r"(?:(?:in|during|im|en|nel|nella)\s)?(?:the\s|la\s|le\s|el\s|il\s|der\s)?"
    of = r"(?:of\s|des\s|im\s|vom\s|von\s|d(?:e|i|u|el)\s(?:(?:mois|mes|mese)\s(?:d(?:e|i)\s|d'))?|d')?"
    yield rf"{lead}{nth}(?:half|{_HALF.replace(' ', '|')})\s{of}{name.replace('(?!', '(?:e?s)?(?!')}", _half_of_month, True
    yield rf"{lead}{nth}(?P<name>{ONE_MONTH})-?h(?:a|ae)lfte(?!\w)", _half_of_month, True
    of_year = rf"(?:(?:of|des|de|del|dell'|dello|di)\s?)?(?:(?P<year>{MARKED})|(?:the\syear|jahres|l'annee|ano|l'?anno)(?!\w))"
    nth = nth.replace("<nth>", "<number>")
    half = r"(?:half|halbjahr|jahreshalfte|halfte|moitie|semestre|meta|mitad)"
    yield rf"{lead}{nth}{half}\s{of_year}", _half_of_year, True
    yield rf"(?<![\w.-])h(?P<number>[12])(?:\s|\s?[-/]\s?)(?P<year>{MARKED})", _half_of_year, True
    quarter = r"(?:quarter|quartal|trimestre)"
    yield rf"{lead}{nth}{quarter}s?,?\s{of_year}", _quarter, True
    yield rf"{lead}{nth}quartal(?!\w)", _quarter, True
    yield rf"\A\W*(?:the\s|le\s|el\s|il\s)?{nth}{quarter}\W*\Z", _quarter, True
    yield rf"(?<![\w.-])[qt](?P<number>[1-4])(?:\s(?:of\s|de\s|del\s)?|\s?[-/]\s?)(?P<year>{MARKED})", _quarter, True
    yield rf"(?<![\w.-])(?P<year>{MARKED})(?:\s|\s?[-/]\s?)?q(?P<number>[1-4])(?!\w)", _quarter, True
    yield r"\b(?:in|during|since|im|seit|en|nel)\sq(?P<number>[1-4])(?=\W*(?:\Z|[?.!,;]))", _quarter, True


def _half_of_month(match: re.Match[str], year: int) -> Days | None:
    """The first fifteen days, or those after them."""
    first, last = month_of(year, MONTHS[match["name"].lower()])
    middle = first + timedelta(days=_MIDDLE)
    return {1: (first, middle - timedelta(days=1)), 2: (middle, last), 0: (middle, last)}.get(NTH[match["nth"].lower()])


def _half_of_year(match: re.Match[str], year: int) -> Days | None:
    return _part_of_year(match, year, parts=2)


def _quarter(match: re.Match[str], year: int) -> Days | None:
    return _part_of_year(match, year, parts=4)


def _part_of_year(match: re.Match[str], year: int, *, parts: int) -> Days | None:
    said = match["number"].lower()
    number, months = (int(said) if said.isdecimal() else NTH[said]) or parts, 12 // parts
    return (date(year, (number - 1) * months + 1, 1), month_of(year, number * months)[1]) if number <= parts else None
