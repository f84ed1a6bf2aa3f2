"""Results of a function that are asked for again and again, kept within a number of characters."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

LEAST, MOST = 250_000, 4_000_000
"""Characters of which results are kept: as few as that, and up to so many where all of them are asked for again."""
_DROPPED = 10_000
"""How many dropped arguments are known: one that is asked for again was dropped too early."""
_MARKS = 65_536
"""Bytes in which they are marked, by their hashes. As a set they would take a megabyte after some weeks."""
_EACH = 300
"""Characters that each result counts for besides its own: what keeping it costs."""


class RecentResults(Generic[Key, Value]):
    """Results by argument, for as long as they were asked for lately.

    There are two halves. What is asked for moves into the young one; when that is full, the old one is dropped, and the young one is the
    old one from then on. A half grows while most of it is asked for again, as with a long history that is looked through at each turn,
    so that a gateway keeps no words of conversations that are over. An entry of ``functools.lru_cache`` stays until so many others came,
    however long they are.
    """

    def __init__(
        self, compute: Callable[[Key], Value], size: Callable[[Key], int], least: int = LEAST, most: int = MOST
    ) -> None:
        self._compute = compute
        self._size = size
        self._least = self._room = least
        self._most = most
        self._young: dict[Key, Value] = {}
        self._old: dict[Key, Value] = {}
        self._dropped = bytearray()
        self._known = 0
        self._held = self._again = 0

    def __call__(self, key: Key) -> Value:
        """Return the result for an argument."""
        found = self._young.get(key)
        return self._take(key) if found is None else found

    def __len__(self) -> int:
        """How many results are kept."""
        return len(self._young) + len(self._old)

    def _take(self, key: Key) -> Value:
        size = self._size(key) + _EACH
        found = self._old.pop(key, None)
        if found is not None or (self._dropped and self._dropped[hash(key) % _MARKS]):
            self._again += size
        if found is None:
            found = self._compute(key)
        if self._held + size > self._room and self._young:
            wanted = self._again * 2 > self._held
            self._room = min(self._most, self._room * 2) if wanted else self._least
            if not wanted or self._held + size > self._room:
                self._remember(self._old)
                self._old, self._young = self._young, {}
                self._held = self._again = 0
        self._young[key] = found
        self._held += size
        return found

    def _remember(self, dropped: Iterable[Key]) -> None:
        """Mark arguments whose results are dropped."""
        if not self._dropped or self._known > _DROPPED:
            self._dropped, self._known = bytearray(_MARKS), 0
        for key in dropped:
            self._dropped[hash(key) % _MARKS] = 1
            self._known += 1
