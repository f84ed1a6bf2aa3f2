"""Converts times of day to instants, across changes of the clocks."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

_WIDEST_GAP = timedelta(hours=26)
"""More than any change of the clocks: the largest left out a whole day (Samoa, 30 December 2011)."""


@lru_cache(maxsize=256)
def instant_of(day: date, at: time, zone: ZoneInfo, *, last: bool = False) -> datetime:
    """Return the instant, in UTC, at which clocks in ``zone`` show ``at`` on ``day``.

    A time that occurs twice counts the first time, or with ``last`` the second; one that does not occur counts at the first instant
    after the gap.
    """
    local = datetime.combine(day, at, tzinfo=zone).replace(fold=int(last))
    instant = local.astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None, fold=0) == local.replace(tzinfo=None, fold=0):
        return instant
    return _after_gap(local, zone)


def _after_gap(local: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant at which clocks jump over ``local``: found by halving, to the second."""
    low = (local - _WIDEST_GAP).astimezone(UTC)
    high = (local + _WIDEST_GAP).astimezone(UTC)
    wanted = local.replace(tzinfo=None, fold=0)
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        if middle.astimezone(zone).replace(tzinfo=None, fold=0) >= wanted:
            high = middle
        else:
            low = middle
    return high.replace(microsecond=0) + timedelta(seconds=high.microsecond > 0)
