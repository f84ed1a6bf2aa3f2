"""The reset rule of sessions, used by the scheduler and by incoming messages."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from gateway.base.wall_time import instant_of
from gateway.settings.session import ResetSettings

Due = Literal["daily", "idle"]


def due(settings: ResetSettings, *, started: datetime, spoken: datetime, now: datetime, zone: ZoneInfo) -> Due | None:
    """Return whether a session is due for a reset now, and why.

    ``started`` is when it began, ``spoken`` when a person last wrote in it (heartbeats and schedules do not count). A daily
    reset is due once the day's boundary lies behind the start, and waits until nobody wrote for ``deferMinutes``.
    """
    silent = now - spoken
    if "idle" in settings.mode and silent >= timedelta(minutes=settings.idle_minutes):
        return "idle"
    if "daily" in settings.mode and started < boundary(now, settings.at_hour, zone):
        return "daily" if silent >= timedelta(minutes=settings.defer_minutes) else None
    return None


def next_due(settings: ResetSettings, *, started: datetime, spoken: datetime, now: datetime, zone: ZoneInfo) -> datetime | None:
    """Return the earliest instant, not before ``now``, at which a reset can be due if nobody writes, or None."""
    instants = []
    if "idle" in settings.mode:
        instants.append(spoken + timedelta(minutes=settings.idle_minutes))
    if "daily" in settings.mode:
        quiet = spoken + timedelta(minutes=settings.defer_minutes)
        passed = started < boundary(now, settings.at_hour, zone)
        edge = now if passed else boundary(now, settings.at_hour, zone, following=True)
        instants.append(max(quiet, edge))
    return max(now, min(instants)) if instants else None


def boundary(now: datetime, hour: int, zone: ZoneInfo, *, following: bool = False) -> datetime:
    """Return the latest instant not after ``now`` at which it was ``hour`` o'clock in ``zone`` (or the next one after it), in UTC.

    An hour that occurs twice counts the first time; one that does not occur counts at the first instant after the gap.
    """
    day = now.astimezone(zone).date() - timedelta(days=1)
    instants = [instant_of(day + timedelta(days=offset), time(hour), zone) for offset in range(4)]
    if following:
        return min(instant for instant in instants if instant > now)
    return max(instant for instant in instants if instant <= now)
