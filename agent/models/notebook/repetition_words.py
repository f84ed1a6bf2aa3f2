"""Words for repetitions, in English and German: "every weekday", "every first Monday of the month", "alle 2 Stunden"."""

from __future__ import annotations

import re
from typing import Final

from agent.models.notebook.number_words import NUMBERS, ORDINALS, any_of, number_of
from agent.models.notebook.said_time import DAY, DAY_MINUTES, DAY_NAMES, EVERY_DAY, PARTS, WEEKDAYS, Found, Reader, Said

_SECOND, _FOURTH = 2, 4


def part_of(found: Found) -> str:
    """Return the part of the day that is named behind a day, or nothing."""
    return found.get("of", "")


def _daily(found: Found) -> Said:
    kind = found["kind"]
    days: tuple[int, ...] = EVERY_DAY
    if re.match(r"week-?day|work|werktag|wochentag", kind):
        days = (0, 1, 2, 3, 4)
    elif kind.startswith(("weekend", "wochenende")):
        days = (5, 6)
    word = kind.removesuffix("s")
    return Said(repeats="days", days=days, part=word if word in PARTS else part_of(found))


def _weekly(found: Found) -> Said:
    names = re.findall(DAY, found["days"], re.IGNORECASE)
    return Said(repeats="days", days=tuple(sorted({WEEKDAYS[name] for name in names})), part=part_of(found))


def _nth_weekday(found: Found) -> Said:
    """Read "every first Monday". The second to fourth may as well be meant for every second to fourth week."""
    nth = tuple(sorted({ORDINALS[word] for word in re.findall(ORDINAL, found["nth"])}, key=lambda one: (one < 0, one)))
    day = WEEKDAYS[found["weekday"]]
    if "monthly" not in found and len(nth) == 1 and _SECOND <= nth[0] <= _FOURTH:
        ordinal = {2: "second", 3: "third", 4: "fourth"}[nth[0]]
        return Said(unclear=_WHICH.format(ordinal, DAY_NAMES[day]))
    return Said(repeats="days", days=(day,), nth=nth, part=part_of(found))


def _month_edge(found: Found) -> Said:
    first = re.search("first|erste|1", found["edge"]) is not None
    return Said(repeats="month", monthday=1 if first else -1)


def _every_other(found: Found) -> Said:
    unit = found["other"]
    if unit in {"day", "tag", "week", "woche"}:
        return Said(repeats="span", minutes=2 * DAY_MINUTES * (7 if unit[0] == "w" else 1))
    return Said(unclear=_OTHER_MONTH if unit in {"month", "monat"} else _OTHER)


def _fortnight(_found: Found) -> Said:
    return Said(unclear=_OTHER)


def _each_fortnight(_found: Found) -> Said:
    return Said(repeats="span", minutes=14 * DAY_MINUTES)


def _weekend(_found: Found) -> Said:
    return Said(unclear="Say the day: “on Saturday at 10”, or “every weekend at 10” for all of them.")


def _period(found: Found) -> Said:
    word = found["period"]
    return Said(repeats="week" if word[0] == "w" else "month" if word[0] == "m" else "year")


def _repeated_span(found: Found) -> Said | None:
    count, unit = number_of(found.get("n", "a")), found["unit"]
    per = {"w": 7 * DAY_MINUTES, "d": DAY_MINUTES, "t": DAY_MINUTES, "h": 60, "s": 60}.get(unit[0], 1)
    minutes = count * per
    if minutes == DAY_MINUTES:
        return Said(repeats="days", days=EVERY_DAY)
    return Said(repeats="span", minutes=minutes) if 1 <= minutes <= 36_600 * DAY_MINUTES else None


NUMBER: Final = rf"(?P<n>\d+(?:[.,]\d+)?|{any_of(NUMBERS)})"
OF: Final = rf"(?:\s+(?:(?:in\s+the|at)\s+)?(?P<of>{any_of(PARTS)}))?"
_AND: Final = r"(?:\s*,\s*(?:and\s+|und\s+)?|\s+(?:and|und)\s+|\s*&\s*)"
_EACH: Final = r"(?:every|each|jeden|jede[sr]?|immer)"
_KINDS: Final = (
    r"(?P<kind>week-?days?|work(?:ing)?\s?days?|weekends?|days?|mornings?|evenings?|nights?|afternoons?"
    r"|werktag|wochentag|wochenende|tag|morgen|vormittag|mittag|nachmittag|abend)"
)
_MONTHLY: Final = (
    r"(?:(?:of|in)\s+(?:the|a|each|every)\s+month|im\s+monat|(?:des|jedes|eines|jeden)\s+monats|in\s+jedem\s+monat)"
)
ORDINAL: Final = rf"(?<![\w.])(?:{any_of(ORDINALS)})(?!\w)"
_NTH: Final = rf"(?P<nth>{ORDINAL}(?:{_AND}{ORDINAL})*)\s+(?P<weekday>{DAY})s?"
_EDGE: Final = r"(?P<edge>first|last|1st|1\.|ersten?|letzten?)(?:\s+(?:day|tag))?"
_WHICH: Final = (
    "That may mean the {0} {1} of each month or every few weeks. "
    "Say “every {0} {1} of the month”, or “every {1}” for each of them."
)
_OTHER: Final = (
    "I cannot repeat every few weeks on a weekday. Say “every Tuesday”, “every first Tuesday of the month”, or “every 2 weeks” "
    "for this time of day from today on."
)
_OTHER_MONTH: Final = "I cannot repeat every second month. Say “every month on the 1st”, or a date: “every year on 1 March”."
ROWS: Final[tuple[tuple[str, Reader], ...]] = (
    (rf"{_EACH}\s+{_KINDS}{OF}", _daily),
    (
        r"(?:on\s+)?(?P<kind>week-?days|weekends)|(?P<kind_3>daily|täglich|taeglich|werktags|wochentags)",
        _daily,
    ),
    (rf"(?:{_EACH}\s+)(?:(?:week|woche)\s+(?:on\s+|am\s+)?)?(?P<days>{DAY}s?(?:{_AND}{DAY}s?)*){OF}", _weekly),
    (rf"(?:on\s+|immer\s+)?(?P<days>{DAY}s(?:{_AND}{DAY}s)*){OF}", _weekly),
    (rf"(?:{_EACH}\s+|(?:on\s+|am\s+)?(?:the\s+)?){_NTH}\s+(?P<monthly>{_MONTHLY}){OF}", _nth_weekday),
    (rf"{_EACH}\s+(?P<monthly>month|monat)\s*,?\s+(?:on\s+|immer\s+)?(?:am\s+|the\s+){_NTH}{OF}", _nth_weekday),
    (rf"{_EACH}\s+{_NTH}{OF}", _nth_weekday),
    (rf"(?:{_EACH}\s+|(?:on\s+|am\s+)(?:the\s+)?){_EDGE}\s+{_MONTHLY}", _month_edge),
    (rf"{_EACH}\s+(?:month|monat)\s*,?\s+(?:on\s+|immer\s+)?(?:am\s+|the\s+){_EDGE}", _month_edge),
    (rf"(?:{_EACH}|am)\s+(?P<edge>monatsersten|monatsletzten|monatsende)|at\s+the\s+(?P<edge_2>end)\s+{_MONTHLY}", _month_edge),
    (
        (
            rf"(?:every\s+other|{_EACH}\s+(?:second|2nd|2\.|zweite[nr]?|andere[nr]?))\s+"
            rf"(?P<other>day|week|tag|woche|month|monat|{DAY})s?(?:\s+(?:on|am)\s+(?P<other_2>{DAY}))?"
        ),
        _every_other,
    ),
    (rf"(?:every|alle)\s+(?:\d+|{any_of(NUMBERS)})\s+(?:weeks|wochen)\s+(?:on\s+|am\s+|immer\s+)?(?:{DAY})s?", _fortnight),
    (rf"(?:(?:every|each)\s+fortnight|fortnightly)\s+(?:on\s+)?(?:{DAY})s?", _fortnight),
    (r"(?:every|each)\s+fortnight|fortnightly", _each_fortnight),
    (
        r"(?:at|on|this|next|am|dieses|nächstes|kommendes)\s+(?:the\s+|this\s+|next\s+|kommenden\s+|nächsten\s+)?(?:weekend|wochenende)",
        _weekend,
    ),
    (rf"{_EACH}\s+(?P<period>week|month|year|woche|monat|jahr)", _period),
    (r"(?P<period>weekly|monthly|yearly|wöchentlich|monatlich|jährlich)", _period),
    (
        rf"(?:every|each|alle|jede)\s+(?:{NUMBER}\s+)?(?P<unit>minutes?|mins?|minuten?|hours?|hrs?|h|stunden?|std|days?|weeks?|tagen?|tage|wochen?)",
        _repeated_span,
    ),
    (r"(?P<unit>hourly|stündlich)", _repeated_span),
)
"""Patterns, and what their groups say."""
