"""Words for times, in English and German: days, dates, clock times, spans and repetitions, as they stand in a sentence."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable
from datetime import date
from functools import cache
from typing import Final, Literal

from agent.models.notebook.clock_words import ROWS as CLOCK_ROWS
from agent.models.notebook.clock_words import spoken_time
from agent.models.notebook.number_words import any_of, number_of
from agent.models.notebook.repetition_words import NUMBER, OF, part_of
from agent.models.notebook.repetition_words import ROWS as REPETITION_ROWS
from agent.models.notebook.said_time import DAY, DAY_MINUTES, PARTS, WEEKDAYS, Found, Reader, Said, numbered

_MONTHS: Final = numbered(
    (
        "january jan januar jänner",
        "february feb februar",
        "march mar märz maerz",
        "april apr",
        "may mai",
        "june jun juni",
        "july jul juli",
        "august aug",
        "september sep sept",
        "october oct oktober okt",
        "november nov",
        "december dec dezember dez",
    ),
    1,
)


def _near(found: Found) -> Said:
    word = found["near"]
    offset = {"today": 0, "tonight": 0, "heute": 0, "tomorrow": 1, "morgen": 1}.get(word, 2)
    return Said(ahead=offset, part="night" if word == "tonight" else part_of(found))


def _weekday(found: Found) -> Said:
    return Said(weekday=WEEKDAYS[found["weekday"]], coming="next" in found, part=part_of(found))


def _calendar_day(found: Found) -> Said | None:
    try:
        return Said(day=date(int(found["y"]), int(found["m"]), int(found["d"])))
    except ValueError:
        return None


def _date(found: Found) -> Said | None:
    month = _MONTHS[found["month"]] if "month" in found else int(found["number"])
    day, year = int(found["d"]), int(found["year"]) if "year" in found else None
    if year is not None and len(found["year"]) == 2:  # noqa: PLR2004 -- figures
        year += 2000
    leap = 2000
    valid = 1 <= month <= 12 and 1 <= day <= monthrange(year or leap, month)[1] and (year is None or year > 0)  # noqa: PLR2004
    return Said(date=(month, day, year)) if valid else None


def _slashed_date(found: Found) -> Said | None:
    """Read 24/12. Of two numbers that may both be months, nobody knows which one is."""
    one, other = int(found["one"]), int(found["two"])
    if one != other and max(one, other) <= 12:  # noqa: PLR2004 -- months
        return Said(unclear=_WHICH_MONTH) if "on" in found else None
    return _date(
        {"d": str(max(one, other)), "number": str(min(one, other)), **({"year": found["year"]} if "year" in found else {})}
    )


def _in_a_fortnight(_found: Found) -> Said:
    return Said(ahead=14)


def _monthday(found: Found) -> Said | None:
    day = int(found["d"])
    repeats: Literal["month", ""] = "month" if "each" in found else ""
    return Said(monthday=day, repeats=repeats) if 1 <= day <= 31 else None  # noqa: PLR2004 -- days


def _ahead(found: Found) -> Said | None:
    days = number_of(found["n"]) * (7 if found["unit"].startswith("w") else 1)
    return Said(ahead=int(days)) if 1 <= days <= 36_600 and days % 1 == 0 else None  # noqa: PLR2004 -- a century


def _clock(found: Found) -> Said | None:
    hour, minute = int(found["hour"]), int(found.get("minute", 0))
    half = found.get("half", "").replace(".", "")
    if half and not 1 <= hour <= 12:  # noqa: PLR2004 -- hours of half a day
        return None
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23:  # noqa: PLR2004 -- hours
        return None
    exact = bool(half) or hour == 0 or hour > 12 or found["hour"].startswith("0")  # noqa: PLR2004 -- noon
    return Said(time=(hour, minute), exact=exact)


def _worded_time(found: Found) -> Said | None:
    time = spoken_time(found)
    return Said(time=time[:2], exact=time[2]) if time is not None else None


def _day_part(found: Found) -> Said:
    part = found["part"].removesuffix("s")
    return Said(part={"in der früh": "früh"}.get(part, part))


def _span(found: Found) -> Said | None:
    unit = found["unit"]
    per = 1 / 60 if unit.startswith(("sec", "sek")) else 60 if unit.startswith(("h", "s")) else 1
    extra = 30 if "half" in found else float(found.get("more", 0))
    minutes = number_of(found["n"]) * per + extra
    return Said(minutes=minutes) if 0 < minutes <= 36_600 * DAY_MINUTES else None


def _quarter(found: Found) -> Said:
    return Said(minutes=15 * (3 if "three" in found else number_of(found.get("n", "a"))))


_MONTH: Final = rf"(?P<month>{any_of(_MONTHS)})\.?"
_SMALL: Final = r"(?P<unit>seconds?|secs?|sekunden?|minutes?|mins?|minuten?|hours?|hrs?|h|stunden?|std)"
_CLOCK: Final = (
    r"(?P<hour>\d{1,2})(?:(?:[:.h]|\s*uhr\s+)(?P<minute>[0-5]\d)(?!\d))?(?:\s*(?P<half>[ap]\.?m\b\.?)|\s*uhr|\s*o['’]?clock)?"
)
_WHICH_MONTH: Final = "That may be one of two days. Say the month by its name: “on 3 April”."
_ORDINAL: Final = r"(?P<d>\d{1,2})(?:st|nd|rd|th)"
_ROWS: Final[tuple[tuple[str, Reader], ...]] = (
    *REPETITION_ROWS,
    (
        (
            r"in\s+(?P<three>three)[\s-]quarters\s+of\s+an\s+hour|in\s+(?:einer\s+)?(?P<three_2>drei)\s?viertelstunden?"
            r"|in\s+(?:a\s+|an\s+|einer\s+)?quarter\s+of\s+an\s+hour|in\s+(?:einer\s+)?viertelstunde"
            rf"|in\s+{NUMBER}\s+viertelstunden?"
        ),
        _quarter,
    ),
    (
        rf"in\s+(?:(?:a|an|einer|eine)\s+)?{NUMBER}\s*(?:an?\s+)?{_SMALL}(?:\s*(?:and\s+|und\s+)?(?P<more>\d{{1,2}})\s*(?:minutes?|mins?|minuten?|m)?|(?P<half>\s+and\s+a\s+half))?",
        _span,
    ),
    (rf"(?:in\s+)?{NUMBER}\s*{_SMALL}\s+from\s+now", _span),
    (r"(?:on\s+|am\s+)?(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})", _calendar_day),
    (rf"(?:on\s+)?(?:the\s+)?{_ORDINAL}\s+of\s+(?P<each>every|each)\s+month", _monthday),
    (rf"(?:on\s+|am\s+)?(?:the\s+)?(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}(?:,?\s+(?P<year>\d{{4}}))?", _date),
    (
        rf"(?:on\s+)?{_MONTH}\s+(?:the\s+)?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?![:\d]|\s*[ap]\.?m\b)(?:,?\s+(?P<year>\d{{4}}))?",
        _date,
    ),
    (r"(?:on\s+|am\s+)?(?P<d>\d{1,2})\.\s?(?P<number>\d{1,2})\.(?:\s?(?P<year>\d{4}|\d{2})(?![\d:]))?", _date),
    (r"(?:(?P<on>on|am|by)\s+|\A)(?P<one>\d{1,2})/(?P<two>\d{1,2})(?:/(?P<year>\d{4}|\d{2}))?(?![\d/])", _slashed_date),
    (r"in\s+a\s+fortnight(?:['’]?s\s+time)?|a\s+fortnight\s+(?:from\s+)?(?:now|today)", _in_a_fortnight),
    (rf"(?:on\s+the\s+{_ORDINAL}|am\s+(?P<d_2>\d{{1,2}})\.(?!\s?\d))(?!\s+(?:of\s+)?(?:{any_of(_MONTHS)})\b)", _monthday),
    (rf"in\s+{NUMBER}\s+(?P<unit>days?|weeks?|tagen?|wochen?)", _ahead),
    (rf"(?:the\s+)?(?P<near>day\s+after\s+tomorrow|today|tonight|tomorrow|heute|morgen|übermorgen|uebermorgen){OF}", _near),
    (
        rf"(?:on\s+|am\s+)?(?:(?P<next>next|coming|n(?:ä|ae)chste[nrm]?|kommende[nrm]?)\s+|(?:this|diese[nrm]?)\s+)?(?P<weekday>{DAY}){OF}",
        _weekday,
    ),
    (rf"(?:at|um|gegen|by|@)\s+{_CLOCK}", _clock),
    (
        r"(?P<hour>\d{1,2})(?::(?P<minute>[0-5]\d)|\s*uhr\s+(?P<minute_2>[0-5]\d))(?!\d)(?:\s*(?P<half>[ap]\.?m\b\.?)|\s*uhr)?",
        _clock,
    ),
    (r"(?P<hour>\d{1,2})\s*(?:(?P<half>[ap]\.?m\b\.?)|uhr)", _clock),
    *((row, _worded_time) for row in CLOCK_ROWS),
    (r"(?:at|um|gegen)\s+(?P<part>noon|midday|midnight|night|mittag|mitternacht)", _day_part),
    (rf"(?:in\s+the|this|am|diesen|in\s+der|zu)\s+(?P<part>{any_of(PARTS)})", _day_part),
    (r"(?P<part>mittags|abends|morgens|nachmittags|vormittags|nachts)", _day_part),
)
_AFTER: Final = r"(?=$|[\s,;:!?]|\.(?:\s|$))"
_Rows = tuple[tuple[re.Pattern[str], Reader], ...]


@cache
def _at_the_beginning() -> _Rows:
    """Compile when somebody asks for a reminder: that takes a while, and most processes never do."""
    return tuple((re.compile(rf"\A(?:{row}){_AFTER}[\s,]*", re.IGNORECASE), reader) for row, reader in _ROWS)


@cache
def _at_the_end() -> _Rows:
    return tuple((re.compile(rf"(?:^|(?<=[\s,]))(?:{row})[\s.!?,]*$", re.IGNORECASE), reader) for row, reader in _ROWS)


_LONGEST: Final = 120
"""Characters of a sentence in which its first or last time words are looked for."""


def first_words(text: str) -> tuple[Said, str] | None:
    """Read the time words that ``text`` begins with; return what they say, and the rest. None if it begins with none."""
    found = [(said, text[one.end() :]) for one, said in _read(_at_the_beginning(), text[:_LONGEST], 0)]
    return min(found, key=lambda one: len(one[1]), default=None)


def last_words(text: str) -> tuple[Said, str] | None:
    """Read the time words that ``text`` ends with, likewise."""
    found = [(said, text[: one.start()].rstrip(" ,")) for one, said in _read(_at_the_end(), text, max(0, len(text) - _LONGEST))]
    return min(found, key=lambda one: len(one[1]), default=None)


def _read(rows: Iterable[tuple[re.Pattern[str], Reader]], text: str, start: int) -> Iterable[tuple[re.Match[str], Said]]:
    for pattern, reader in rows:
        found = pattern.search(text, start)
        if found is None:
            continue
        groups = {name.partition("_")[0]: " ".join(value.lower().split()) for name, value in found.groupdict().items() if value}
        if (said := reader(groups)) is not None:
            yield found, said
