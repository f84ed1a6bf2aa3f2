"""Rows of the outbox: appending chunks to their conversations, which groups whose platform gave them another id take with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from channels.messages import ChatAddress
from gateway.ledger.database import Database
from gateway.ledger.rows import NOTICE_TTL, ChatMigration, NewOutbound
from gateway.ledger.thread import LedgerConnection, NameCache
from gateway.ledger.values import account_of, clean, read_conversation, stamp, write_conversation, write_payload


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


class ChatMigrationsPart:
    """Implements ``ChatMigrationLedger``. ``events`` caches which conversations have context events."""

    def __init__(self, connection: LedgerConnection, events: NameCache) -> None:
        self._connection = connection
        self._events = events

    async def record(self, account: str, former: str, present: str) -> None:
        before, after, now = clean(former), clean(present), stamp(self._connection.now())
        self._events.changed()

        def work(db: Database) -> None:
            if before == after:
                return
            db.execute("UPDATE moved SET present = ? WHERE account = ? AND present = ?", (after, account, before))
            db.execute(
                "INSERT INTO moved VALUES (?, ?, ?, ?) ON CONFLICT (account, former) DO UPDATE SET present = excluded.present",
                (account, before, after, now),
            )
            db.execute("DELETE FROM moved WHERE former = present")
            _redirect(db, account, before, after)

        await self._connection.run(work, self._connection.notify_outbound)

    async def all(self) -> list[ChatMigration]:
        query = "SELECT account, former, present FROM moved ORDER BY moved_at, rowid"
        found: list[Any] = await self._connection.run(lambda db: db.execute(query).fetchall())
        return [ChatMigration(account=account, former=former, present=present) for account, former, present in found]


def current_chat(db: Database, conversation: ChatAddress) -> ChatAddress:
    """Return a conversation with the id that is in force now."""
    if conversation.kind != "group":
        return conversation
    query = "SELECT present FROM moved WHERE account = ? AND former = ?"
    found = db.execute(query, (account_of(conversation), clean(conversation.id))).fetchone()
    return conversation if found is None else replace(conversation, id=str(found[0]))


def _redirect(db: Database, account: str, former: str, present: str) -> None:
    """Redirect open chunks and context events of a former id to the present one."""
    query = "SELECT id, target FROM outbox WHERE account = ? AND state IN ('ready', 'sending', 'ambiguous')"
    found: list[Any] = db.execute(query, (account,)).fetchall()
    for row, target in found:
        before = read_conversation(target)
        after = current_chat(db, before)
        if after != before:
            values = (write_conversation(after), clean(after.address), row)
            db.execute("UPDATE outbox SET target = ?, conversation = ? WHERE id = ?", values)
    places = {"old": f"{account}:group:{former}", "new": f"{account}:group:{present}"}
    db.execute(
        "UPDATE aside SET conversation = :new || substr(conversation, length(:old) + 1) "
        "WHERE conversation = :old OR substr(conversation, 1, length(:old) + 8) = :old || ':thread:'",
        places,
    )
