"""Rows of the outbox: appending chunks to their conversations, which groups whose platform gave them another id take with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from channels.messages import ChatAddress
from gateway.ledger.database import Database
from gateway.ledger.rows import NOTICE_TTL, ChatMigration, DueChunks, FirmWait, NewOutbound, OutboxRow, OutboxState
from gateway.ledger.thread import LedgerConnection, NameCache
from gateway.ledger.values import account_of, clean, read_conversation, stamp, write_conversation, write_payload


class OutboxLedger(Protocol):
    """Messages to send, in order within each conversation."""

    async def taken_over(self, accounts: Collection[str]) -> None:
        """Record that nobody knows of the chunks that another process was sending on these accounts when it ended."""
        ...

    async def enqueue(self, chunks: Sequence[NewOutbound]) -> list[int]:
        """Queue chunks that belong to no turn; return their ids."""
        ...

    async def enqueue_for_turn(self, turn: str, chunks: Sequence[NewOutbound]) -> None:
        """Queue chunks of a turn that is still running. A chunk whose key is known stays as it is."""
        ...

    async def due(self, accounts: Collection[str], *, limit: int = 64) -> list[OutboxRow]:
        """Return the next chunk of each conversation that may be sent now, oldest first, at most ``limit`` for each account.

        A conversation whose first open chunk is being sent, or has to wait, has none, so that order is kept.
        """
        ...

    async def due_in(self, conversation: str) -> OutboxRow | None:
        """Return the next chunk of one conversation, if it may be sent now."""
        ...

    async def poll(self, accounts: Collection[str], *, limit: int = 64) -> DueChunks:
        """Expire chunks that waited too long, then return those that are due and when the next one will be.

        Each conversation gets one notice, in the place of what it missed, that lists it.
        """
        ...

    async def sending(self, row: int) -> OutboxRow:
        """Record an attempt before the network is used. Raises InvalidTransition when the chunk is not open, or is being sent."""
        ...

    async def recorded(self, row: int, text: str) -> None:
        """Store what the channel needs to find this chunk again in a later attempt."""
        ...

    async def sent(self, row: int, platform_id: str) -> OutboxRow | None:
        """Record that a chunk arrived; return the next chunk of its conversation, if it may be sent now."""
        ...

    async def retry_later(self, row: int, not_before: datetime, *, firm: bool = False) -> None:
        """Record that the attempt had no effect, and when to retry. ``firm``: the platform named the time, so it is kept.

        Chunks do not expire before that time, or there is one more attempt before they do (``LONGEST_FLOOD``).
        """
        ...

    async def firm_waits(self) -> list[FirmWait]:
        """Return the conversations for which a platform asked to wait longer than ``SHORT_WAIT`` from now."""
        ...

    async def hold(self, row: int, not_before: datetime) -> None:
        """Record that the platform takes the chunk once its person has written: the conversation's chunks are kept for ``HELD_TTL``."""
        ...

    async def bounced(self, conversation: str, platform_id: str, reason: str, *, hold: bool) -> bool:
        """Record that a chunk, which counted as sent, did not arrive: it is queued again and held, or given up.

        Returns whether there was such a chunk.
        """
        ...

    async def retry_now(self, account: str) -> None:
        """Make due what waits by our own back-off, because the platform answers again."""
        ...

    async def ambiguous(self, row: int, not_before: datetime) -> None:
        """Record that the chunk may or may not have arrived, and when to look again."""
        ...

    async def postpone(self, row: int, not_before: datetime) -> None:
        """Record that no attempt was made, because the platform does not answer, and when to look again."""
        ...

    async def clock_set_back(self, seconds: float) -> None:
        """Shift waiting times after the wall clock was set back by this much, so that nothing waits longer for it."""
        ...

    async def dead(self, row: int, reason: str, *, tell: bool = False) -> None:
        """Give a chunk up. With ``tell`` its conversation gets a notice that lists it, as for one that expired."""
        ...

    async def revive(self, row: int) -> None:
        """Make a chunk that was given up ready again."""
        ...

    async def forget(self, row: int) -> None:
        """Clear the text of a chunk that was given up, so that it cannot be sent any more. Raises InvalidTransition for another one."""
        ...

    async def revive_expired(self, conversation: str, *, named: bool = False) -> int:
        """Make ready what the conversation missed in the last week; return how many chunks.

        That is what a notice listed, what the platform refused, and what is in doubt since the ledger was damaged. ``named``: what was
        tried again in vain stays as it is, as it is among the ``refused``.
        """
        ...

    async def refused(self, here: str) -> list[OutboxRow]:
        """Return what platforms refused in the last week, oldest first: in other conversations, and here, where it was tried in vain."""
        ...

    async def latest(self, states: Collection[OutboxState], *, limit: int = 100) -> list[OutboxRow]:
        """Return the newest chunks in these states, oldest first."""
        ...

    async def find_sent(self, conversation: str, platform_id: str) -> tuple[str, ChatAddress] | None:
        """Return the text of a message that was sent, by the platform's id, and its place: the conversation or one of its threads.

        None for an id that is not known (any more).
        """
        ...

    async def files(self) -> list[Path]:
        """Return the files that may still have to be sent."""
        ...

    def on_outbound(self, listener: Callable[[Sequence[OutboxRow] | None], None]) -> None:
        """Call ``listener`` on the event loop whenever a chunk was queued or became due earlier.

        It gets the chunks that are due by that, of each conversation the first; or None where they are to be looked for.
        """
        ...


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
            *(write_conversation(place), clean(chunk.text), chunk.reply_to),
            write_payload(chunk.buttons, chunk.enclosure) if chunk.buttons or chunk.enclosure is not None else None,
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
