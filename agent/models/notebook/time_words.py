"""Words for times, in English and German: days, dates, clock times, spans and repetitions, as they stand in a sentence."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date
from functools import cache
from typing import Final, Literal

_NUMBERS: Final[Mapping[str, float]] = {
    word: number
    for number, words in (
        (0.5, "half ½ halben halbe"),
        (1, "a an one ein eine einem einen einer"),
        (1.5, "anderthalb eineinhalb"),
        (2, "two zwei"),
        (3, "three drei"),
        (4, "four vier"),
        (5, "five fünf fuenf"),
        (6, "six sechs"),
        (7, "seven sieben"),
        (8, "eight acht"),
        (9, "nine neun"),
        (10, "ten zehn"),
        (11, "eleven elf"),
        (12, "twelve zwölf zwoelf"),
        (15, "fifteen fünfzehn fuenfzehn"),
        (20, "twenty zwanzig"),
        (30, "thirty dreißig dreissig"),
        (45, "forty-five fünfundvierzig"),
    )
    for word in words.split()
}


def _numbered(rows: Iterable[str], first: int) -> dict[str, int]:
    return {name: number for number, names in enumerate(rows, first) for name in names.split()}


WEEKDAYS: Final = _numbered(
    (
        "monday mon montag",
        "tuesday tue tues dienstag",
        "wednesday wed mittwoch",
        "thursday thu thur thurs donnerstag",
        "friday fri freitag",
        "saturday sat samstag sonnabend",
        "sunday sun sonntag",
    ),
    0,
)
"""Names of weekdays in lower case; Monday is 0."""
_MONTHS: Final = _numbered(
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
PARTS: Final[Mapping[str, tuple[int, Literal["am", "pm", ""]]]] = {
    "morning": (9, "am"),
    "noon": (12, ""),
    "midday": (12, ""),
    "afternoon": (15, "pm"),
    "evening": (19, "pm"),
    "night": (20, "pm"),
    "midnight": (0, ""),
    "früh": (9, "am"),
    "frueh": (9, "am"),
    "morgen": (9, "am"),
    "vormittag": (10, "am"),
    "mittag": (12, ""),
    "nachmittag": (15, "pm"),
    "abend": (19, "pm"),
    "nacht": (20, "pm"),
    "mitternacht": (0, ""),
}
"""Parts of the day: the hour when one is named alone, and the half of the day in which a time named with it lies."""
EVERY_DAY: Final = (0, 1, 2, 3, 4, 5, 6)
_DAY_MINUTES: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class Said:
    """What the words of a sentence say about a time. Fields of which nothing is said are empty.

    ``day`` is a day of the calendar, ``weekday`` the next of its name (``coming``: not today), ``date`` month, day and maybe year,
    ``monthday`` a day of a month, ``ahead`` days from today. ``exact``: the time cannot be meant for the other half of the day.
    ``minutes`` from now, or between two times with ``repeats`` "span". ``days``: weekdays that repeat.
    """

    day: date | None = None
    weekday: int | None = None
    coming: bool = False
    date: tuple[int, int, int | None] | None = None
    monthday: int | None = None
    ahead: int | None = None
    time: tuple[int, int] | None = None
    exact: bool = False
    part: str = ""
    minutes: float = 0
    repeats: Literal["", "days", "span", "week", "month", "year"] = ""
    days: tuple[int, ...] = ()

    @property
    def dated(self) -> bool:
        """Whether the words name a day, a span or a repetition, not only a time of day."""
        named = (self.day, self.weekday, self.date, self.monthday, self.ahead)
        return bool(self.repeats or self.minutes) or any(one is not None for one in named)

    def joined(self, other: Said) -> Said | None:
        """Return what both say; None where they say different things."""
        merged = self
        for one in fields(Said):
            new, old = getattr(other, one.name), getattr(self, one.name)
            if new in (one.default, old):
                continue
            if old != one.default:
                return None
            merged = replace(merged, **{one.name: new})
        return None if self.dated and other.dated and not _fit(self, other) else merged

    @property
    def timed(self) -> bool:
        """Whether the words name a time of day."""
        return self.time is not None or bool(self.part)


def _fit(one: Said, other: Said) -> bool:
    """Whether two things that each name a day can belong together: "every month" and "on the 1st"."""
    periods = {"week", "month", "year"}
    named = [said for said in (one, other) if said.repeats not in periods]
    return len(named) == 1 and not (named[0].repeats or named[0].minutes) and named[0].ahead is None


NOTHING: Final = Said()
_Found = Mapping[str, str]
"""The groups of a match that took part in it, in lower case."""
_Reader = Callable[[_Found], "Said | None"]


def _number(word: str) -> float:
    return _NUMBERS[word] if word in _NUMBERS else float(word.replace(",", "."))


def _part(found: _Found) -> str:
    return found.get("of", "")


def _near(found: _Found) -> Said:
    word = found["near"]
    offset = {"today": 0, "tonight": 0, "heute": 0, "tomorrow": 1, "morgen": 1}.get(word, 2)
    return Said(ahead=offset, part="night" if word == "tonight" else _part(found))


def _weekday(found: _Found) -> Said:
    return Said(weekday=WEEKDAYS[found["weekday"]], coming="next" in found, part=_part(found))


def _calendar_day(found: _Found) -> Said | None:
    try:
        return Said(day=date(int(found["y"]), int(found["m"]), int(found["d"])))
    except ValueError:
        return None


def _date(found: _Found) -> Said | None:
    month = _MONTHS[found["month"]] if "month" in found else int(found["number"])
    day, year = int(found["d"]), int(found["year"]) if "year" in found else None
    if year is not None and len(found["year"]) == 2:  # noqa: PLR2004 -- figures
        year += 2000
    leap = 2000
    valid = 1 <= month <= 12 and 1 <= day <= monthrange(year or leap, month)[1] and (year is None or year > 0)  # noqa: PLR2004
    return Said(date=(month, day, year)) if valid else None


def _monthday(found: _Found) -> Said | None:
    day = int(found["d"])
    repeats: Literal["month", ""] = "month" if "each" in found else ""
    return Said(monthday=day, repeats=repeats) if 1 <= day <= 31 else None  # noqa: PLR2004 -- days


def _ahead(found: _Found) -> Said | None:
    days = _number(found["n"]) * (7 if found["unit"].startswith("w") else 1)
    return Said(ahead=int(days)) if 1 <= days <= 36_600 and days % 1 == 0 else None  # noqa: PLR2004 -- a century


def _clock(found: _Found) -> Said | None:
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


def _half_hour(found: _Found) -> Said | None:
    """German: "halb neun" is half past eight."""
    hour = _number(found["n"])
    return Said(time=(int(hour) - 1, 30)) if 1 <= hour <= 12 and hour % 1 == 0 else None  # noqa: PLR2004 -- hours


def _day_part(found: _Found) -> Said:
    part = found["part"].removesuffix("s")
    return Said(part={"in der früh": "früh"}.get(part, part))


def _span(found: _Found) -> Said | None:
    unit = found["unit"]
    per = 1 / 60 if unit.startswith(("sec", "sek")) else 60 if unit.startswith(("h", "s")) else 1
    extra = 30 if "half" in found else float(found.get("more", 0))
    minutes = _number(found["n"]) * per + extra
    return Said(minutes=minutes) if 0 < minutes <= 36_600 * _DAY_MINUTES else None


def _quarter(found: _Found) -> Said:
    return Said(minutes=15 * _number(found.get("n", "a")))


def _daily(found: _Found) -> Said:
    kind = found["kind"]
    days: tuple[int, ...] = EVERY_DAY
    if re.match(r"week-?day|work|werktag|wochentag", kind):
        days = (0, 1, 2, 3, 4)
    elif kind.startswith(("weekend", "wochenende")):
        days = (5, 6)
    word = kind.removesuffix("s")
    return Said(repeats="days", days=days, part=word if word in PARTS else _part(found))


def _weekly(found: _Found) -> Said:
    names = re.findall(DAY, found["days"], re.IGNORECASE)
    return Said(repeats="days", days=tuple(sorted({WEEKDAYS[name] for name in names})), part=_part(found))


def _period(found: _Found) -> Said:
    word = found["period"]
    return Said(repeats="week" if word[0] == "w" else "month" if word[0] == "m" else "year")


def _repeated_span(found: _Found) -> Said | None:
    count, unit = _number(found.get("n", "a")), found["unit"]
    per = {"w": 7 * _DAY_MINUTES, "d": _DAY_MINUTES, "t": _DAY_MINUTES, "h": 60, "s": 60}.get(unit[0], 1)
    minutes = count * per
    if minutes == _DAY_MINUTES:
        return Said(repeats="days", days=EVERY_DAY)
    return Said(repeats="span", minutes=minutes) if 1 <= minutes <= 36_600 * _DAY_MINUTES else None


def _any(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


DAY: Final = rf"\b(?:{_any(WEEKDAYS)})"
_N: Final = rf"(?P<n>\d+(?:[.,]\d+)?|{_any(_NUMBERS)})"
_MONTH: Final = rf"(?P<month>{_any(_MONTHS)})\.?"
_OF: Final = rf"(?:\s+(?:(?:in\s+the|at)\s+)?(?P<of>{_any(PARTS)}))?"
_AND: Final = r"(?:\s*,\s*(?:and\s+|und\s+)?|\s+(?:and|und)\s+|\s*&\s*)"
_EACH: Final = r"(?:every|each|jeden|jede[sr]?|immer)"
_SMALL: Final = r"(?P<unit>seconds?|secs?|sekunden?|minutes?|mins?|minuten?|hours?|hrs?|h|stunden?|std)"
_CLOCK: Final = (
    r"(?P<hour>\d{1,2})(?:(?:[:.h]|\s*uhr\s+)(?P<minute>[0-5]\d)(?!\d))?(?:\s*(?P<half>[ap]\.?m\b\.?)|\s*uhr|\s*o['’]?clock)?"
)
_KINDS: Final = (
    r"(?P<kind>week-?days?|work(?:ing)?\s?days?|weekends?|days?|mornings?|evenings?|nights?|afternoons?"
    r"|werktag|wochentag|wochenende|tag|morgen|vormittag|mittag|nachmittag|abend)"
)
_ORDINAL: Final = r"(?P<d>\d{1,2})(?:st|nd|rd|th)"
_ROWS: Final[tuple[tuple[str, _Reader], ...]] = (
    (rf"{_EACH}\s+{_KINDS}{_OF}", _daily),
    (
        r"(?:on\s+)?(?P<kind>week-?days|weekends)|am\s+(?P<kind_2>wochenende)|(?P<kind_3>daily|täglich|taeglich|werktags|wochentags)",
        _daily,
    ),
    (rf"(?:{_EACH}\s+)(?:(?:week|woche)\s+(?:on\s+|am\s+)?)?(?P<days>{DAY}s?(?:{_AND}{DAY}s?)*){_OF}", _weekly),
    (rf"(?:on\s+|immer\s+)?(?P<days>{DAY}s(?:{_AND}{DAY}s)*){_OF}", _weekly),
    (rf"{_EACH}\s+(?P<period>week|month|year|woche|monat|jahr)", _period),
    (r"(?P<period>weekly|monthly|yearly|wöchentlich|monatlich|jährlich)", _period),
    (
        rf"(?:every|each|alle|jede)\s+(?:{_N}\s+)?(?P<unit>minutes?|mins?|minuten?|hours?|hrs?|h|stunden?|std|days?|weeks?|tagen?|tage|wochen?)",
        _repeated_span,
    ),
    (r"(?P<unit>hourly|stündlich)", _repeated_span),
    (
        rf"in\s+(?:a\s+|an\s+|einer\s+)?quarter\s+of\s+an\s+hour|in\s+(?:einer\s+)?viertelstunde|in\s+{_N}\s+viertelstunden?",
        _quarter,
    ),
    (
        rf"in\s+(?:(?:a|an|einer|eine)\s+)?{_N}\s*(?:an?\s+)?{_SMALL}(?:\s*(?:and\s+|und\s+)?(?P<more>\d{{1,2}})\s*(?:minutes?|mins?|minuten?|m)?|(?P<half>\s+and\s+a\s+half))?",
        _span,
    ),
    (rf"(?:in\s+)?{_N}\s*{_SMALL}\s+from\s+now", _span),
    (r"(?:on\s+|am\s+)?(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})", _calendar_day),
    (rf"(?:on\s+)?(?:the\s+)?{_ORDINAL}\s+of\s+(?P<each>every|each)\s+month", _monthday),
    (rf"(?:on\s+|am\s+)?(?:the\s+)?(?P<d>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}(?:,?\s+(?P<year>\d{{4}}))?", _date),
    (
        rf"(?:on\s+)?{_MONTH}\s+(?:the\s+)?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?![:\d]|\s*[ap]\.?m\b)(?:,?\s+(?P<year>\d{{4}}))?",
        _date,
    ),
    (r"(?:on\s+|am\s+)?(?P<d>\d{1,2})\.\s?(?P<number>\d{1,2})\.(?:\s?(?P<year>\d{4}|\d{2})(?![\d:]))?", _date),
    (rf"(?:on\s+the\s+{_ORDINAL}|am\s+(?P<d_2>\d{{1,2}})\.(?!\s?\d))(?!\s+(?:of\s+)?(?:{_any(_MONTHS)})\b)", _monthday),
    (rf"in\s+{_N}\s+(?P<unit>days?|weeks?|tagen?|wochen?)", _ahead),
    (rf"(?:the\s+)?(?P<near>day\s+after\s+tomorrow|today|tonight|tomorrow|heute|morgen|übermorgen|uebermorgen){_OF}", _near),
    (
        rf"(?:on\s+|am\s+)?(?:(?P<next>next|coming|n(?:ä|ae)chste[nrm]?|kommende[nrm]?)\s+|(?:this|diese[nrm]?)\s+)?(?P<weekday>{DAY}){_OF}",
        _weekday,
    ),
    (rf"(?:at|um|gegen|by|@)\s+{_CLOCK}", _clock),
    (
        r"(?P<hour>\d{1,2})(?::(?P<minute>[0-5]\d)|\s*uhr\s+(?P<minute_2>[0-5]\d))(?!\d)(?:\s*(?P<half>[ap]\.?m\b\.?)|\s*uhr)?",
        _clock,
    ),
    (r"(?P<hour>\d{1,2})\s*(?:(?P<half>[ap]\.?m\b\.?)|uhr)", _clock),
    (rf"(?:um\s+|gegen\s+)?halb\s+{_N}", _half_hour),
    (r"(?:at|um|gegen)\s+(?P<part>noon|midday|midnight|night|mittag|mitternacht)", _day_part),
    (rf"(?:in\s+the|this|am|diesen|in\s+der|zu)\s+(?P<part>{_any(PARTS)})", _day_part),
    (r"(?P<part>mittags|abends|morgens|nachmittags|vormittags|nachts)", _day_part),
)
_AFTER: Final = r"(?=$|[\s,;:!?]|\.(?:\s|$))"
_Rows = tuple[tuple[re.Pattern[str], _Reader], ...]


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


def _read(rows: Iterable[tuple[re.Pattern[str], _Reader]], text: str, start: int) -> Iterable[tuple[re.Match[str], Said]]:
    for pattern, reader in rows:
        found = pattern.search(text, start)
        if found is None:
            continue
        groups = {name.partition("_")[0]: " ".join(value.lower().split()) for name, value in found.groupdict().items() if value}
        if (said := reader(groups)) is not None:
            yield found, said
