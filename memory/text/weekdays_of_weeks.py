"""Days of a week that is counted from today, in a question: "Tuesday of last week", "Dienstag vor zwei Wochen"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache

from memory.text.calendar_names import DAYS, ONE_DAY, number_of


def weekdays_of_weeks(plain: str, today: date) -> Iterator[tuple[int, int, date]]:
    """Return the position of each such day in a query without accents, and the day.

    Of a week that is named ("last week") it is the day from Monday to Sunday; so many weeks ago it is counted from the newest such day.
    """
    for pattern, named in _patterns():
        for match in pattern.finditer(plain):
            weekday = DAYS[(match["day"] or match["day2"]).lower()]
            since = today.weekday() - weekday
            if named is None:
                count = number_of(match["count"] or match["count2"])
                back = -1 if count is None else since % 7 + 7 * count
            else:
                back = since + 7 * named
            if back >= 0:
                yield match.start(), match.end(), date.fromordinal(max(1, today.toordinal() - back))


@cache
def _patterns() -> Sequence[tuple[re.Pattern[str], int | None]]:
    """Return how such days are written, before and after the week, and how many weeks back one is that is named."""
    day, day2 = rf"(?P<day>{ONE_DAY})", rf"(?P<day2>{ONE_DAY})"
    lead, of = r"(?:(?:on|am|le|el|il|di)\s)?", r"(?:(?:of|in|in\sder|der|de|della|di)\s|de\sl')?"
    weeks = (
        (r"this\sweek|diese[rn]?\swoche|cette\ssemaine|esta\ssemana|questa\ssettimana", 0),
        (r"(?:the\s)?(?:last|past|previous)\sweek|(?:letzt|vorig|vergangen)e[rn]?\swoche", 1),
        (r"(?:la\s)?semaine\s(?:derniere|passee)|(?:la\s)?semana\spasada|la\spasada\ssemana", 1),
        (r"(?:la\s)?settimana\s(?:scorsa|passata)|(?:la\s)?scorsa\ssettimana", 1),
        (r"(?:the\s)?week\sbefore\slast|vorletzte[rn]?\swoche|(?:l')?avant-derniere\ssemaine|(?:la\s)?semana\santepasada", 2),
    )
    written: list[tuple[str, int | None]] = [
        (rf"{lead}{day},?\s{of}(?:{week})|(?:{week})(?:'s)?,?\s{lead}{day2}", back) for week, back in weeks
    ]
    for ago in (
        r"COUNT\sweeks?\sago",
        r"COUNT\ssettiman[ae]\sfa",
        r"vor\sCOUNT\swochen?",
        r"il\sy\sa\sCOUNT\ssemaines?",
        r"hace\sCOUNT\ssemanas?",
    ):
        first, second = (ago.replace("COUNT", rf"(?P<{name}>\w+)") for name in ("count", "count2"))
        written.append((rf"{lead}{day},?\s(?:de\s|d'|di\s)?{first}|{second},?\s(?:last\s)?{lead}{day2}", None))
    return [(re.compile(rf"(?<![\w-])(?:{text})(?!\w)", re.IGNORECASE), back) for text, back in written]
