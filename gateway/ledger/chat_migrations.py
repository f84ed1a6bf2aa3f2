"""Groups whose platform gave them another id: queued messages and context events follow."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from channels.messages import ChatAddress
from gateway.ledger.database import Database
from gateway.ledger.rows import ChatMigration
from gateway.ledger.thread import LedgerConnection, NameCache
from gateway.ledger.values import account_of, clean, read_conversation, stamp, write_conversation


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
