"""Messages to send: in order within a conversation, each with a state of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from channels.messages import ChatAddress
from gateway.base.errors import InvalidTransition
from gateway.ledger.database import Database
from gateway.ledger.expired_notice import REFUSED, queue_notice, revive_expired
from gateway.ledger.outbox_rows import append, current_chat
from gateway.ledger.rows import (
    CHAT_TTL,
    HELD_RETRY,
    HELD_TTL,
    IN_DOUBT,
    LAST_TRY,
    LONGEST_FLOOD,
    LONGEST_WAIT,
    NOTICE_TTL,
    RESTORED,
    SHORT_WAIT,
    DueChunks,
    FirmWait,
    NewOutbound,
    OutboxRow,
    OutboxState,
)
from gateway.ledger.thread import LedgerConnection
from gateway.ledger.unasked import files_of_unasked, take_unasked
from gateway.ledger.values import (
    NUMBERS,
    WITHIN,
    clean,
    instant,
    listed,
    read_conversation,
    read_payload,
    stamp,
)

COLUMNS = "id, key, turn, target, text, reply_to, state, attempt, doubts, recorded, not_before, expires, reason, extras, missed"
FORGOTTEN = "forgotten by the owner"
"""The reason of a chunk that was given up and whose text the owner has cleared."""
_EPOCH = "(SELECT value FROM meta WHERE name = 'epoch')"
_MAY_GO = "(not_before <= :now OR not_before > :far)"
_SET: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""A clock that says less has not been set yet: that of a small machine begins in 1970, until the network is there."""
_RECKON: Final = """
UPDATE outbox SET expires = :now + (expires - created_at), created_at = :now, not_before = :now
WHERE state IN ('ready', 'ambiguous') AND expires <= :now AND created_at < :set
"""
_NOT_QUIET = "(quiet_from IS NULL OR quiet_from > :now OR state <> 'ready' OR doubts > 0)"
"""Unasked chunks that were not sent before quiet hours wait until ``release`` takes them back, and stop nothing behind them."""
_HEADS = f"""
SELECT id FROM (
    SELECT id, min(place) FROM outbox
    WHERE state IN ('ready', 'sending', 'ambiguous') AND epoch = {_EPOCH} AND {_NOT_QUIET}
      AND account IN (SELECT value FROM json_each(:accounts))
    GROUP BY conversation
)
"""


class OutboxPart:
    """Implements ``OutboxLedger``."""

    def __init__(self, connection: LedgerConnection) -> None:
        self._connection = connection

    def on_outbound(self, listener: Callable[[Sequence[OutboxRow] | None], None]) -> None:
        self._connection.on_outbound(listener)

    async def taken_over(self, accounts: Collection[str]) -> None:
        query = (
            "UPDATE outbox SET state = 'ambiguous', doubts = doubts + 1 "
            "WHERE state = 'sending' AND account IN (SELECT value FROM json_each(?))"
        )
        await self._connection.run(lambda db: db.execute(query, (listed(accounts),)).fetchone())

    async def enqueue(self, chunks: Sequence[NewOutbound]) -> list[int]:
        queue = Queue(self._connection)
        return [row for row, _ in await self._connection.run(lambda db: queue.add(db, chunks), queue.tell)]

    async def enqueue_for_turn(self, turn: str, chunks: Sequence[NewOutbound]) -> None:
        queue = Queue(self._connection)
        await self._connection.run(lambda db: queue.add(db, chunks, turn=turn), queue.tell)

    async def due(self, accounts: Collection[str], *, limit: int = 64) -> list[OutboxRow]:
        now = self._connection.now()
        return await self._connection.run(lambda db: _due(db, accounts, limit, now))

    async def poll(self, accounts: Collection[str], *, limit: int = 64) -> DueChunks:
        now = self._connection.now()

        def work(db: Database) -> DueChunks:
            given_up = _expire(db, now, self._connection.new_id)
            due = _due(db, accounts, limit, now)
            query = f"SELECT min(not_before) FROM outbox WHERE id IN ({_HEADS}) AND state IN ('ready', 'ambiguous') AND not_before > :now"
            found: Any = db.execute(query, {"accounts": listed(accounts), "now": stamp(now)}).fetchone()
            following = None if found[0] is None else instant(int(found[0]))
            return DueChunks(due=due, next=following, expired=len(given_up), given_up=tuple(dict.fromkeys(given_up)))

        look = await self._connection.run(work)
        if look.expired:  # each ring makes the delivery look again, and looking is what expires: always ringing would never end
            self._connection.notify_outbound()
        return look

    async def due_in(self, conversation: str) -> OutboxRow | None:
        now = self._connection.now()
        return await self._connection.run(lambda db: _due_in(db, clean(conversation), now))

    async def sending(self, row: int) -> OutboxRow:
        def work(db: Database) -> OutboxRow:
            change = "state = 'sending', attempt = attempt + 1"
            return read_row(_step(db, row, change, {}, come_from=("ready", "ambiguous"), returning=COLUMNS))

        return await self._connection.run(work)

    async def recorded(self, row: int, text: str) -> None:
        values = {"text": clean(text)}
        await self._connection.run(lambda db: _step(db, row, "recorded = :text", values, come_from=("sending",)))

    async def sent(self, row: int, platform_id: str) -> OutboxRow | None:
        now = self._connection.now()

        def work(db: Database) -> OutboxRow | None:
            values, change = {"id": clean(platform_id), "now": stamp(now)}, "state = 'sent', platform_id = :id, ended_at = :now"
            (conversation,) = _step(db, row, change, values, come_from=("sending",), returning="conversation")
            return _due_in(db, conversation, now)

        return await self._connection.run(work)

    async def retry_later(self, row: int, not_before: datetime, *, firm: bool = False) -> None:
        at, now = self._within_reach(not_before), self._connection.now()

        def work(db: Database) -> None:
            then = _last_try(db, row, at, not_before, now) if firm else at
            change = "state = 'ready', not_before = :at, firm = :firm"
            _step(db, row, change, {"at": then, "firm": int(firm)}, come_from=("sending",))

        await self._connection.run(work, self._connection.notify_outbound)

    async def firm_waits(self) -> list[FirmWait]:
        query = (
            "SELECT account, conversation, max(not_before) FROM outbox WHERE state = 'ready' AND firm = 1 AND not_before > ? "
            "GROUP BY account, conversation ORDER BY account, conversation"
        )
        behind = "SELECT count(*) FROM outbox WHERE conversation = ? AND state IN ('ready', 'sending', 'ambiguous')"
        later = stamp(self._connection.now() + SHORT_WAIT)

        def work(db: Database) -> list[FirmWait]:
            found: list[Any] = db.execute(query, (later,)).fetchall()
            counted: list[Any] = [db.execute(behind, (place,)).fetchone() for _, place, _ in found]
            return [
                FirmWait(account=account, conversation=place, count=int(count), until=instant(int(until)))
                for (account, place, until), (count,) in zip(found, counted, strict=True)
            ]

        return await self._connection.run(work)

    async def hold(self, row: int, not_before: datetime) -> None:
        values, expires = {"at": self._within_reach(not_before)}, stamp(self._connection.now() + HELD_TTL)

        def work(db: Database) -> None:
            _step(db, row, "state = 'ready', not_before = :at, firm = 0", values, come_from=("sending",))
            _keep(db, "(SELECT conversation FROM outbox WHERE id = :which)", row, expires)

        await self._connection.run(work, self._connection.notify_outbound)

    async def bounced(self, conversation: str, platform_id: str, reason: str, *, hold: bool) -> bool:
        now = self._connection.now()
        values = {
            "at": clean(conversation),
            "id": clean(platform_id),
            "reason": clean(reason),
            "now": stamp(now),
            "later": self._within_reach(now + HELD_RETRY),
        }
        change = (
            "state = 'ready', ended_at = NULL, platform_id = NULL, doubts = 0, not_before = :later, firm = 0"
            if hold
            else "state = 'dead', reason = :reason, ended_at = :now"
        )
        query = f"UPDATE outbox SET {change} WHERE platform_id = :id AND {WITHIN} AND state = 'sent'"

        def work(db: Database) -> bool:
            db.execute(query, {key: value for key, value in values.items() if f":{key}" in query})
            known = db.changes() > 0
            if known and hold:
                _keep(db, ":which", values["at"], stamp(now + HELD_TTL))
            return known

        return await self._connection.run(work, self._connection.notify_outbound)

    async def retry_now(self, account: str) -> None:
        now = stamp(self._connection.now())
        query = (
            "UPDATE outbox SET not_before = :now "
            "WHERE account = :account AND state IN ('ready', 'ambiguous') AND firm = 0 AND not_before > :now"
        )
        values = {"account": account, "now": now}
        await self._connection.run(lambda db: db.execute(query, values).fetchone(), self._connection.notify_outbound)

    async def ambiguous(self, row: int, not_before: datetime) -> None:
        values = {"at": self._within_reach(not_before)}
        change = "state = 'ambiguous', doubts = doubts + 1, not_before = :at, firm = 0"
        await self._connection.run(
            lambda db: _step(db, row, change, values, come_from=("sending",)), self._connection.notify_outbound
        )

    async def postpone(self, row: int, not_before: datetime) -> None:
        values = {"at": self._within_reach(not_before)}
        change = "not_before = :at, firm = 0"
        await self._connection.run(
            lambda db: _step(db, row, change, values, come_from=("ready", "ambiguous")), self._connection.notify_outbound
        )

    async def clock_set_back(self, seconds: float) -> None:
        now = self._connection.now()
        query = (
            "UPDATE outbox SET not_before = CASE WHEN not_before > :now THEN max(:now, not_before - :back) ELSE not_before END, "
            "quiet_from = quiet_from - :back WHERE state IN ('ready', 'ambiguous') AND (not_before > :now OR quiet_from > :now)"
        )
        values = {"now": stamp(now), "back": stamp(now + timedelta(seconds=seconds)) - stamp(now)}
        await self._connection.run(lambda db: db.execute(query, values).fetchone(), self._connection.notify_outbound)

    async def dead(self, row: int, reason: str, *, tell: bool = False) -> None:
        now = self._connection.now()

        def work(db: Database) -> None:
            values = {"reason": clean(reason), "now": stamp(now)}
            change = "state = 'dead', reason = :reason, ended_at = :now"
            _step(db, row, change, values, come_from=("ready", "sending", "ambiguous"))
            if tell:
                queue_notice(db, [row], now=now, token=self._connection.new_id)

        await self._connection.run(work, self._connection.notify_outbound)

    async def revive(self, row: int) -> None:
        now = self._connection.now()
        values = {"now": stamp(now), "expires": stamp(now + CHAT_TTL)}
        change = (
            "state = 'ready', reason = NULL, ended_at = NULL, not_before = :now, expires = :expires, doubts = min(doubts, 1), "
            f"epoch = {_EPOCH}"
        )
        await self._connection.run(
            lambda db: _step(db, row, change, values, come_from=("dead",), unless="text = '' AND extras IS NULL"),
            self._connection.notify_outbound,
        )

    async def forget(self, row: int) -> None:
        change = "text = '', extras = NULL, reason = :reason"
        values = {"reason": FORGOTTEN}
        await self._connection.run(lambda db: _step(db, row, change, values, come_from=("dead",)))

    async def revive_expired(self, conversation: str, *, named: bool = False) -> int:
        now, address = self._connection.now(), clean(conversation)
        work = partial(revive_expired, conversation=address, now=now, named=named)
        return await self._connection.run(work, self._connection.notify_outbound)

    async def refused(self, here: str) -> list[OutboxRow]:
        now, address = self._connection.now(), clean(here)
        query = (
            f"SELECT {COLUMNS} FROM outbox WHERE state = 'dead' AND missed IS NULL AND {REFUSED} AND ended_at > :since "
            "AND (conversation <> :here OR attempt > 1) AND NOT (text = '' AND extras IS NULL) ORDER BY id"
        )
        values = {"here": address, "since": stamp(now - NOTICE_TTL), "doubt": IN_DOUBT, "restored": RESTORED}
        return await self._connection.run(lambda db: [read_row(one) for one in db.execute(query, values).fetchall()])

    async def latest(self, states: Collection[OutboxState], *, limit: int = 100) -> list[OutboxRow]:
        query = f"SELECT {COLUMNS} FROM outbox WHERE state IN (SELECT value FROM json_each(?)) ORDER BY id DESC LIMIT ?"
        found = await self._connection.run(lambda db: db.execute(query, (listed(states), limit)).fetchall())
        return [read_row(one) for one in reversed(found)]

    async def find_sent(self, conversation: str, platform_id: str) -> tuple[str, ChatAddress] | None:
        query = f"SELECT text, target FROM outbox WHERE platform_id = :id AND {WITHIN} ORDER BY id DESC LIMIT 1"
        values = {"at": clean(conversation), "id": clean(platform_id)}
        found = await self._connection.run(lambda db: db.execute(query, values).fetchone())
        return None if found is None else (str(found[0]), read_conversation(str(found[1])))

    async def files(self) -> list[Path]:
        query = "SELECT extras FROM outbox WHERE extras IS NOT NULL AND state <> 'sent'"

        def work(db: Database) -> list[Path]:
            found = db.execute(query).fetchall()
            queued = [enclosure for (extras,) in found if (enclosure := read_payload(str(extras))[1]) is not None]
            return [path for enclosure in queued for path in enclosure.paths] + files_of_unasked(db)

        return await self._connection.run(work)

    def _within_reach(self, not_before: datetime) -> int:
        return stamp(min(not_before, self._connection.now() + LONGEST_WAIT))


class Queue:
    """Queues chunks in one transaction, and tells the listeners afterwards which of them are due: nobody has to look for these."""

    def __init__(self, connection: LedgerConnection) -> None:
        self._connection = connection
        self.now = connection.now()
        self._due: list[OutboxRow] = []
        self._late = False
        """Whether a chunk that has expired stands before one of these: what looks for due chunks takes it out of the way."""

    def add(self, db: Database, chunks: Sequence[NewOutbound], *, turn: str | None = None) -> list[tuple[int, str]]:
        """Queue chunks at the end of their conversations; return the ids and keys of those that may be sent now."""
        rows = enqueue(db, chunks, now=self.now, token=self._connection.new_id, turn=turn)
        places = dict.fromkeys(clean(current_chat(db, chunk.conversation).address) for chunk in chunks)
        heads = [head for place in places if (head := _head(db, place, self.now)) is not None]
        self._due = [row for row, due in heads if due]
        self._late = any(row.state != "sending" and row.expires <= self.now for row, _ in heads)
        return rows

    def tell(self) -> None:
        """Call the listeners, once the transaction is stored."""
        if self._late:
            self._connection.notify_outbound()
        elif self._due:
            self._connection.notify_outbound(self._due)


def enqueue(
    db: Database, chunks: Sequence[NewOutbound], *, now: datetime, token: Callable[[], str], turn: str | None = None
) -> list[tuple[int, str]]:
    """Queue chunks at the end of their conversations; return the ids and keys of those that may be sent now."""
    rows = append(db, [chunk for chunk in chunks if chunk.unasked is None], now=now, token=token, turn=turn)
    unasked = [chunk for chunk in chunks if chunk.unasked is not None]
    return rows + take_unasked(db, unasked, now=now, token=token, turn=turn) if unasked else rows


def _due(db: Database, accounts: Collection[str], limit: int, now: datetime) -> list[OutboxRow]:
    query = (
        f"SELECT {COLUMNS} FROM outbox WHERE id IN ({_HEADS}) AND state IN ('ready', 'ambiguous') "
        f"AND {_MAY_GO} AND expires > :now ORDER BY id LIMIT :limit"
    )
    values = {"now": stamp(now), "far": stamp(now + LONGEST_WAIT), "limit": limit}
    found = [read_row(one) for account in accounts for one in db.execute(query, values | {"accounts": listed([account])})]
    return sorted(found, key=lambda row: row.id)


def _due_in(db: Database, conversation: str, now: datetime) -> OutboxRow | None:
    head = _head(db, conversation, now)
    return head[0] if head is not None and head[1] else None


def _head(db: Database, conversation: str, now: datetime) -> tuple[OutboxRow, bool] | None:
    """Return the first chunk that a conversation has yet to get, and whether it is due."""
    query = (
        f"SELECT {COLUMNS}, {_MAY_GO} AND expires > :now AND state <> 'sending' FROM outbox "
        f"WHERE epoch = {_EPOCH} AND conversation = :conversation AND state IN ('ready', 'sending', 'ambiguous') AND {_NOT_QUIET} "
        "ORDER BY place, id LIMIT 1"
    )
    values = {"conversation": conversation, "now": stamp(now), "far": stamp(now + LONGEST_WAIT)}
    found = db.execute(query, values).fetchone()
    return (read_row(found[:-1]), bool(found[-1])) if found else None


def _expire(db: Database, now: datetime, token: Callable[[], str]) -> list[str]:
    """Expire chunks that waited too long; return the addresses of their conversations, one for each chunk."""
    db.execute(
        "UPDATE outbox SET state = 'dead', reason = 'queued before a restore', ended_at = ? "
        f"WHERE state IN ('ready', 'sending', 'ambiguous') AND epoch <> {_EPOCH}",
        (stamp(now),),
    )
    if now >= _SET:
        db.execute(_RECKON, {"now": stamp(now), "set": stamp(_SET)})
    query = (
        "SELECT id, conversation FROM outbox WHERE state IN ('ready', 'ambiguous') AND expires <= ? "
        "ORDER BY place, id LIMIT 1000"
    )
    rows: dict[str, list[int]] = {}
    found: list[Any] = db.execute(query, (stamp(now),)).fetchall()
    for row, conversation in found:
        rows.setdefault(conversation, []).append(row)
    for expired in rows.values():
        db.execute(
            f"UPDATE outbox SET state = 'dead', reason = 'expired', ended_at = ? WHERE id IN {NUMBERS}",
            (stamp(now), listed(expired)),
        )
        queue_notice(db, expired, now=now, token=token)
    return [conversation for _, conversation in found]


def _last_try(db: Database, row: int, at: int, announced: datetime, now: datetime) -> int:
    """Return when a chunk is tried again for which a platform named a time: before it expires, which may be put off for that."""
    found: Any = db.execute("SELECT created_at, expires FROM outbox WHERE id = ?", (row,)).fetchone()
    if found is None:
        return at
    created, expires = int(found[0]), int(found[1])
    last = stamp(instant(expires) - LAST_TRY)
    if at <= last:
        return at
    if announced <= instant(created) + LONGEST_FLOOD:
        _keep(db, "(SELECT conversation FROM outbox WHERE id = :which)", row, stamp(instant(at) + 5 * LAST_TRY))
        return at
    return last if last > stamp(now) else expires


def _keep(db: Database, conversation: str, which: object, expires: int) -> None:
    """Let nothing of a conversation expire before this; ``which`` is what the SQL expression ``conversation`` needs."""
    open_ = "state IN ('ready', 'sending', 'ambiguous')"
    query = f"UPDATE outbox SET expires = max(expires, :expires) WHERE conversation = {conversation} AND {open_}"
    db.execute(query, {"which": which, "expires": expires})


def _step(
    db: Database,
    row: int,
    change: str,
    values: dict[str, Any],
    *,
    come_from: Sequence[OutboxState],
    unless: str = "FALSE",
    returning: str = "id",
) -> Any:
    """Change a row that is in one of the states ``come_from``, and return these columns of it. Raises InvalidTransition otherwise."""
    states = ", ".join(f"'{state}'" for state in come_from)
    query = f"UPDATE outbox SET {change} WHERE id = :row AND state IN ({states}) AND NOT ({unless}) RETURNING {returning}"
    found = db.execute(query, {**values, "row": row}).fetchone()
    if found is None:
        raise InvalidTransition(f"the message to send is not {' or '.join(come_from)}", where=f"outbox {row}")
    return found


def read_row(found: Any) -> OutboxRow:
    """Read a row of the outbox, selected as ``COLUMNS``."""
    row, key, turn, target, text, reply_to, state, attempt, doubts, recorded, not_before, expires, reason, extras, missed = (
        found
    )
    buttons, enclosure = read_payload(extras) if extras is not None else ((), None)
    return OutboxRow(
        id=row,
        key=key,
        turn=turn,
        conversation=read_conversation(target),
        text=text,
        reply_to=reply_to,
        state=state,
        attempt=attempt,
        doubts=doubts,
        recorded=recorded,
        not_before=instant(not_before),
        expires=instant(expires),
        reason=reason,
        buttons=buttons,
        enclosure=enclosure,
        notice=missed is not None,
    )
