"""Works out when a reminder is due: what a sentence says about a time, seen from now, in the terms of the tool ``cron``."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from agent.models.notebook.said_time import DAY_NAMES, EVERY_DAY, PARTS, Said

_DEFAULT_HOUR: Final = 9
"""The hour of a reminder for which only a day was named."""
_CRON_DAYS: Final = (1, 2, 3, 4, 5, 6, 0)
"""The weekdays from Monday on, as cron expressions number them."""
_LAST_DAY_EVERYWHERE: Final = 28
MONTHS_LEFT_OUT: Final = "Months without a day"
"""How the note begins that says so."""
_NIGHT: Final = frozenset({"night", "nacht"})
_MORNING_BEGINS: Final = 6
_NOON: Final = 12


@dataclass(frozen=True, slots=True)
class When:
    """When a reminder is due, as the tool ``cron`` takes it, and sentences that say what was assumed.

    ``text`` is a local time such as ``2026-11-24T09:00``, or ``in 20 minutes``, ``every 2h`` or a cron expression. ``repeats``: more than
    once.
    """

    text: str
    notes: tuple[str, ...] = ()
    repeats: bool = False


class UnclearTime(ValueError):
    """Raised for time words of which no reminder can be made. Its text says why, and what to say instead."""


def when_of(said: Said, now: datetime) -> When:
    """Return when a reminder is due. ``now`` is the owner's local time, without a zone.

    Raises:
        UnclearTime: of these words no time can be made; the text is empty if there are none.
    """
    if said.unclear:
        raise UnclearTime(said.unclear)
    try:
        if said.repeats:
            return _repeated(said, now)
        if said.minutes:
            return _after(said)
        return _once(said, now)
    except (OverflowError, ValueError) as error:
        if isinstance(error, UnclearTime):
            raise
        raise UnclearTime("That day is not in the calendar. Write it as 2026-12-24 09:00.") from error


def _after(said: Said) -> When:
    if said.timed:
        raise UnclearTime("I can go by “in 20 minutes” or by “at 9”, not by both. Say one of them.")
    if said.minutes < 1:
        return When(f"in {max(1, round(said.minutes * 60))} seconds")
    minutes = round(said.minutes)
    return When(f"in {minutes} minute{'' if minutes == 1 else 's'}")


def _repeated(said: Said, now: datetime) -> When:
    if said.repeats == "span":
        if said.timed:
            raise UnclearTime(
                "I cannot repeat after a number of days at a fixed time. Say days instead: “every Monday and Thursday at 9”."
            )
        minutes = round(said.minutes)
        return When(f"every {minutes // 60}h" if minutes % 60 == 0 else f"every {minutes}m", repeats=True)
    (hour, minute), notes = _time(said)
    notes = (*notes, *_early(said))
    if said.repeats == "days":
        return When(f"{minute} {hour} * * {_cron_days(said)}", notes, repeats=True)
    if said.repeats == "week":
        weekday = said.weekday if said.weekday is not None else now.weekday()
        more = () if said.weekday is not None else (f"You named no day, so I took {DAY_NAMES[weekday]}.",)
        return When(f"{minute} {hour} * * {_CRON_DAYS[weekday]}", (*notes, *more), repeats=True)
    if said.repeats == "month":
        day = said.monthday or now.day
        if said.monthday == -1:
            return When(f"{minute} {hour} L * *", notes, repeats=True)
        more = () if said.monthday else (f"You named no day, so I took the {day}.",)
        if day > _LAST_DAY_EVERYWHERE:
            more = (*more, f"{MONTHS_LEFT_OUT} {day} are left out.")
        return When(f"{minute} {hour} {day} * *", (*notes, *more), repeats=True)
    if said.date is None:
        raise UnclearTime("Say on which day of the year: “every year on 24 December at 9”.")
    month, day, _ = said.date
    more = ("That is once in four years.",) if (month, day) == (2, 29) else ()
    return When(f"{minute} {hour} {day} {month} *", (*notes, *more), repeats=True)


def _cron_days(said: Said) -> str:
    if said.days == EVERY_DAY:
        return "*"
    named = sorted(_CRON_DAYS[day] for day in said.days)
    if said.nth:
        return ",".join(f"{day}L" if nth < 0 else f"{day}#{nth}" for day in named for nth in said.nth)
    return "1-5" if named == [1, 2, 3, 4, 5] else ",".join(map(str, named))


def _time(said: Said) -> tuple[tuple[int, int], tuple[str, ...]]:
    """Return hour and minute, and what was assumed."""
    hour, half = PARTS.get(said.part, (_DEFAULT_HOUR, ""))
    if said.time is None:
        return (hour, 0), () if said.part else ("You named no time, so I took 09:00.",)
    hour, minute = said.time
    if said.part in _NIGHT and hour == _NOON:  # "tonight at 12"
        return (0, minute), ()
    if half == "pm" and _is_open(said) and not (said.part in _NIGHT and hour < _MORNING_BEGINS):
        hour += _NOON
    return (hour, minute), ()


def _early(said: Said) -> tuple[str, ...]:
    """Say what was assumed of an hour before the morning, of which the afternoon may be meant."""
    if said.time is None or said.part or not _is_open(said) or said.time[0] >= _MORNING_BEGINS:
        return ()
    hour, minute = said.time
    return (f"I took {hour:02}:{minute:02} in the night; say {hour + _NOON}:{minute:02} if you meant that.",)


def _is_open(said: Said) -> bool:
    """Whether the time may be meant for either half of the day."""
    return said.time is not None and not said.exact and 0 < said.time[0] < _NOON


def _once(said: Said, now: datetime) -> When:
    if not said.dated and not said.timed:
        raise UnclearTime("")
    (hour, minute), notes = _time(said)
    if said.day is not None or said.ahead is not None:
        return _on_a_day(said, now, (hour, minute), notes)
    if said.dated:
        notes = (*notes, *_early(said))
    if said.weekday is not None:
        return _on_a_weekday(said, now, (hour, minute), notes)
    if said.date is not None:
        return _on_a_date(said.date, now, (hour, minute), notes)
    if said.monthday is not None:
        return _on_a_monthday(said.monthday, now, (hour, minute), notes)
    if _instant(now.date(), hour, minute) > now:
        return _at(now.date(), hour, minute, notes)
    open_still = _is_open(said) and hour < _NOON and _instant(now.date(), hour + _NOON, minute) > now
    hint = f" If you meant {hour + _NOON}:{minute:02} today, say so." if open_still else ""
    past = f"{hour:02}:{minute:02} is past for today, so I took tomorrow.{hint}"
    return _at(now.date() + timedelta(days=1), hour, minute, (*notes, past))


def _on_a_day(said: Said, now: datetime, time: tuple[int, int], notes: tuple[str, ...]) -> When:
    day, (hour, minute) = said.day or now.date() + timedelta(days=said.ahead or 0), time
    if said.part in _NIGHT and hour < _MORNING_BEGINS:  # "tonight at 1"
        day += timedelta(days=1)
    if _instant(day, hour, minute) > now:
        return _at(day, hour, minute, (*notes, *(_early(said) if day > now.date() else ())))
    if day == now.date() and not said.timed:
        raise UnclearTime("Say at what time today, such as “today at 18:00”.")
    if day == now.date() and _is_open(said) and hour < _NOON and not said.part and _instant(day, hour + _NOON, minute) > now:
        return _at(day, hour + _NOON, minute, (*notes, f"{hour:02}:{minute:02} is past, so I took {hour + _NOON}:{minute:02}."))
    raise UnclearTime(f"{day:%A}, {day.day} {day:%B %Y} at {hour:02}:{minute:02} is past. Say a time to come.")


def _on_a_weekday(said: Said, now: datetime, time: tuple[int, int], notes: tuple[str, ...]) -> When:
    assert said.weekday is not None
    ahead = (said.weekday - now.weekday()) % 7
    name = DAY_NAMES[said.weekday]
    if ahead == 0 and (said.coming or _instant(now.date(), *time) <= now):
        ahead = 7
    elif ahead == 0:
        notes = (*notes, f"Today is {name}, so I took today; say “next {name}” for the one in a week.")
    return _at(now.date() + timedelta(days=ahead), *time, notes)


def _on_a_date(named: tuple[int, int, int | None], now: datetime, time: tuple[int, int], notes: tuple[str, ...]) -> When:
    month, day, year = named
    if year is not None:
        if _instant(date(year, month, day), *time) <= now:
            raise UnclearTime(f"{day} {date(year, month, day):%B %Y} is past. Say a day to come.")
        return _at(date(year, month, day), *time, notes)
    for one in range(now.year, now.year + 9):  # a 29 February comes within eight years
        if day <= monthrange(one, month)[1] and _instant(date(one, month, day), *time) > now:
            return _at(date(one, month, day), *time, notes)
    raise UnclearTime("That day is not in the calendar. Write it as 2026-12-24 09:00.")


def _on_a_monthday(day: int, now: datetime, time: tuple[int, int], notes: tuple[str, ...]) -> When:
    month = now.date().replace(day=1)
    while day > monthrange(month.year, month.month)[1] or _instant(month.replace(day=day), *time) <= now:
        month = (month + timedelta(days=31)).replace(day=1)
    return _at(month.replace(day=day), *time, notes)


def _instant(day: date, hour: int, minute: int) -> datetime:
    return datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 -- the owner's local time


def _at(day: date, hour: int, minute: int, notes: tuple[str, ...]) -> When:
    return When(f"{day.isoformat()}T{hour:02}:{minute:02}", notes)
