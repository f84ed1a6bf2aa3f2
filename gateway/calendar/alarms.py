"""Alarms of events as reminders: kept in step with the calendars, each sent once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from gateway.calendar.calendar_source import CalendarSource, Event
from gateway.calendar.period import span_in_words

EVERY: Final = timedelta(minutes=15)
"""How often calendars are looked at."""
AHEAD: Final = timedelta(hours=36)
"""Alarms within this time become reminders."""
LATE: Final = EVERY + timedelta(minutes=5)
"""An alarm of an event that was stored after its instant, or just before, is still sent within this time."""
LONGEST_LEAD: Final = timedelta(days=31)
"""Alarms are found up to so long before an event."""
MOST: Final = 100
"""Reminders of one account at a time, the earliest."""
_LONGEST: Final = 500
_SOON: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alarm that is to be sent. ``key`` is the account, the event and the instant that the calendar says; ``at`` is when it is sent."""

    key: str
    at: datetime
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """A reminder that there is. ``open``: it has not been sent yet. ``removed``: a person has removed it."""

    id: str
    key: str
    at: datetime | None
    text: str
    open: bool
    removed: bool = False


class Reminders(Protocol):
    """The reminders that are made of the alarms of one account."""

    async def all(self) -> Sequence[Reminder]:
        """Return them, also those that were sent, and before them those that people removed."""
        ...

    async def add(self, alarm: Alarm) -> None:
        """Set one up."""
        ...

    async def change(self, reminder: str, alarm: Alarm) -> None:
        """Give one another text."""
        ...

    async def remove(self, reminder: str) -> None:
        """Take one back."""
        ...


def alarms_of(events: Iterable[Event], account: str, zone: ZoneInfo, now: datetime) -> Sequence[Alarm]:
    """Return the alarms that are due from just now to ``AHEAD``, each once, in order."""
    found: dict[str, Alarm] = {}
    for event in events:
        one = event.instance
        if one["status"] == "CANCELLED":
            continue
        name = "".join(char for char in one["title"] if char.isprintable())[:60] or "(no title)"
        place = f", {one['place']}" if one["place"] else ""
        text = f"{name}: {span_in_words(one, zone, now.astimezone(zone))}{place} (calendar {event.calendar.name})"[:_LONGEST]
        for said in one["alarms"]:
            at = datetime.fromisoformat(said).astimezone(UTC)
            if now - LATE < at <= now + AHEAD:
                key = f"calendar:{account}:{event.key}:{at:%Y%m%dT%H%M%SZ}"
                found.setdefault(key, Alarm(key=key, at=max(at, now + _SOON), name=name, text=text))
    return sorted(found.values(), key=lambda one: (one.at, one.key))[:MOST]


async def keep_in_step(source: CalendarSource, reminders: Reminders, zone: ZoneInfo, now: datetime) -> Mapping[str, int]:
    """Set up, change and take back reminders, so that they are as the calendar says; return how many of each.

    Those that were sent stay sent, whatever the calendar says, and one that was removed comes again only with another text. Raises
    CalendarFailed, before anything is changed.
    """
    reading = await source.read(now - timedelta(days=1), now + AHEAD + LONGEST_LEAD, zone)
    wanted = {one.key: one for one in alarms_of(reading.events, source.account.name, zone, now)}
    known = {one.key: one for one in await reminders.all()}
    done = {"added": 0, "changed": 0, "removed": 0, "open": 0}
    for key, alarm in wanted.items():
        there = known.get(key)
        if there is None or (there.removed and there.text != alarm.text):
            await reminders.add(alarm)
            done["added"] += 1
        elif there.open and there.text != alarm.text:
            await reminders.change(there.id, alarm)
            done["changed"] += 1
    for key, one in known.items():
        if one.open and key not in wanted and one.at is not None and one.at > now:
            await reminders.remove(one.id)
            done["removed"] += 1
    done["open"] = sum(one.at > now for one in wanted.values())
    return done
