"""Positions of phrases in a question."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Protocol


class Placed(Protocol):
    """Anything with a position: from ``start`` up to ``end``, which is behind it."""

    @property
    def start(self) -> int:
        """Where it begins."""
        ...

    @property
    def end(self) -> int:
        """Where it ends."""
        ...


class Timed(Placed, Protocol):
    """Anything with a position that means the days from a first to a last one."""

    @property
    def first(self) -> date:
        """The first day."""
        ...

    @property
    def last(self) -> date:
        """The last day."""
        ...


def overlaps(found: Iterable[Placed], start: int, end: int) -> bool:
    """Return whether a position has a character in common with one of ``found``."""
    return any(start < one.end and one.start < end for one in found)
