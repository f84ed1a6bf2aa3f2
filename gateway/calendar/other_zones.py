"""The zone in which an event is written, where that is another one than its owner's."""

from __future__ import annotations

from datetime import UTC, date, datetime, tzinfo
from zoneinfo import ZoneInfo


def zone_written_in(name: str, owners: tzinfo) -> tzinfo | None:
    """Return the zone of this name; None for the owner's own, for one that is unknown, and for UTC, which is where nobody lives."""
    if name in {"", "UTC", str(owners)}:
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError):
        return None


def on_day(begins: datetime, day: date, written_in: tzinfo) -> datetime:
    """Return ``begins`` on another day, both in the owner's zone, at the same time of day of the zone in which the event is written."""
    there = begins.astimezone(written_in).replace(tzinfo=None) + (day - begins.date())
    return there.replace(tzinfo=written_in).astimezone(UTC).astimezone(begins.tzinfo)
