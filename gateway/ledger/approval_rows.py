"""Approvals: acts that wait for an owner's decision, and the decisions. A turn that waits for one is suspended."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Protocol

from gateway.ledger.database import Database
from gateway.ledger.outbox import enqueue
from gateway.ledger.rows import Approval, ApprovalState, Decided, Decision, NewApproval, NewOutbound
from gateway.ledger.thread import LedgerConnection
from gateway.ledger.values import clean, instant, listed, read_conversation, stamp, write_conversation

COLUMNS = (
    "id, round, turn, session, transcript, agent, target, call, payload, fingerprint, state, reason, always, decided_by, "
    "asked_at, expires, decided_at"
)
_ASK = f"""
INSERT INTO approval ({COLUMNS})
VALUES (:id, :round, :turn, :session, :transcript, :agent, :target, :call, :payload, :fingerprint, 'pending', NULL, 0, NULL,
        :asked_at, :expires, NULL)
ON CONFLICT (id) DO UPDATE SET round = excluded.round, turn = excluded.turn, session = excluded.session,
    transcript = excluded.transcript, agent = excluded.agent, target = excluded.target, payload = excluded.payload,
    fingerprint = excluded.fingerprint, state = 'pending', reason = NULL, always = 0, decided_by = NULL,
    asked_at = excluded.asked_at, expires = excluded.expires, decided_at = NULL
WHERE excluded.round > approval.round
"""
_WAITS = "EXISTS (SELECT 1 FROM approval WHERE approval.turn = turn.id AND approval.state = 'pending')"
_RESUME = f"""
UPDATE turn SET state = 'running', started_at = started_at + max(0, ? - coalesce(suspended_at, started_at))
WHERE id = ? AND state = 'suspended' AND NOT {_WAITS}
"""


class ApprovalLedger(Protocol):
    """Questions to owners about tool calls, and their decisions. ``TurnLedger.suspend`` asks."""

    async def get(self, approval: str) -> Approval | None:
        """Return a question by its id."""
        ...

    async def of_turn(self, turn: str) -> list[Approval]:
        """Return all questions of a turn, oldest first."""
        ...

    async def latest(self, states: Collection[ApprovalState], *, limit: int = 100) -> list[Approval]:
        """Return the newest questions in these states, oldest first."""
        ...

    async def overdue(self) -> list[Approval]:
        """Return the open questions whose time is over."""
        ...

    async def decide(
        self,
        approval: str,
        number: int,
        decision: Decision,
        *,
        always: bool = False,
        by: str = "",
        reply: Sequence[NewOutbound] = (),
    ) -> Decided | None:
        """Decide an open question of this round, and let its turn run again once none of its questions is open.

        A yes that comes after the question's time is over is stored as "expired". ``reply`` is queued if the question was open. ``by``
        says who decided. Returns None for an id that is not known.
        """
        ...

    async def withdraw(self, session: str, reason: str) -> list[str]:
        """Withdraw the open questions of a session; return the turns that run again, whose work is only to end."""
        ...


class ApprovalsPart:
    """Implements ``ApprovalLedger``."""

    def __init__(self, connection: LedgerConnection) -> None:
        self._connection = connection

    async def get(self, approval: str) -> Approval | None:
        return await self._connection.run(lambda db: _get(db, clean(approval)))

    async def of_turn(self, turn: str) -> list[Approval]:
        query = f"SELECT {COLUMNS} FROM approval WHERE turn = ? ORDER BY asked_at, rowid"
        return await self._connection.run(lambda db: [read_approval(found) for found in db.execute(query, (turn,))])

    async def latest(self, states: Collection[ApprovalState], *, limit: int = 100) -> list[Approval]:
        wanted = "state IN (SELECT value FROM json_each(?))"
        query = f"SELECT {COLUMNS} FROM approval WHERE {wanted} ORDER BY asked_at DESC, rowid DESC LIMIT ?"
        found = await self._connection.run(lambda db: db.execute(query, (listed(states), limit)).fetchall())
        return [read_approval(one) for one in reversed(found)]

    async def overdue(self) -> list[Approval]:
        query = f"SELECT {COLUMNS} FROM approval WHERE state = 'pending' AND expires <= ? ORDER BY expires, rowid"
        now = stamp(self._connection.now())
        return await self._connection.run(lambda db: [read_approval(found) for found in db.execute(query, (now,))])

    async def decide(
        self,
        approval: str,
        number: int,
        decision: Decision,
        *,
        always: bool = False,
        by: str = "",
        reply: Sequence[NewOutbound] = (),
    ) -> Decided | None:
        now, name = self._connection.now(), clean(approval)

        def work(db: Database) -> Decided | None:
            found = _get(db, name)
            if found is None:
                return None
            if found.state != "pending" or found.round != number:
                return Decided(approval=found, changed=False)
            state = "expired" if decision == "approved" and found.expires <= now else decision
            db.execute(
                "UPDATE approval SET state = ?, always = ?, decided_by = ?, decided_at = ? WHERE id = ?",
                (state, int(always and state == "approved"), clean(by) or None, stamp(now), name),
            )
            resumed = found.turn is not None and resume_turn(db, found.turn, now)
            enqueue(db, reply, now=now, token=self._connection.new_id)
            decided = _get(db, name)
            assert decided is not None
            return Decided(approval=decided, changed=True, resumed=resumed)

        return await self._connection.run(work, self._connection.notify_outbound if reply else None)

    async def withdraw(self, session: str, reason: str) -> list[str]:
        now = self._connection.now()

        def work(db: Database) -> list[str]:
            query = "SELECT DISTINCT turn FROM approval WHERE session = ? AND state = 'pending' AND turn IS NOT NULL"
            turns = [str(turn) for (turn,) in db.execute(query, (clean(session),)).fetchall()]
            db.execute(
                "UPDATE approval SET state = 'withdrawn', reason = ?, decided_at = ? WHERE session = ? AND state = 'pending'",
                (clean(reason), stamp(now), clean(session)),
            )
            return [turn for turn in turns if resume_turn(db, turn, now)]

        return await self._connection.run(work)


def ask(db: Database, turn: str, approvals: Sequence[NewApproval], now: datetime) -> bool:
    """Store the questions of a turn; return whether any of the turn's questions is open. A known question stays as it is."""
    for one in approvals:
        values = {
            "id": one.id,
            "round": one.round,
            "turn": turn,
            "session": clean(one.session),
            "transcript": one.transcript,
            "agent": one.agent,
            "target": write_conversation(one.place),
            "call": clean(one.call),
            "payload": clean(one.payload),
            "fingerprint": one.fingerprint,
            "asked_at": stamp(now),
            "expires": stamp(one.expires),
        }
        db.execute(_ASK, values)
    return bool(db.execute("SELECT 1 FROM approval WHERE turn = ? AND state = 'pending'", (turn,)).fetchone())


def resume_turn(db: Database, turn: str, now: datetime) -> bool:
    """Make a suspended turn run again unless one of its questions is open. The time that it waited does not count as its age."""
    db.execute(_RESUME, (stamp(now), turn))
    return db.changes() == 1


def _get(db: Database, approval: str) -> Approval | None:
    found: Any = db.execute(f"SELECT {COLUMNS} FROM approval WHERE id = ?", (approval,)).fetchone()
    return None if found is None else read_approval(found)


def read_approval(found: Any) -> Approval:
    """Read a question, selected as ``COLUMNS``."""
    approval, number, turn, session, transcript, agent, target, call, payload, fingerprint = found[:10]
    state, reason, always, decided_by, asked_at, expires, decided_at = found[10:]
    return Approval(
        id=approval,
        round=number,
        turn=turn,
        session=session,
        transcript=transcript,
        agent=agent,
        place=read_conversation(target),
        call=call,
        payload=payload,
        fingerprint=fingerprint,
        state=state,
        reason=reason,
        always=bool(always),
        decided_by=decided_by,
        asked_at=instant(asked_at),
        expires=instant(expires),
        decided_at=None if decided_at is None else instant(decided_at),
    )
