"""A bounded cache whose entries expire."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

V = TypeVar("V")
MAX_CHARS: Final = 4_000_000
MAX_ENTRIES: Final = 64


class ExpiringCache(Generic[V]):
    """Keeps values for a while, and of many the newest: at most ``MAX_ENTRIES`` of together ``MAX_CHARS`` characters."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._kept: OrderedDict[Hashable, tuple[datetime, int, V]] = OrderedDict()

    def get(self, key: Hashable, now: datetime) -> V | None:
        """Return a value that has not expired."""
        found = self._kept.get(key)
        if found is None or not timedelta(0) <= now - found[0] < timedelta(seconds=self._seconds):
            return None
        return found[2]

    def put(self, key: Hashable, value: V, chars: int, now: datetime) -> None:
        """Keep a value of so many characters, and forget what has expired or is too much."""
        self._kept.pop(key, None)
        self._kept[key] = (now, chars, value)
        for old in [one for one in self._kept if self.get(one, now) is None]:
            del self._kept[old]
        while len(self._kept) > MAX_ENTRIES or sum(size for _, size, _ in self._kept.values()) > MAX_CHARS:
            self._kept.popitem(last=False)
