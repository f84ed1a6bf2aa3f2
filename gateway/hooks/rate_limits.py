"""Rate limits: token buckets, one for each hook that is called, and one for each address that offers wrong credentials."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from math import ceil
from typing import Final

MOST_KEPT: Final = 1024
"""Buckets in memory. The one that was used longest ago is given up first, which is full again by then, or nearly so."""

_ROUNDING: Final = 1e-9


class RateLimits:
    """Token buckets by name. ``monotonic`` gives seconds. Kept in memory alone: a restart fills them again."""

    def __init__(self, monotonic: Callable[[], float], most: int = MOST_KEPT) -> None:
        self._monotonic = monotonic
        self._most = most
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, *, burst: int, per_minute: int) -> int:
        """Take one from a bucket that holds ``burst`` and gains ``per_minute``. Return 0, or in how many seconds there is one again."""
        now = self._monotonic()
        left, since = self._buckets.pop(name, (float(burst), now))
        left = min(float(burst), left + (now - since) * per_minute / 60)
        wait = 0 if left >= 1 - _ROUNDING else max(1, ceil((1 - left) * 60 / per_minute))
        self._buckets[name] = (left if wait else left - 1, now)
        while len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait

    def give_back(self, name: str, *, burst: int) -> None:
        """Put back what was taken for something that does not count."""
        if name in self._buckets:
            left, since = self._buckets[name]
            self._buckets[name] = (min(float(burst), left + 1), since)

    def forget(self, name: str) -> None:
        """Fill a bucket again."""
        self._buckets.pop(name, None)
