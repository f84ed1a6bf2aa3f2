"""Times of the clock in words, in English and German: "half past nine", "quarter to eight", "halb neun", "Viertel nach acht"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from agent.models.notebook.number_words import COUNTED, any_of

_NOON: Final = 12
_HOURS: Final = 24
_HOUR_MINUTES: Final = 60
_FIXED: Final = {"noon": 12, "midday": 12, "mittag": 12, "midnight": 0, "mitternacht": 0}
_IN_WORDS: Final = [word for word, number in COUNTED.items() if number <= _HOURS]
_HOUR: Final = rf"(?:(?P<h>(?:1\d|2[0-4]|0?\d)(?!\d|[.,:]\d)|{any_of(_IN_WORDS)})|(?P<fixed>{any_of(_FIXED)}))\b"
_WORD: Final = rf"(?P<h>{any_of(word for word in _IN_WORDS if word != 'ein')})\b"
_TENS: Final = any_of(word for word, number in COUNTED.items() if number >= 10)  # noqa: PLR2004
_ONES: Final = any_of(word for word, number in COUNTED.items() if number < 10)  # noqa: PLR2004
_FIVES: Final = any_of(word for word, number in COUNTED.items() if number % 5 == 0)
_ANY: Final = rf"[1-5]?\d|{any_of(COUNTED)}"
_AWAY: Final = (
    rf"(?:(?P<count>{_FIVES})|(?P<count_2>{_ANY})\s*(?:minutes?|minuten?)|(?P<count_3>[1-5]?\d)(?=\s+(?:past|nach|vor)\b))\s+"
)
_END: Final = r"(?:\s*(?:o['’]?clock|uhr)\b)?(?:\s*(?P<half>[ap]\.?m\b\.?))?"
_AT: Final = r"(?:(?:at|by|um|gegen|@)\s+)"
_NO_HOUR: Final = (
    r"(?!\s+(?:times?|mal|of|more|minutes?|mins?|minuten?|hours?|stunden?|days?|tagen?|tage|weeks?|wochen?|months?|monaten?|monate"
    r"|years?|jahren?|jahre|percent|prozent|euros?|dollars?|point|stage|go)\b|\s+(?!daran\b)\S+\s+zu\b)"
)
"""What makes a number behind "at" no hour: "at two points", "um zwei Stunden", "um zwei Karten zu kaufen"."""
ROWS: Final = (
    (
        rf"{_AT}?(?:(?P<quarter>(?:a\s+)?quarter|viertel)\s+(?:(?P<past>past|after|nach)|(?P<to>to|till|before|of|vor))"
        rf"|(?P<thirty>half)\s+(?P<past_2>past|after))\s+{_HOUR}{_END}"
    ),
    rf"{_AT}{_AWAY}(?:(?P<past>past|after|nach)|(?P<to>to|till|before|vor))\s+{_HOUR}{_END}",
    rf"{_AT}?(?:{_AWAY}(?:(?P<past>nach)|(?P<to>vor))\s+)?(?P<halb>halb)\s+{_HOUR}{_END}",
    rf"{_AT}?(?P<share>dreiviertel|drei\s+viertel|viertel)\s+{_HOUR}{_END}",
    rf"(?:at|by)\s+(?P<thirty>half)\s+{_HOUR}{_END}",
    rf"{_AT}{_WORD}(?:[\s-]+(?P<more>(?:oh|null)[ -](?:{_ONES})|{_TENS})\b)?{_END}{_NO_HOUR}",
    (
        rf"{_AT}?(?P<h>{any_of(_IN_WORDS)})\s+(?:o['’]?clock|uhr)\b(?:\s+(?P<more>[0-5]\d|{_TENS}|{_ONES})\b)?"
        r"(?:\s*(?P<half>[ap]\.?m\b\.?))?"
    ),
    rf"{_WORD}\s*(?P<half>[ap]\.?m\b\.?)",
)
"""Patterns of times, whose groups ``spoken_time`` reads."""


def spoken_time(found: Mapping[str, str]) -> tuple[int, int, bool] | None:
    """Return hour, minute, and whether only that half of the day can be meant; None for a time that no clock shows.

    ``found`` has the groups of a match, in lower case. German counts towards the next hour: "halb neun" is 8:30, "dreiviertel neun" 8:45.
    """
    hour = _FIXED[found["fixed"]] if "fixed" in found else _number(found["h"])
    half = found.get("half", "").replace(".", "")
    if half and ("fixed" in found or not 1 <= hour <= _NOON):
        return None
    exact = bool(half) or "fixed" in found or hour == 0 or hour > _NOON or found.get("h", "").startswith("0")
    total = hour * _HOUR_MINUTES + _minutes(found)
    if half:  # "quarter to one pm" is 12:45, "quarter to twelve pm" 23:45
        total = total % (_NOON * _HOUR_MINUTES) + (_NOON * _HOUR_MINUTES if half == "pm" else 0)
    elif not exact and total < _HOUR_MINUTES:  # "halb eins"
        total += _NOON * _HOUR_MINUTES
    hour, minute = divmod(total % (_HOURS * _HOUR_MINUTES), _HOUR_MINUTES)
    return hour, minute, exact


def _minutes(found: Mapping[str, str]) -> int:
    """Return the minutes that are added to the hour."""
    sign = 1 if "past" in found else -1
    if "halb" in found:
        return -30 + sign * _number(found.get("count", "0"))
    if "share" in found:
        return -15 if found["share"].startswith("drei") else -45
    if "quarter" in found:
        return sign * 15
    if "thirty" in found:
        return 30
    if "count" in found:
        return sign * _number(found["count"])
    return _number(re.sub(r"^(?:oh|null)[ -]", "", found.get("more", "0")))


def _number(word: str) -> int:
    return COUNTED[word] if word in COUNTED else int(word)
