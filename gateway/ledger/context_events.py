"""Events between two messages that need no answer, such as edits and reactions: told to the model with the next message."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from gateway.ledger.base import LedgerConnection, NameCache
from gateway.ledger.rows import ContextEvent
from gateway.ledger.values import clean, listed, stamp

if TYPE_CHECKING:
    import apsw

KEPT: Final = 20
"""The most events kept for a conversation; older ones are deleted."""


class SqliteContextEvents:
    """Implements ``ContextEventLedger``. ``known`` caches which conversations have any."""

    def __init__(self, connection: LedgerConnection) -> None:
        self._connection = connection
        self.known = NameCache()

    async def pending(self, conversation: str) -> list[ContextEvent]:
        address = clean(conversation)
        if self.known.lacks(address):
            return []
        as_of = self.known.changes
        names, found = await self._connection.run(lambda db: (conversations_with_events(db), read_events(db, address)))
        self.known.learn(names, as_of)
        return found


def add_event(db: apsw.Connection, conversation: str, line: str, now: datetime) -> None:
    """Store an event for the conversation with this address; the oldest beyond ``KEPT`` are deleted."""
    db.execute("INSERT INTO aside (conversation, line, noted_at) VALUES (?, ?, ?)", (conversation, clean(line), stamp(now)))
    db.execute(
        "DELETE FROM aside WHERE conversation = :at AND id <= "
        "(SELECT id FROM aside WHERE conversation = :at ORDER BY id DESC LIMIT 1 OFFSET :kept)",
        {"at": conversation, "kept": KEPT},
    )


def read_events(db: apsw.Connection, conversation: str) -> list[ContextEvent]:
    """Return what is stored, oldest first."""
    query = "SELECT id, line FROM aside WHERE conversation = ? ORDER BY id"
    found: list[Any] = db.execute(query, (conversation,)).fetchall()
    return [ContextEvent(id=row, line=line) for row, line in found]


def conversations_with_events(db: apsw.Connection) -> frozenset[str]:
    """Return the addresses of the conversations that have any."""
    return frozenset(str(address) for (address,) in db.execute("SELECT DISTINCT conversation FROM aside"))


def delete_events(db: apsw.Connection, ids: Sequence[int]) -> None:
    """Delete events that were told."""
    if ids:
        db.execute("DELETE FROM aside WHERE id IN (SELECT value FROM json_each(?))", (listed(ids),))
