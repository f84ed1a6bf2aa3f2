"""Writes the date behind words that name a day, such as "tomorrow", because a note is read on other days."""

from __future__ import annotations

import re
from datetime import date, timedelta

_OFFSETS = {
    "tomorrow": 1,
    "tonight": 0,
    "yesterday": -1,
    "day after tomorrow": 2,
    "day before yesterday": -2,
    "übermorgen": 2,
    "uebermorgen": 2,
    "morgen": 1,
    "gestern": -1,
    "vorgestern": -2,
}
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday montag",
            "tuesday dienstag",
            "wednesday mittwoch",
            "thursday donnerstag",
            "friday freitag",
            "saturday samstag sonnabend",
            "sunday sonntag",
        )
    )
    for name in names.split()
}
_DAY = re.compile(
    r"\b(?:(?:the\s+)?(?P<far>day\s+(?:after\s+tomorrow|before\s+yesterday))|(?P<near>tomorrow|tonight|yesterday|übermorgen|uebermorgen|vorgestern|gestern)"
    r"|(?<!guten )(?<!am )(?<!jeden )(?<!diesen )(?<!every )(?P<morgen>morgen)"
    r"|(?:next|this|coming|(?:nächste|kommende|diese)[nrm]?)\s+(?P<weekday>" + "|".join(_WEEKDAYS) + r"))\b(?!\s*\(\d{4}-)",
    re.IGNORECASE,
)


def with_dates(text: str, today: date) -> str:
    """Return ``text`` with ``(YYYY-MM-DD)`` behind each word that names a day as seen from ``today``. Nothing else changes.

    English and German. A weekday counts only with "next", "this" or the like: "the bin is emptied on Friday" names no one day.
    """
    try:
        return _DAY.sub(lambda found: f"{found[0]} ({_date_of(found, today).isoformat()})", text)
    except OverflowError:  # the calendar ends in the year 9999
        return text


def _date_of(found: re.Match[str], today: date) -> date:
    if found["weekday"]:
        ahead = (_WEEKDAYS[found["weekday"].lower()] - today.weekday()) % 7
        return today + timedelta(days=ahead or 7)
    word = " ".join((found["far"] or found["near"] or found["morgen"]).lower().split())
    return today + timedelta(days=_OFFSETS[word])
