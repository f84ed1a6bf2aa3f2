"""Numbers by path, in 10 to 25 bytes each: of a path only a hash is kept, so that its owner tells what a number stands for."""

from __future__ import annotations

from array import array
from typing import Final, Literal

_LEAST: Final = 64
_FULL: Final = 0.8
"""From which share of taken slots on there are more of them."""
_MORE: Final = 1.5
_HASH: Final = 0xFFFFFFFF


class PathTable:
    """An open-addressed hash table. ``kind`` "I" is for numbers below 2³² - 1. Any thread may read while one changes it."""

    def __init__(self, kind: Literal["I", "Q"] = "Q") -> None:
        self._slots = _empty(kind, _LEAST)
        self._taken = 0

    def find(self, path: str) -> list[int]:
        """Return the numbers that were put for this path, and for others with the same hash: nearly always one or none."""
        hashes, numbers = self._slots
        wanted, found = hash(path) & _HASH, []
        slot = wanted % len(numbers)
        while number := numbers[slot]:
            if hashes[slot] == wanted:
                found.append(number - 1)
            slot = (slot + 1) % len(numbers)
        return found

    def put(self, path: str, number: int, former: int | None = None) -> None:
        """Add a number of a path, or put it in place of a ``former`` one."""
        hashes, numbers = self._slots
        if former is None and self._taken >= _FULL * len(numbers):
            hashes, numbers = self._slots = _larger(hashes, numbers)
        wanted = hash(path) & _HASH
        slot = wanted % len(numbers)
        while taken := numbers[slot]:
            if former is not None and hashes[slot] == wanted and taken == former + 1:
                break
            slot = (slot + 1) % len(numbers)
        self._taken += not taken
        hashes[slot] = wanted
        numbers[slot] = number + 1


def _empty(kind: str, size: int) -> tuple[array[int], array[int]]:
    """Return hashes, and numbers that are each one more than what was put; 0 where a slot is free."""
    return array("I", bytes(4 * size)), array(kind, bytes(array(kind).itemsize * size))


def _larger(hashes: array[int], numbers: array[int]) -> tuple[array[int], array[int]]:
    more_hashes, more_numbers = _empty(numbers.typecode, int(_MORE * len(numbers)))
    for known, number in zip(hashes, numbers, strict=True):
        if number:
            slot = known % len(more_numbers)
            while more_numbers[slot]:
                slot = (slot + 1) % len(more_numbers)
            more_hashes[slot], more_numbers[slot] = known, number
    return more_hashes, more_numbers
