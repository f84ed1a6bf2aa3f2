"""When a backup is due, and what became of the last one: ``state/backup.json``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from gateway.base.atomic_file import write_atomically
from gateway.base.wall_time import instant_of
from gateway.settings.backup_settings import schedule_parts

FILE_NAME: Final = "backup.json"
AGAIN_AFTER: Final = timedelta(hours=1)
"""How long after a failure another one is tried."""
_WEEK: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBackup:
    """The last scheduled backup. ``failed`` is why it failed, or empty; ``told`` whether the owner heard of that.

    ``file`` is the last one that was made, and ``apart`` whether that lay on another disk than the home.
    """

    tried: str
    file: str = ""
    failed: str = ""
    told: bool = False
    apart: bool = False


def latest_due(schedule: str, now: datetime, zone: ZoneInfo) -> datetime | None:
    """Return the latest instant of a schedule that is not after ``now``; None for one that is off."""
    parts = schedule_parts(schedule)
    if parts is None:
        return None
    weekday, hour, minute = parts
    today = now.astimezone(zone).date()
    for days in range(_WEEK + 1):
        day = today - timedelta(days=days)
        instant = instant_of(day, time(hour, minute), zone)
        if instant <= now and weekday in {None, day.weekday()}:
            return instant
    return None


def is_due(schedule: str, last: LastBackup | None, now: datetime, zone: ZoneInfo) -> bool:
    """Return whether a backup is due: the first one at once, others at their time, and one that failed again after an hour.

    An instant that passed while the gateway was off is made up. A clock that was set back never makes one wait longer than its schedule.
    """
    due = latest_due(schedule, now, zone)
    if due is None:
        return False
    if last is None:
        return True
    tried = datetime.fromisoformat(last.tried)
    if tried > now:
        return now + timedelta(days=_WEEK) < tried
    return tried < due or (bool(last.failed) and now - tried >= AGAIN_AFTER)


def read_last(state: Path) -> LastBackup | None:
    """Return what became of the last one; None where nothing is known. Blocking."""
    try:
        raw = json.loads((state / FILE_NAME).read_bytes())
        last = LastBackup(**{name: raw[name] for name in LastBackup.__dataclass_fields__ if name in raw})
        return last if datetime.fromisoformat(last.tried).tzinfo else None
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_last(state: Path, last: LastBackup) -> None:
    """Remember what became of the last one. Blocking; raises OSError."""
    write_atomically(state / FILE_NAME, json.dumps(asdict(last), ensure_ascii=False), durable=True)
