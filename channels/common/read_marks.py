"""How far each conversation of a platform was read, for platforms that can be asked for what was missed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CURSOR = "read"
MOST = 500
"""Conversations that are kept; those that were silent for longest are forgotten first."""


class ReadMarks:
    """The newest message taken from each conversation. ``order`` makes a message id comparable; ValueError: it is none.

    What cannot be ordered is no mark: it is not noted, and a cursor that holds such is read without them.
    """

    def __init__(self, order: Callable[[str], Any], stored: str | None = None) -> None:
        self._order = order
        self._marks: dict[str, str] = {}
        for place, mark in _parsed(stored).items():
            self.note(place, mark)

    def note(self, place: str, message: str) -> bool:
        """Note that ``message`` was taken; an older one changes nothing. Returns whether it was the newest."""
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
        """Forget a conversation that is gone."""
        self._marks.pop(place, None)

    def all(self) -> dict[str, str]:
        """Return the marks by conversation."""
        return dict(self._marks)

    def written(self) -> str:
        """Return them as the value of a cursor."""
        return json.dumps(self._marks, separators=(",", ":"))


def _parsed(stored: str | None) -> dict[str, str]:
    """Read a cursor; one that cannot be read counts as none, for what was missed can then not be known."""
    try:
        found = json.loads(stored or "{}")
    except (ValueError, RecursionError):
        return {}
    return {str(place): str(mark) for place, mark in found.items()} if isinstance(found, dict) else {}
