"""Reads schedules as people and models write them, such as ``in 20 minutes``, ``tomorrow at 9``, ``every 2h`` and ``0 9 * * 1-5``."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from gateway.base.errors import ScheduleError
from gateway.base.wall_time import instant_of
from gateway.schedules.schedule import CRON_HINT, FURTHEST, SHORTEST, At, Cron, Every, Schedule, cron

JUST_NOW: Final = timedelta(minutes=1)
"""An instant that passed no longer ago than this is due at once."""
_LONGEST_TEXT: Final = 200
_EXAMPLES: Final = (
    "Write it like `in 20 minutes`, `tomorrow at 9:00`, `2027-03-01 09:00`, `every 2 hours`, "
    "`every weekday at 7:30` or `0 9 * * 1-5`."
)
_UNITS: Final = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hr": 3600, "hour": 3600}
_UNITS_OF_DAYS: Final = {"d": 86_400, "day": 86_400, "w": 604_800, "week": 604_800}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAYS: Final = {name: index for index, day in enumerate(_WEEKDAYS) for name in (day, day[:3], f"{day}s")}
_ORDINALS: Final = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "fifth": 5}
_OF_MONTH: Final = re.compile(rf"({'|'.join(_ORDINALS)}|last) ([a-z]+)( (?:of|in) (?:the|each|every) month)?")
_MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS: Final = (("minute", 59), ("hour", 23), ("day-of-month", 31), ("month", 12), ("weekday", 7))
_AMOUNT: Final = re.compile(r"(\d{1,12})\s*([a-z]+?)s?(?![a-z])\s*(?:,|and\b)?\s*")
_TIME: Final = re.compile(r"(?:at\s+)?(\d{1,2})(?:[:.](\d\d))?(?::00)?\s*(am|pm)?")
_NAMED_TIMES: Final = {
    "noon": time(12),
    "midday": time(12),
    "midnight": time(0),
    "morning": time(9),
    "afternoon": time(15),
    "evening": time(19),
    "night": time(20),
}
"""Times by name. Parts of the day are the hours that the notebook takes them for."""
_TONIGHT: Final = time(20)
"""What "tonight" means without a time, as in the notebook."""
_NOON: Final = 12
_MORNING_BEGINS: Final = 6
"""Tonight at an hour before this one is after midnight."""
_DATED: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:[t ]\s*(?:at\s+)?(\d.*))?")


def zone_named(name: str) -> ZoneInfo:
    """Return the time zone of this name. Raises ScheduleError, with similar names."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        wanted = name[:80].casefold()
        known = {zone.casefold(): zone for zone in available_timezones()}
        known |= {low.rpartition("/")[2]: zone for low, zone in known.items() if "/" in low}
        from difflib import get_close_matches

        similar = list(dict.fromkeys(known[low] for low in get_close_matches(wanted, known, n=3)))
        raise ScheduleError(
            f"there is no time zone {name[:80]!r}", hint=f"Write it like {', '.join(similar or ['Europe/Berlin'])}."
        ) from error


def parse_schedule(text: str, *, zone: ZoneInfo, now: datetime) -> Schedule:
    """Read a schedule. Times without a zone are in ``zone``; a weekday or time alone is the next one after ``now``.

    A time that a clock change leaves out is moved to after the gap, and of one that comes twice the first is meant. An instant that
    passed less than a minute ago is kept (see ``first_instant``). Raises ScheduleError, whose hint has an example that works.
    """
    if len(text) > _LONGEST_TEXT:
        raise ScheduleError(f"a schedule of {len(text)} characters is too long", hint=_EXAMPLES)
    plain = " ".join(text.split())
    words = plain.lower().rstrip(".!")
    fields = words.split()
    if not fields:
        raise ScheduleError("the schedule is empty", hint=_EXAMPLES)
    if fields[0] == "cron" or fields[0].startswith("@") or _looks_like_cron(fields):
        return _cron(plain.removeprefix(plain[:5]) if fields[0] == "cron" else plain, zone, now)
    try:
        return _in_words(words, plain, zone, now)
    except _UnreadSchedule:
        from agent.models.notebook.spoken_schedule import spoken_schedule

        spoken = spoken_schedule(plain, now.astimezone(zone).replace(tzinfo=None))
        if spoken is None or spoken == plain:
            raise
        return parse_schedule(spoken, zone=zone, now=now)


class _UnreadSchedule(ScheduleError):
    """A schedule of which these rules can make nothing."""


def _in_words(words: str, plain: str, zone: ZoneInfo, now: datetime) -> Schedule:
    head = words.partition(" ")[0]
    if head in {"every", "each", "daily", "hourly", "weekly"}:
        return _repeated(words, zone, now)
    if head in {"weekdays", "weekends"}:
        return _repeated(f"every {words}", zone, now)
    if head == "in":
        return At(_ahead(now.replace(microsecond=0) + timedelta(seconds=_from_now(words[3:], plain)), now, zone))
    return At(_once(words, plain, zone, now))


def _looks_like_cron(fields: list[str]) -> bool:
    marks = re.compile(r"[\d*/,#lw-]+|[\d*,#/-]*[a-z]{3}[a-z\d*,#/-]*")
    return (fields[0][0] in "*0123456789" and any("*" in one for one in fields)) or (
        len(fields) in {5, 6} and fields[0][0].isdigit() and all(marks.fullmatch(one) for one in fields)
    )


def _cron(text: str, zone: ZoneInfo, now: datetime) -> Cron:
    text = _MACROS.get(text.strip().lower(), text.strip())
    fields = text.upper().split()
    if text.startswith("@"):
        raise ScheduleError(f"{text!r} is not known", hint=f"Known are {', '.join(_MACROS)}. {CRON_HINT}")
    if len(fields) != len(_FIELDS):
        step = re.fullmatch(r"\*/(\d{1,4})", text)
        hint = f"Every {step[1]} minutes is `*/{step[1]} * * * *`. {CRON_HINT}" if step else CRON_HINT
        raise ScheduleError(
            f"{text!r} has {len(fields)} field{'' if len(fields) == 1 else 's'}; a cron expression has five", hint=hint
        )
    for (name, highest), field in zip(_FIELDS, fields, strict=True):
        for step in re.findall(r"/(\d+)", field):
            if not 0 < int(step) <= highest:
                raise ScheduleError(
                    f"the step /{step} of the {name} does not fit: it is counted from 1 to {highest}",
                    hint="For other intervals write `every 90 minutes`.",
                )
    fields[4] = re.sub(r"(MON|TUE|WED|THU|FRI|SAT|SUN)[A-Z]*DAYS?", r"\1", fields[4])
    fields[4] = re.sub(r"-(SUN|0)(?![A-Z\d])", "-7", fields[4])
    return cron(" ".join(fields), zone, now)


def _repeated(words: str, zone: ZoneInfo, now: datetime) -> Schedule:
    head, _, rest = words.partition(" ")
    if head not in {"every", "each"}:
        if not rest:
            return _cron(f"@{head}", zone, now)
        rest = f"day {rest}" if head == "daily" else rest
    days, at, when = f" {rest}".rpartition(" at ")
    days, when = (days.strip(), when) if at else (rest, "")
    weekdays = _weekdays_in(days)
    if weekdays is None:
        return _interval(words, days, when, now)
    if not when:
        if weekdays != "*":
            raise ScheduleError(f"{words!r} has no time of day", hint=f"Write it like `every {days} at 9:00`.")
        when = f"{now.astimezone(zone):%H:%M}"
    time_of_day = _time_of(when, words)
    return cron(f"{time_of_day.minute} {time_of_day.hour} * * {weekdays}", zone, now)


def _interval(words: str, span: str, when: str, now: datetime) -> Every:
    seconds = _amount(span if span[:1].isdigit() else f"1 {span}", words)
    if when:
        raise ScheduleError(f"{words!r} has both an interval and a time", hint=_EXAMPLES)
    if seconds < SHORTEST:
        raise ScheduleError(f"every {seconds} seconds is too often: a minute is the shortest interval", hint=_EXAMPLES)
    return Every(seconds, now.astimezone(UTC).replace(microsecond=0))


def _weekdays_in(words: str) -> str | None:
    """Return the weekday field for ``day``, ``weekday``, ``weekend``, names of weekdays or one of a month; None for anything else."""
    if words == "day":
        return "*"
    if words in {"weekday", "weekdays", "workday", "working day"}:
        return "1-5"
    if words in {"weekend", "weekends"}:
        return "6,0"
    if (nth := _OF_MONTH.fullmatch(words)) is not None and nth[2] in _DAYS:
        return _nth_weekday(nth[1], (_DAYS[nth[2]] + 1) % 7, of_month=nth[3] is not None)
    names = [one for one in re.split(r"[\s,]+|\band\b", words) if one]
    if not names or not all(one in _DAYS for one in names):
        return None
    return ",".join(str((day + 1) % 7) for day in sorted({_DAYS[one] for one in names}))


def _nth_weekday(ordinal: str, day: int, *, of_month: bool) -> str:
    name = _WEEKDAYS[day - 1].capitalize()
    if not of_month and ordinal not in {"first", "1st", "last"}:  # it may as well be meant for every second week
        raise ScheduleError(
            f"`every {ordinal} {name}` may mean one of each month, or every few weeks",
            hint=f"Write `every {ordinal} {name} of the month at 9:00`, or a cron expression.",
        )
    return f"{day}L" if ordinal == "last" else f"{day}#{_ORDINALS[ordinal]}"


def _amount(words: str, whole: str) -> int:
    """Return the seconds of an amount such as ``20 minutes``, ``1h30m`` or ``an hour``."""
    words = re.sub(r"^(?:an?|one)\s+(?:(half)\s+(?:an?\s+)?)?", lambda found: "30 min of " if found[1] else "1 ", words)
    words = re.sub(r"^half an hour$|^30 min of hour$", "30 minutes", words)
    units, total, place = _UNITS | _UNITS_OF_DAYS, 0, 0
    while place < len(words) or not words:
        found = _AMOUNT.match(words, place)
        if found is None or found[2] not in units:
            raise _UnreadSchedule(f"{whole!r} is not a time span", hint=_EXAMPLES)
        total += int(found[1]) * units[found[2]]
        place = found.end()
    if total > FURTHEST.total_seconds():
        raise ScheduleError(f"{whole!r} is too long a time span", hint=_EXAMPLES)
    return total


def _from_now(words: str, whole: str) -> int:
    seconds = _amount(words, whole)
    if seconds == 0:
        raise ScheduleError(f"{whole!r} is now, which is no time to come", hint="Write it like `in 20 minutes`.")
    return seconds


def _time_of(words: str, whole: str) -> time:
    if words.removeprefix("at ") in _NAMED_TIMES:
        return _NAMED_TIMES[words.removeprefix("at ")]
    found = _TIME.fullmatch(words)
    hour, minute = (int(found[1]), int(found[2] or 0)) if found else (99, 0)
    if found and found[3]:
        hour = hour % 12 + (12 if found[3] == "pm" else 0) if 1 <= hour <= 12 else 99  # noqa: PLR2004
    if found is None or hour > 23 or minute > 59:  # noqa: PLR2004
        raise _UnreadSchedule(f"{words!r} in {whole!r} is not a time of day", hint=_EXAMPLES)
    return time(hour, minute)


def _once(words: str, plain: str, zone: ZoneInfo, now: datetime) -> datetime:
    local = now.astimezone(zone)
    words = re.sub(r"^(?:at|on)\s+(?!\d{1,2}(?:[:.]\d\d)?\s*(?:am|pm)?$)", "", words)
    dated = _DATED.fullmatch(words)
    if dated is not None:
        return _ahead(_dated(dated[1], dated[2] or "", plain, zone), now, zone)
    day, _, rest = re.sub(r"^this (?=morning|afternoon|evening)", "today ", words).partition(" ")
    if day == "tonight":
        return _ahead(_tonight(rest, plain, local, zone), now, zone)
    if day in {"today", "tomorrow"} and rest:
        days = 0 if day == "today" else 1
        return _ahead(_local(local.date() + timedelta(days=days), _time_of(rest, plain), zone), now, zone)
    if day in _DAYS and rest:
        at, days = _time_of(rest, plain), (_DAYS[day] - local.weekday()) % 7
        found = _local(local.date() + timedelta(days=days), at, zone)
        return found if found > now else _local(local.date() + timedelta(days=days + 7), at, zone)
    if day in {"today", "tomorrow", *_DAYS}:
        raise ScheduleError(f"{plain!r} has no time of day", hint=f"Write it like `{day} at 9:00`.")
    if not _TIME.fullmatch(words) and words.removeprefix("at ") not in _NAMED_TIMES:
        raise _UnreadSchedule(f"{plain!r} is not a schedule", hint=_EXAMPLES)
    at = _time_of(words, plain)
    found = _local(local.date(), at, zone)
    return found if found > now else _local(local.date() + timedelta(days=1), at, zone)


def _tonight(rest: str, plain: str, local: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant of "tonight", or of "tonight at 8": an hour up to 11 is in the evening unless it is before six or says am."""
    at = _time_of(rest, plain) if rest else _TONIGHT
    half_open = re.fullmatch(r"(?:at\s+)?[1-9]\d?(?:[:.]\d\d)?", rest) is not None
    if half_open and _MORNING_BEGINS <= at.hour < _NOON:
        at = at.replace(hour=at.hour + _NOON)
    elif half_open and at.hour == _NOON:
        at = at.replace(hour=0)
    return _local(local.date() + timedelta(days=1 if at.hour < _MORNING_BEGINS else 0), at, zone)


def _dated(day: str, when: str, plain: str, zone: ZoneInfo) -> datetime:
    if not when:
        raise ScheduleError(f"{plain!r} has no time of day", hint=f"Write it like `{day} 09:00`.")
    try:
        whole = datetime.fromisoformat(f"{day}T{when.upper().replace(' ', '')}")
    except ValueError:
        try:
            return _local(date.fromisoformat(day), _time_of(when, plain), zone)
        except ValueError as error:
            raise ScheduleError(f"{plain!r} is not a date: {error}", hint=_EXAMPLES) from error
    try:
        return whole.astimezone(UTC) if whole.tzinfo else _local(whole.date(), whole.time(), zone)
    except (OverflowError, ValueError) as error:
        raise ScheduleError(f"{plain!r} is too far away", hint=_EXAMPLES) from error


def _local(day: date, at: time, zone: ZoneInfo) -> datetime:
    """Return a local time as UTC. Raises ScheduleError beyond the end of the calendar."""
    try:
        return instant_of(day, at, zone)
    except OverflowError as error:
        raise ScheduleError(f"{day} is too far away", hint=_EXAMPLES) from error


def _ahead(instant: datetime, now: datetime, zone: ZoneInfo) -> datetime:
    """Return ``instant`` in UTC unless it is past or too far ahead."""
    instant = instant.astimezone(UTC)
    if instant - now > FURTHEST:
        raise ScheduleError(f"{instant:%Y-%m-%d} is too far away", hint=_EXAMPLES)
    if now - instant >= JUST_NOW:
        local, here = instant.astimezone(zone), now.astimezone(zone)
        following = _local(here.date(), local.time(), zone)
        if following <= now:
            following = _local(here.date() + timedelta(days=1), local.time(), zone)
        raise ScheduleError(
            f"{local:%Y-%m-%d %H:%M} is in the past; it is {here:%Y-%m-%d %H:%M} now",
            hint=f"The next {local:%H:%M} is `{following.astimezone(zone):%Y-%m-%d %H:%M}`.",
        )
    return instant
