"""Parts of months, seasons and years in a question: "early November", "Mitte Oktober", "fin octobre", "a finales del año pasado"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta

from memory.text.calendar_names import MONTHS, ONE_MONTH, ONE_SEASON, SEASONS, month_of
from memory.text.year_words import MARKED, Days, Rule

PARTS = {
    word: part
    for part, words in enumerate(
        (
            "early beginning start anfang debut principio principios comienzo comienzos inicio inicios primeros inizio inizi primi",
            "mid middle mitte mi milieu mediados meta",
            "late end ende fin final finales fines fine",
        )
    )
    for word in words.split()
}
_DAYS_OF_PART, _LAST_PART = 10, 2


def rules() -> Iterator[Rule]:
    """Return how parts of times are written.

    Words that are common ones in another language, as "fine" is, come before names of their own.
    """
    over = r"(?P<over>last|past|letzten|vergangenen|vorigen|scorso)"
    name = (
        rf"(?:(?P<year>{MARKED})|(?:(?:{over}|this|diesen)\s)?(?P<name>{ONE_MONTH}|{ONE_SEASON}|year|jahre|annee|ano|anno)(?:e?s)?"
        r"(?P<over2>\s(?:derniere?|passee?|pasad[oa]|scors[oa]|passat[oa]))?)(?!\w)"
    )
    italian = r"(?=(?:\w*(?:io|zo|ile|gno|sto|bre|tate|nno|rno|era)\b)|\0)"
    for text in (
        rf"(?P<part>early|mid|late)(?:\s(?:in\s)?|\s?-\s?){name}",
        rf"(?:(?:at|by|in|towards?|around|since|until)\s)?(?:the\s)?(?P<part>beginning|start|middle|end)\sof\s(?:the\s)?{name}",
        rf"(?:(?:seit|gegen|ab|bis|zu)\s)?(?P<part>anfang|mitte|ende)\s(?:de[sr]\s|vom\s)?{name}",
        rf"(?:(?:au|vers(?:\sl[ea])?|a\sla|en)\s)?(?P<part>debut|milieu|fin)\s(?:du\smois\s)?(?:de\s(?:l')?|du\s|d')?{name}",
        rf"(?:a\sla\s)?(?P<part>mi)-{name}",
        rf"(?:(?:a|al|hacia|desde|en)\s)?(?P<part>principios?|comienzos?|inicios?|mediados|finales|fines|fin)\sdel?\s(?:mes\sde\s)?{name}",
        rf"al?\s(?P<part>primeros|final)\sdel?\s{name}",
        rf"(?:all'|dall')?(?P<part>inizio)\s(?:del\smese\s)?(?:d(?:i\s|ell'|ella\s|el\s|ello\s))?{name}",
        rf"(?:(?:alla|verso(?:\sla)?|dalla)\s)?(?P<part>fine)\s(?:(?:del\smese\s)?d(?:i\s|ell'|ella\s|el\s|ello\s)|{italian}){name}",
        rf"a\s(?P<part>meta)\s(?:del\smese\s)?(?:d(?:i\s|ell'|ella\s|el\s|ello\s))?{name}",
        rf"(?P<part>meta)\s{italian}(?!\0){name}",
        rf"(?:agli|ai)\s(?P<part>inizi|primi)\sd(?:i\s|ell'|ella\s|el\s|ello\s){name}",
    ):
        yield rf"(?<![\w']){text}", _part, True


def third_of_month(year: int, month: int, part: int) -> Days:
    """Return the first or the second ten days of a month, or those after them; ``part`` is as in ``PARTS``."""
    first, last = month_of(year, month)
    start = first + timedelta(days=part * _DAYS_OF_PART)
    return start, last if part == _LAST_PART else start + timedelta(days=_DAYS_OF_PART - 1)


def _part(match: re.Match[str], year: int) -> Days:
    """A third of a month (the last one has up to eleven days), of a season or of a year."""
    part, name = PARTS[match["part"].lower()], (match["name"] or "").lower()
    if name in MONTHS:
        return third_of_month(year, MONTHS[name], part)
    if name in SEASONS:
        month = SEASONS[name] + part
        return month_of(year + month // 13, (month - 1) % 12 + 1)
    return date(year, 1 + part * 4, 1), month_of(year, 4 + part * 4)[1]
