"""Which copies are kept: of the latest days, weeks and months that have any, the last one of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from datetime import datetime
from zoneinfo import ZoneInfo

from gateway.settings.backup_settings import KeepSettings


def kept(made: Collection[datetime], keep: KeepSettings, zone: ZoneInfo) -> set[datetime]:
    """Return which of the copies made at these instants are kept; the newest always is.

    Days, weeks (from Monday) and months are those of ``zone``, and count only if they have a copy: a machine that was off for a year loses
    nothing by it.
    """
    newest_first = sorted(set(made), reverse=True)
    rules: tuple[tuple[int, Callable[[datetime], Hashable]], ...] = (
        (keep.daily, lambda at: at.date()),
        (keep.weekly, lambda at: at.isocalendar()[:2]),
        (keep.monthly, lambda at: (at.year, at.month)),
    )
    result = set(newest_first[:1])
    for count, period_of in rules:
        last_of: dict[Hashable, datetime] = {}
        for instant in newest_first:
            last_of.setdefault(period_of(instant.astimezone(zone)), instant)
        result |= set(list(last_of.values())[:count])
    return result
