"""What the channel has to know after a restart, each kind in a cursor of its own: when people wrote, what ids they have, what was sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST: Final = 500
"""Entries of one kind; the oldest are dropped first."""


def read(stored: str | None) -> dict[str, str]:
    """Read a cursor; one that cannot be read counts as empty."""
    try:
        found = json.loads(stored or "{}")
    except (ValueError, RecursionError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def written(facts: Mapping[str, str]) -> str:
    """Return facts as the value of a cursor."""
    return json.dumps(facts, separators=(",", ":"))


def put(facts: dict[str, str], key: str, value: str, most: int = MOST) -> None:
    """Put a fact, as the newest."""
    facts.pop(key, None)
    facts[key] = value
    while len(facts) > most:
        del facts[next(iter(facts))]
