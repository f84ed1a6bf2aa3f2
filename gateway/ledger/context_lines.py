"""Lines about what happened in a conversation, which are told to its agent with the next message there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from gateway.ledger.database import Database
from gateway.ledger.values import clean, listed, stamp

KEPT: Final = 20
"""The most events kept for a conversation; older ones are deleted."""


def add_event(
    db: Database, conversation: str, line: str, now: datetime, sources: Sequence[str] = (), *, agent: str = ""
) -> None:
    """Store an event for the conversation with this address; the oldest beyond ``KEPT`` are deleted. ``agent``: it alone is told."""
    values = (conversation, clean(line), stamp(now), clean(listed(sources)) if sources else None, clean(agent) or None)
    db.execute("INSERT INTO aside (conversation, line, noted_at, sources, agent) VALUES (?, ?, ?, ?, ?)", values)
    db.execute(
        "DELETE FROM aside WHERE conversation = :at AND coalesce(agent, '') = :agent AND id <= "
        "(SELECT id FROM aside WHERE conversation = :at AND coalesce(agent, '') = :agent ORDER BY id DESC LIMIT 1 OFFSET :kept)",
        {"at": conversation, "agent": clean(agent), "kept": KEPT},
    )
