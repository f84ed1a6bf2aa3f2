"""Lines about what happened in a conversation, which are told to its agent with the next message there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from gateway.ledger.database import Database
from gateway.ledger.values import clean, listed, stamp

KEPT: Final = 20
"""The most events kept for a conversation; older ones are deleted."""


def add_event(db: Database, conversation: str, line: str, now: datetime, sources: Sequence[str] = ()) -> None:
    """Store an event for the conversation with this address; the oldest beyond ``KEPT`` are deleted."""
    values = (conversation, clean(line), stamp(now), clean(listed(sources)) if sources else None)
    db.execute("INSERT INTO aside (conversation, line, noted_at, sources) VALUES (?, ?, ?, ?)", values)
    db.execute(
        "DELETE FROM aside WHERE conversation = :at AND id <= "
        "(SELECT id FROM aside WHERE conversation = :at ORDER BY id DESC LIMIT 1 OFFSET :kept)",
        {"at": conversation, "kept": KEPT},
    )
