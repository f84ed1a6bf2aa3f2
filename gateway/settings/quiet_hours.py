"""The settings ``quietHours`` and ``unaskedPerDay``, and the decision when a message is sent that nobody asked for. Pure."""

import re
from datetime import date, datetime, time, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from msgspec import Struct
from pydantic import AfterValidator, Field, model_validator

from agent.section import Section
from gateway.base.wall_time import instant_of

_DAY_END = "24:00"
_TIME = re.compile(r"(?:[01]?\d|2[0-3]):[0-5]\d")


def _time_of_day(text: str) -> str:
    if _TIME.fullmatch(text.strip()) is None:
        raise ValueError(f"{text!r} is no time of day; write it like 22:00 or 07:30")
    return text.strip().rjust(5, "0")


def _end_of_hours(text: str) -> str:
    return _DAY_END if text.strip() == _DAY_END else _time_of_day(text)


class DailyHours(Section):
    """Hours of each day, from ``start`` to ``end``. If the end is the earlier time of day, it belongs to the next day."""

    start: Annotated[str, AfterValidator(_time_of_day)]
    """Time of day at which the hours begin, such as `22:00`, in the owner's time zone."""
    end: Annotated[str, AfterValidator(_end_of_hours)]
    """Time of day at which they end, such as `07:00`, on the next day if that is earlier than `start`; `24:00` is midnight."""

    @model_validator(mode="after")
    def _has_length(self) -> "DailyHours":
        if self.start == self.end:
            raise ValueError(f"start and end are both {self.start}; leave the setting out for no such hours")
        return self

    def current(self, now: datetime, zone: ZoneInfo, *, at_least: bool = False) -> tuple[datetime, datetime] | None:
        """Return the hours that ``now`` lies in, as instants in UTC: the first, and the first one after them. None outside of them.

        Where clocks are set back and they begin or end at a time that occurs twice, the hours are the longer ones, or with ``at_least``
        the shorter ones.
        """
        day = now.astimezone(zone).date()
        found = (self._of(day + timedelta(days=offset), zone, longer=not at_least) for offset in range(-2, 2))
        return next((hours for hours in found if hours[0] <= now < hours[1]), None)

    def next_start(self, now: datetime, zone: ZoneInfo) -> datetime:
        """Return the first instant after ``now`` at which the hours begin, in UTC."""
        day = now.astimezone(zone).date()
        starts = (self._of(day + timedelta(days=offset), zone)[0] for offset in range(-1, 4))
        return min(start for start in starts if start > now)

    def _of(self, day: date, zone: ZoneInfo, *, longer: bool = True) -> tuple[datetime, datetime]:
        last_day = day if self.end > self.start else day + timedelta(days=1)
        if self.end == _DAY_END:
            last_day += timedelta(days=1)
        start = instant_of(day, _time(self.start), zone, last=not longer)
        end = instant_of(last_day, _time(self.end), zone, last=longer)
        return start, end if end > start else instant_of(last_day, _time(self.end), zone, last=True)


def _time(text: str) -> time:
    hour, _, minute = text.partition(":")
    return time(int(hour) % 24, int(minute))


class UnaskedSettings(Section):
    """Messages that nobody asked for: of jobs, heartbeats, webhooks and other agents. Replies to people are none of these."""

    quiet_hours: DailyHours | None = Field(default=None, json_schema_extra={"reload": "hot"})
    """Hours in which such messages are held back, unless they are urgent; they are sent when the hours end. Unset: none."""
    unasked_per_day: Annotated[int, Field(ge=0, le=10_000)] = Field(default=20, json_schema_extra={"reload": "hot"})
    """How many messages that nobody asked for an agent sends in a day; further ones are kept, and `homebody outbox held` lists them."""

    @model_validator(mode="after")
    def _quiet_hours_end(self) -> "UnaskedSettings":
        if self.quiet_hours is not None and (self.quiet_hours.start, self.quiet_hours.end) == ("00:00", _DAY_END):
            raise ValueError("quietHours of the whole day would hold messages for ever; unaskedPerDay: 0 keeps all of them")
        return self


class UnaskedRule(Struct, frozen=True, kw_only=True):
    """When messages are sent that nobody asked for. ``zone`` is the owner's; ``per_day`` None means any number."""

    zone: ZoneInfo
    quiet: DailyHours | None = None
    per_day: int | None = None

    def day(self, now: datetime) -> str:
        """Return the owner's date, by which messages are counted (``YYYY-MM-DD``)."""
        return f"{now.astimezone(self.zone):%Y-%m-%d}"

    def quiet_until(self, now: datetime) -> datetime | None:
        """Return when the quiet hours end that ``now`` lies in, or None."""
        current = self.quiet.current(now, self.zone) if self.quiet else None
        return current[1] if current else None

    def next_quiet(self, now: datetime) -> datetime | None:
        """Return when the next quiet hours begin: a message that was not sent by then waits for their end."""
        return self.quiet.next_start(now, self.zone) if self.quiet else None

    def decide(self, now: datetime, sent_today: int) -> Literal["send", "hold", "keep"]:
        """Decide on one message: ``hold`` it until the quiet hours end, or ``keep`` it, as the daily number is reached."""
        if self.quiet_until(now) is not None:
            return "hold"
        return "keep" if self.per_day is not None and sent_today >= self.per_day else "send"


def rule_of(settings: UnaskedSettings, zone: ZoneInfo) -> UnaskedRule:
    """Return the rule of an agent's settings."""
    return UnaskedRule(zone=zone, quiet=settings.quiet_hours, per_day=settings.unasked_per_day)
