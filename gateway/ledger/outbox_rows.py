"""Rows of the outbox: appending chunks to their conversations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from gateway.ledger.chat_migrations import current_chat
from gateway.ledger.database import Database
from gateway.ledger.rows import NOTICE_TTL, NewOutbound
from gateway.ledger.values import account_of, clean, stamp, write_conversation, write_payload


def append(
    db: Database,
    chunks: Sequence[NewOutbound],
    *,
    now: datetime,
    token: Callable[[], str],
    turn: str | None = None,
    unasked: int | None = None,
    quiet_from: datetime | None = None,
) -> list[tuple[int, str]]:
    """Append chunks to their conversations; return their ids and keys. A chunk whose key is known stays as it is.

    ``unasked`` is the row of the unasked message that they are, which is not sent from ``quiet_from`` on.
    """
    rows: list[tuple[int, str]] = []
    for chunk in chunks:
        place = current_chat(db, chunk.conversation)
        values = (
            *(chunk.key or token(), turn, account_of(place), clean(place.address)),
            *(write_conversation(place), clean(chunk.text), chunk.reply_to, write_payload(chunk.buttons, chunk.enclosure)),
            *(stamp(now), stamp(now), stamp(now + (chunk.ttl or NOTICE_TTL))),
            *(unasked, None if quiet_from is None else stamp(quiet_from)),
        )
        query = (
            "INSERT INTO outbox (place, key, turn, account, conversation, target, text, reply_to, extras, state, epoch, created_at, "
            "not_before, expires, unasked, quiet_from) "
            "VALUES ((SELECT coalesce(max(id), 0) + 1 FROM outbox), ?, ?, ?, ?, ?, ?, ?, ?, 'ready', "
            "(SELECT value FROM meta WHERE name = 'epoch'), ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING RETURNING id, key"
        )
        rows += [(int(row), str(key)) for row, key in db.execute(query, values)]
    return rows
