"""Received messages, stored exactly once and kept until they are answered; events that are told with the next message."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from channels.messages import Cursor
from gateway.base.errors import InvalidTransition
from gateway.ledger.context_lines import add_event
from gateway.ledger.database import Database
from gateway.ledger.outbox import Queue, enqueue
from gateway.ledger.rows import (
    NOTICE_TTL,
    UNSURE,
    Accepted,
    Arrival,
    ContextEvent,
    InboxEnd,
    InboxRow,
    InboxState,
    NewOutbound,
    Outcome,
)
from gateway.ledger.thread import LedgerConnection, NameCache
from gateway.ledger.unasked import add_line
from gateway.ledger.values import NUMBERS, WITHIN, clean, instant, listed, stamp

COLUMNS = "id, account, skey, conversation, session, sender, payload, received_at, turn, state, reason, coalesce(attempts, 0)"


class InboxPart:
    """Implements ``InboxLedger``. ``events`` caches which conversations have context events."""

    def __init__(self, connection: LedgerConnection, events: NameCache) -> None:
        self._connection = connection
        self._events = events

    async def accept(self, account: str, arrivals: Sequence[Arrival], cursor: Cursor | None = None) -> Accepted:
        now = self._connection.now()
        if any(arrival.aside is not None for arrival in arrivals):
            self._events.changed()

        def work(db: Database) -> Accepted:
            taken = [take(db, account, arrival, now) for arrival in arrivals]
            if cursor is not None:
                db.execute(
                    "INSERT INTO cursor VALUES (?, ?, ?) ON CONFLICT (account, name) DO UPDATE SET value = excluded.value",
                    (account, cursor.name, cursor.value),
                )
            rows = tuple(row for row, _ in taken if row is not None and row.state == "waiting")
            return Accepted(rows=rows, renumbered=sum(renumbered for _, renumbered in taken))

        return await self._connection.run(work)

    async def cursor(self, account: str, name: str) -> str | None:
        query = "SELECT value FROM cursor WHERE account = ? AND name = ?"
        found = await self._connection.run(lambda db: db.execute(query, (account, name)).fetchone())
        return None if found is None else str(found[0])

    async def outcome(self, account: str, alias: str) -> Outcome | None:
        query = f"SELECT {COLUMNS} FROM inbox WHERE account = ? AND skey = ?"

        def work(db: Database) -> Outcome | None:
            found = db.execute(query, (account, clean(alias))).fetchone()
            if found is None:
                return None
            row = read_row(found)
            turn = db.execute("SELECT state FROM turn WHERE id = ?", (row.turn,)).fetchone()
            state = turn[0] if turn is not None else ""
            texts = db.execute(
                "SELECT text FROM (SELECT id, text, conversation FROM outbox WHERE turn = :turn "
                "UNION SELECT id, text, conversation FROM outbox WHERE key >= :first AND key < :last) AS found "
                "WHERE conversation = :at ORDER BY id",
                {"at": row.conversation, "turn": row.turn or "", "first": f"{row.uid}.", "last": f"{row.uid}/"},
            )
            return Outcome(
                row=row,
                suspended=state == "suspended",
                stopped=state == "stopped",
                replies=tuple(str(text) for (text,) in texts if text),
            )

        return await self._connection.run(work)

    async def newest(self, account: str, conversation: str) -> InboxRow | None:
        query = f"SELECT {COLUMNS} FROM inbox WHERE account = ? AND conversation = ? ORDER BY id DESC LIMIT 1"
        values = (account, clean(conversation))
        found = await self._connection.run(lambda db: db.execute(query, values).fetchone())
        return None if found is None else read_row(found)

    async def written_as(self, conversation: str, message: str, sender: str) -> InboxRow | None:
        query = (
            f"SELECT {COLUMNS} FROM inbox WHERE message = :message AND {WITHIN} AND sender = :sender ORDER BY id DESC LIMIT 1"
        )
        values = {"at": clean(conversation), "message": clean(message), "sender": clean(sender)}
        found = await self._connection.run(lambda db: db.execute(query, values).fetchone())
        return None if found is None else read_row(found)

    async def knows(self, conversation: str, message: str) -> bool:
        query = (
            f"SELECT 1 WHERE EXISTS (SELECT 1 FROM inbox WHERE message = :message AND {WITHIN}) "
            f"OR EXISTS (SELECT 1 FROM outbox WHERE platform_id = :message AND {WITHIN})"
        )
        values = {"at": clean(conversation), "message": clean(message)}
        return await self._connection.run(lambda db: db.execute(query, values).fetchone() is not None)

    async def waiting(self, *, after: int = 0, limit: int = 500) -> list[InboxRow]:
        query = f"SELECT {COLUMNS} FROM inbox WHERE state = 'waiting' AND id > ? ORDER BY id LIMIT ?"
        return await self._connection.run(lambda db: [read_row(found) for found in db.execute(query, (after, limit))])

    async def rows(self, ids: Sequence[int]) -> list[InboxRow]:
        query = f"SELECT {COLUMNS} FROM inbox WHERE id IN {NUMBERS} ORDER BY id"
        return await self._connection.run(lambda db: [read_row(found) for found in db.execute(query, (listed(ids),))])

    async def latest(self, states: Collection[InboxState], *, limit: int = 100) -> list[InboxRow]:
        query = f"SELECT {COLUMNS} FROM inbox WHERE state IN (SELECT value FROM json_each(?)) ORDER BY id DESC LIMIT ?"
        found = await self._connection.run(lambda db: db.execute(query, (listed(states), limit)).fetchall())
        return [read_row(one) for one in reversed(found)]

    async def settle(
        self, ids: Sequence[int], end: InboxEnd, *, reason: str = "", reply: Sequence[NewOutbound] = ()
    ) -> list[str]:
        queue = Queue(self._connection)

        def work(db: Database) -> list[str]:
            db.execute(
                f"UPDATE inbox SET state = ?, reason = ?, ended_at = ? WHERE state = 'waiting' AND id IN {NUMBERS}",
                (end, clean(reason) or None, stamp(queue.now), listed(ids)),
            )
            if not db.changes():
                return []
            return [key for _, key in queue.add(db, reply)]

        return await self._connection.run(work, queue.tell)

    async def in_doubt(self, conversation: str) -> list[InboxRow]:
        query = (
            f"SELECT {COLUMNS} FROM inbox WHERE conversation = ? AND state = 'failed' AND reason IN (?, ?) AND payload IS NOT NULL "
            "AND received_at > ? ORDER BY id"
        )
        values = (clean(conversation), *UNSURE, stamp(self._connection.now() - NOTICE_TTL))
        return [read_row(row) for row in await self._connection.run(lambda db: db.execute(query, values).fetchall())]

    async def requeue(self, row: int) -> InboxRow:
        def work(db: Database) -> InboxRow:
            found = db.execute(
                "UPDATE inbox SET state = 'waiting', reason = NULL, ended_at = NULL "
                f"WHERE id = ? AND state = 'failed' AND reason IN (?, ?) AND payload IS NOT NULL RETURNING {COLUMNS}",
                (row, *UNSURE),
            ).fetchall()
            if not found:
                raise InvalidTransition("the message is not in doubt", where=f"inbox {row}")
            return read_row(found[0])

        return await self._connection.run(work)


def take(db: Database, account: str, arrival: Arrival, now: datetime) -> tuple[InboxRow | None, bool]:
    """Insert a message unless its alias is known; also return whether an older message had its key."""
    key, alias = clean(arrival.key), clean(arrival.alias)
    if db.execute("SELECT 1 FROM inbox WHERE account = ? AND skey = ?", (account, alias)).fetchone():
        return None, False
    db.execute("UPDATE inbox SET pkey = pkey || '#' || id WHERE account = ? AND pkey = ?", (account, key))
    renumbered = db.changes() > 0
    values = (
        *(account, key, alias, clean(arrival.conversation), clean(arrival.session) if arrival.session else None),
        *(clean(arrival.sender), clean(arrival.payload), stamp(arrival.received_at)),
        clean(arrival.message) if arrival.message else None,
    )
    query = (
        "INSERT INTO inbox (account, pkey, skey, conversation, session, sender, payload, received_at, message, state) "
        f"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting') RETURNING {COLUMNS}"
    )
    row = read_row(db.execute(query, values).fetchone())
    if arrival.takes:
        delete_events(db, arrival.takes)
    if arrival.aside is None:
        return row, renumbered
    if _reword(db, account, arrival):
        reason = "it changed a message that waited"
    elif arrival.aside:
        add_event(db, row.conversation, arrival.aside, now, arrival.aside_sources)
        reason = "kept for the next message"
    else:
        reason = "it took back what was kept for the next message"
    query = "UPDATE inbox SET state = 'answered', reason = ?, ended_at = ? WHERE id = ?"
    db.execute(query, (reason, stamp(now), row.id))
    return replace(row, state="answered", reason=reason), renumbered


def _reword(db: Database, account: str, arrival: Arrival) -> bool:
    """Apply an edit to each waiting row of the edited message; return whether there was one. Only the message's sender can edit it."""
    if arrival.edits is None or arrival.reword is None:
        return False
    query = "SELECT id, payload FROM inbox WHERE account = ? AND conversation = ? AND message = ? AND sender = ? AND state = 'waiting'"
    values = (account, clean(arrival.conversation), clean(arrival.edits), clean(arrival.sender))
    found: list[Any] = db.execute(query, values).fetchall()
    for row, payload in found:
        db.execute("UPDATE inbox SET payload = ?, edited = 1 WHERE id = ?", (clean(arrival.reword(payload)), row))
    return bool(found)


def read_row(found: Any) -> InboxRow:
    """Read a row of the inbox, selected as ``COLUMNS``."""
    row, account, alias, conversation, session, sender, payload, received_at, turn, state, reason, attempts = found
    return InboxRow(
        id=row,
        account=account,
        alias=alias,
        conversation=conversation,
        session=session,
        sender=sender,
        payload=payload or "",
        received_at=instant(received_at),
        turn=turn,
        state=state,
        reason=reason,
        attempts=attempts,
    )


_TAKEN: Final = (
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM outbox WHERE key = :key) OR EXISTS (SELECT 1 FROM unasked WHERE key = :key)"
)


class ContextEventsPart:
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

    async def announce(
        self,
        message: NewOutbound,
        line: str,
        *,
        agent: str,
        more: Sequence[NewOutbound] = (),
        sources: Sequence[str] = (),
    ) -> bool:
        now, token = self._connection.now(), self._connection.new_id

        def work(db: Database) -> bool:
            if message.key is not None and db.execute(_TAKEN, {"key": message.key}).fetchone():
                return False
            enqueue(db, [message, *more], now=now, token=token)
            if line:
                add_line(db, message, line, now, sources, agent=agent)
            return True

        self.known.changed()
        return await self._connection.run(work, self._connection.notify_outbound)


def read_events(db: Database, conversation: str) -> list[ContextEvent]:
    """Return what is stored, oldest first."""
    query = "SELECT id, line, sources, agent FROM aside WHERE conversation = ? ORDER BY id"
    found: list[Any] = db.execute(query, (conversation,)).fetchall()
    return [
        ContextEvent(id=row, line=line, sources=tuple(json.loads(sources or "[]")), agent=agent or "")
        for row, line, sources, agent in found
    ]


def conversations_with_events(db: Database) -> frozenset[str]:
    """Return the addresses of the conversations that have any."""
    return frozenset(str(address) for (address,) in db.execute("SELECT DISTINCT conversation FROM aside"))


def delete_events(db: Database, ids: Sequence[int]) -> None:
    """Delete events that were told."""
    if ids:
        db.execute(f"DELETE FROM aside WHERE id IN {NUMBERS}", (listed(ids),))
