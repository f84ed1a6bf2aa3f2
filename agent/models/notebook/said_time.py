"""What the words of a sentence say about a time, and the names of days and parts of days that they use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import date
from typing import Final, Literal

from agent.models.notebook.number_words import any_of


def numbered(rows: Iterable[str], first: int) -> dict[str, int]:
    """Return the number of each name; every row of names has one, counted from ``first``."""
    return {name: number for number, names in enumerate(rows, first) for name in names.split()}


WEEKDAYS: Final = numbered(
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
DAY_NAMES: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DAY: Final = rf"\b(?:{any_of(WEEKDAYS)})"
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
DAY_MINUTES: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class Said:
    """What the words of a sentence say about a time. Fields of which nothing is said are empty.

    ``day`` is a day of the calendar, ``weekday`` the next of its name (``coming``: not today), ``date`` month, day and maybe year,
    ``monthday`` a day of a month, ``ahead`` days from today. ``exact``: the time cannot be meant for the other half of the day.
    ``minutes`` from now, or between two times with ``repeats`` "span". ``days``: weekdays that repeat, all of them or the ``nth`` of a
    month. -1 in ``nth`` and ``monthday`` is the last. ``unclear``: why no time can be made of the words.
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
    nth: tuple[int, ...] = ()
    unclear: str = ""

    @property
    def dated(self) -> bool:
        """Whether the words name a day, a span or a repetition, not only a time of day."""
        named = (self.day, self.weekday, self.date, self.monthday, self.ahead)
        return bool(self.repeats or self.minutes or self.unclear) or any(one is not None for one in named)

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
Found = Mapping[str, str]
"""The groups of a match that took part in it, in lower case."""
Reader = Callable[[Found], "Said | None"]
