"""Turns and their tool calls: their states, their attempts, and which calls must not be repeated."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from agent.tools.protocol import Effect
from gateway.base.errors import InvalidTransition
from gateway.ledger.approval_rows import ask, resume_turn
from gateway.ledger.context_lines import add_event
from gateway.ledger.database import Database
from gateway.ledger.inbox import take
from gateway.ledger.outbox import Queue, enqueue
from gateway.ledger.outbox_rows import current_chat
from gateway.ledger.rows import (
    Arrival,
    Finished,
    NewApproval,
    NewEvent,
    NewOutbound,
    ToolRecord,
    ToolState,
    Turn,
    TurnEnd,
    message_uid,
)
from gateway.ledger.subagent_rows import end_subagent
from gateway.ledger.thread import LedgerConnection, NameCache
from gateway.ledger.values import NUMBERS, clean, instant, listed, stamp

TURN = """
SELECT id, session, agent, state, attempt, started_at,
       (SELECT json_group_array(id) FROM (SELECT id FROM inbox WHERE inbox.turn = turn.id ORDER BY id) AS message),
       (SELECT json_group_array(inbox.id) FROM inbox WHERE inbox.turn = turn.id AND inbox.edited <> 0),
       suspended_at IS NOT NULL
FROM turn
"""
_TOOL = "SELECT turn, call_id, name, args_hash, effect, state, result_ref FROM tool_call WHERE turn = ? AND call_id = ?"
_BEGIN_CALL = """
INSERT INTO tool_call (turn, call_id, name, args_hash, effect, state) VALUES (:turn, :call, :name, :hash, :effect, 'started')
ON CONFLICT (turn, call_id) DO UPDATE SET state = 'started' WHERE tool_call.state = 'planned' OR tool_call.effect <> 'effect'
"""
_WITHDRAW = "UPDATE approval SET state = 'withdrawn', reason = ?, decided_at = ? WHERE turn = ? AND state = 'pending'"
"""Withdraws the open questions of a turn that ends."""
_WAIT_AGAIN = "UPDATE inbox SET state = 'waiting', turn = NULL WHERE turn = ? AND state = 'claimed'"
_END_OF_MESSAGES = {"done": "answered", "stopped": "answered", "failed": "failed"}


class TurnsPart:
    """Implements ``TurnLedger``. ``events`` caches which conversations have context events."""

    def __init__(self, connection: LedgerConnection, events: NameCache) -> None:
        self._connection = connection
        self._events = events

    async def claim(self, session: str, agent: str, inbox_ids: Sequence[int]) -> Turn:
        turn, now = self._connection.new_id(), self._connection.now()

        def work(db: Database) -> Turn:
            db.execute(
                "INSERT INTO turn (id, session, agent, state, attempt, started_at) VALUES (?, ?, ?, 'running', 1, ?)",
                (turn, session, agent, stamp(now)),
            )
            claimed = _claim(db, turn, session, inbox_ids)
            return Turn(
                id=turn,
                session=session,
                agent=agent,
                state="running",
                attempt=1,
                started_at=now,
                inbox=tuple(row for row, _ in claimed),
                edited=tuple(row for row, edited in claimed if edited),
            )

        return await self._connection.run(
            work, synced=False
        )  # without the claim the message waits again, and the transcript knows what was done

    async def join(self, turn: str, inbox_ids: Sequence[int]) -> Turn:
        def work(db: Database) -> Turn:
            found = db.execute("SELECT session FROM turn WHERE id = ? AND state = 'running'", (turn,)).fetchone()
            if found is None:
                raise InvalidTransition("the turn is not running", where=f"turn {turn}")
            _claim(db, turn, found[0], inbox_ids)
            return _turn(db, turn)

        return await self._connection.run(work)

    async def release(self, turn: str) -> None:
        def work(db: Database) -> None:
            _count_attempt(db, turn, -1)
            db.execute(_WAIT_AGAIN, (turn,))
            db.execute("DELETE FROM turn WHERE id = ? AND state = 'running'", (turn,))
            _must_have_changed(db, turn)

        await self._connection.run(work)

    async def unfinished(self) -> list[Turn]:
        query = f"{TURN} WHERE state = 'running' ORDER BY suspended_at IS NOT NULL, started_at, rowid"
        return await self._connection.run(lambda db: [read_turn(found) for found in db.execute(query)])

    async def retry(self, turn: str) -> Turn:
        def work(db: Database) -> Turn:
            db.execute("UPDATE turn SET attempt = attempt + 1, suspended_at = NULL WHERE id = ? AND state = 'running'", (turn,))
            _must_have_changed(db, turn)
            _count_attempt(db, turn, 1)
            db.execute(
                "UPDATE tool_call SET state = 'unknown' WHERE turn = ? AND state = 'started' AND effect = 'effect'", (turn,)
            )
            return _turn(db, turn)

        return await self._connection.run(work)

    async def interrupted(self, turn: str) -> None:
        def work(db: Database) -> None:
            db.execute("UPDATE turn SET attempt = max(attempt - 1, 0) WHERE id = ? AND state = 'running'", (turn,))
            _must_have_changed(db, turn)
            _count_attempt(db, turn, -1)

        await self._connection.run(work)

    async def get(self, turn: str) -> Turn | None:
        def work(db: Database) -> Turn | None:
            found = db.execute(f"{TURN} WHERE id = ?", (turn,)).fetchone()
            return None if found is None else read_turn(found)

        return await self._connection.run(work)

    async def first_message(self, turn: str) -> str:
        query = "SELECT account, skey FROM inbox WHERE turn = ? ORDER BY id LIMIT 1"
        found = await self._connection.run(lambda db: db.execute(query, (turn,)).fetchone())
        return "" if found is None else message_uid(*found)

    async def suspend(self, turn: str, approvals: Sequence[NewApproval], chunks: Sequence[NewOutbound]) -> Turn | None:
        now = self._connection.now()

        def work(db: Database) -> Turn | None:
            db.execute(
                "UPDATE turn SET state = 'suspended', suspended_at = ?, attempt = max(attempt - 1, 0) WHERE id = ? AND state = 'running'",
                (stamp(now), turn),
            )
            _must_have_changed(db, turn)
            _count_attempt(db, turn, -1)
            waits = ask(db, turn, approvals, now)
            enqueue(db, chunks, now=now, token=self._connection.new_id, turn=turn)
            if waits:
                return None
            resume_turn(db, turn, now)
            return _turn(db, turn)

        return await self._connection.run(work, self._connection.notify_outbound)

    async def finish(
        self,
        turn: str,
        state: TurnEnd,
        chunks: Sequence[NewOutbound] = (),
        *,
        reason: str = "",
        returned: Collection[int] = (),
        arrivals: Sequence[tuple[str, Arrival]] = (),
        events: Sequence[NewEvent] = (),
    ) -> Finished:
        queue = Queue(self._connection)
        now = queue.now
        if events:
            self._events.changed()

        def work(db: Database) -> Finished:
            db.execute(
                "UPDATE turn SET state = ?, reason = ?, ended_at = ? WHERE id = ? AND state = 'running'",
                (state, clean(reason) or None, stamp(now), turn),
            )
            _must_have_changed(db, turn)
            if returned:
                db.execute(f"{_WAIT_AGAIN} AND id IN {NUMBERS}", (turn, listed(returned)))
            db.execute(
                "UPDATE inbox SET state = ?, reason = ?, ended_at = ? WHERE turn = ? AND state = 'claimed'",
                (_END_OF_MESSAGES[state], clean(reason) or None, stamp(now), turn),
            )
            db.execute(_WITHDRAW, (clean(reason) or "its turn ended", stamp(now), turn))
            for event in events:
                add_event(
                    db, clean(current_chat(db, event.conversation).address), event.line, now, event.sources, agent=event.agent
                )
            taken = [
                take(db, account, arrival, now)[0]
                if arrival.result_of is None
                else end_subagent(db, arrival.result_of, state, arrival, reason=reason, now=now)
                for account, arrival in arrivals
            ]
            keys = tuple(key for _, key in queue.add(db, chunks, turn=turn))
            return Finished(keys=keys, rows=tuple(row for row in taken if row is not None))

        return await self._connection.run(work, queue.tell)

    async def begin_call(self, turn: str, call_id: str, name: str, args_hash: str, effect: Effect) -> ToolState | None:
        values = {"turn": turn, "call": clean(call_id), "name": clean(name), "hash": args_hash, "effect": effect}

        def work(db: Database) -> ToolState | None:
            if db.execute("SELECT 1 FROM turn WHERE id = ? AND state = 'running'", (turn,)).fetchone() is None:
                raise InvalidTransition("a tool was called in a turn that is not running", where=f"turn {turn}")
            before: Any = db.execute("SELECT state FROM tool_call WHERE turn = :turn AND call_id = :call", values).fetchone()
            db.execute(_BEGIN_CALL, values)
            return None if before is None else before[0]

        return await self._connection.run(work)

    async def end_call(self, turn: str, call_id: str, result_ref: str | None = None) -> None:
        values = (None if result_ref is None else clean(result_ref), turn, clean(call_id))
        query = "UPDATE tool_call SET state = 'done', result_ref = ? WHERE turn = ? AND call_id = ? AND state = 'started'"
        await self._connection.run(lambda db: db.execute(query, values).fetchone())

    async def tool_call(self, turn: str, call_id: str) -> ToolRecord | None:
        found = await self._connection.run(lambda db: db.execute(_TOOL, (turn, clean(call_id))).fetchone())
        return None if found is None else _read_tool(found)


def _claim(db: Database, turn: str, session: str, inbox_ids: Sequence[int]) -> list[tuple[int, int | None]]:
    """Give waiting messages to a turn; return their ids in order, each with whether its sender edited it."""
    query = (
        "UPDATE inbox SET state = 'claimed', turn = ?, session = ?, attempts = coalesce(attempts, 0) + 1 "
        "WHERE state = 'waiting' AND id = ? RETURNING id, edited"
    )
    claimed = [found for row in sorted(set(inbox_ids)) for found in db.execute(query, (turn, session, row))]
    if len(claimed) != len(set(inbox_ids)):
        raise InvalidTransition("a message to be answered is not waiting", where=f"inbox {sorted(inbox_ids)}")
    return claimed


def _count_attempt(db: Database, turn: str, more: int) -> None:
    db.execute(
        "UPDATE inbox SET attempts = max(coalesce(attempts, 0) + ?, 0) WHERE turn = ? AND state = 'claimed'", (more, turn)
    )


def _must_have_changed(db: Database, turn: str) -> None:
    if db.changes() != 1:
        raise InvalidTransition("the turn is not running", where=f"turn {turn}")


def _turn(db: Database, turn: str) -> Turn:
    return read_turn(db.execute(f"{TURN} WHERE id = ?", (turn,)).fetchone())


def read_turn(found: Any) -> Turn:
    """Read a turn, selected by ``TURN``."""
    turn, session, agent, state, attempt, started_at, inbox, edited, waited = found
    return Turn(
        id=turn,
        session=session,
        agent=agent,
        state=state,
        attempt=attempt,
        started_at=instant(started_at),
        inbox=tuple(json.loads(inbox)),
        edited=tuple(json.loads(edited)),
        waited=bool(waited),
    )


def _read_tool(found: Any) -> ToolRecord:
    turn, call_id, name, args_hash, effect, state, result_ref = found
    return ToolRecord(
        turn=turn, call_id=call_id, name=name, args_hash=args_hash, effect=effect, state=state, result_ref=result_ref
    )
