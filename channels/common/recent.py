"""A bounded mapping for what may be forgotten."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
MOST = 1000


class Recent(Generic[K, V]):
    """A bounded mapping: the oldest entry is removed first."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._kept: dict[K, V] = {}

    def put(self, key: K, value: V) -> None:
        """Store a value, in place of an earlier one."""
        self._kept.pop(key, None)
        self._kept[key] = value
        while len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]

    def get(self, key: K) -> V | None:
        """Return a value that is still kept."""
        return self._kept.get(key)

    def take(self, key: K) -> V | None:
        """Return a value and forget it."""
        return self._kept.pop(key, None)

    def __len__(self) -> int:
        return len(self._kept)
