"""The newest message read in each conversation, stored as a cursor, for platforms that can be asked for missed messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

CURSOR = "read"
MOST = 500
"""Conversations that are kept; those without messages for longest are dropped first."""


class ReadMarks:
    """The newest message stored from each conversation. ``order`` maps a message id to something comparable, or raises ValueError.

    An id that cannot be ordered is no mark: it is not recorded, and is left out when a stored cursor is read.
    """

    def __init__(self, order: Callable[[str], Any], stored: str | None = None) -> None:
        self._order = order
        self._marks: dict[str, str] = {}
        for place, mark in _parsed(stored).items():
            self.note(place, mark)

    def note(self, place: str, message: str) -> bool:
        """Record that ``message`` was stored; an older one changes nothing. Returns whether it is the newest."""
        try:
            here = self._order(message)
        except ValueError:
            return False
        before = self._marks.get(place)
        if before is not None and here <= self._order(before):
            return False
        self._marks.pop(place, None)
        self._marks[place] = message
        while len(self._marks) > MOST:
            del self._marks[next(iter(self._marks))]
        return True

    def forget(self, place: str) -> None:
        """Drop a conversation that no longer exists."""
        self._marks.pop(place, None)

    def all(self) -> dict[str, str]:
        """Return the marks by conversation."""
        return dict(self._marks)

    def written(self) -> str:
        """Return the marks as the value of a cursor."""
        return json.dumps(self._marks, separators=(",", ":"))


def _parsed(stored: str | None) -> dict[str, str]:
    """Read a cursor; one that cannot be read counts as empty."""
    try:
        found = json.loads(stored or "{}")
    except (ValueError, RecursionError):
        return {}
    return {str(place): str(mark) for place, mark in found.items()} if isinstance(found, dict) else {}
