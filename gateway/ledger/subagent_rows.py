"""Sub-agents: sessions that other sessions started. How many there may be, and what became of each.

The truth of a sub-agent's work is in its messages and turns, as for any session. A row here says whose it is. It is "open" until the
session that started it was told the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from gateway.ledger.context_lines import add_event
from gateway.ledger.database import Database
from gateway.ledger.inbox import take
from gateway.ledger.rows import Arrival, InboxRow, TurnEnd
from gateway.ledger.thread import LedgerConnection, NameCache
from gateway.ledger.values import clean, instant, listed, stamp

ACCOUNT: Final = "agent"
"""The account under which messages between sessions are in the inbox."""
RESULT: Final = "result:"
"""What the alias of a message begins with that brings a sub-agent's result."""
SubAgentState = Literal["open", "done", "failed", "stopped"]
Obstacle = Literal["children", "request", "parent", "known", "over", "messages"]
"""Why nothing was started or sent.

The session has too many sub-agents, the request has, the session was itself stopped, its task is known already, the sub-agent can be asked
no more, or it was sent too many messages.
"""


class NewSubAgent(Struct, frozen=True, kw_only=True):
    """A sub-agent to start. ``name`` names the call that starts it, so that a repeat of the call starts no other; ``id`` follows from it.

    ``parent`` is the key of the session that starts it and is told the result. ``request`` names the turn of the message from which it all
    came. ``depth`` is 1 below a session that is no sub-agent. ``payload`` is JSON that the ledger does not read. ``usd`` is what it
    and all below it may spend in a day.
    """

    id: str
    name: str
    agent: str
    session: str
    parent: str
    request: str
    depth: int
    label: str
    payload: str
    usd: float | None = None


class SubAgent(NewSubAgent, frozen=True, kw_only=True):
    """A sub-agent. ``messages`` counts what it was sent, its task included. One that is ``archived`` can be asked no more."""

    state: SubAgentState
    reason: str
    messages: int
    created_at: datetime
    ended_at: datetime | None
    archived: bool


class SentToSubAgent(Struct, frozen=True, kw_only=True):
    """The result of a start or a message: the sub-agent, and the row to hand out, which is None if it was stored before; or why not."""

    subagent: SubAgent | None = None
    row: InboxRow | None = None
    obstacle: Obstacle | None = None


class StoppedSubAgents(Struct, frozen=True, kw_only=True):
    """The sub-agents that were stopped, parents before their children, and the rows of messages to hand out that tell of it."""

    subagents: tuple[SubAgent, ...]
    rows: tuple[InboxRow, ...] = ()


Telling: TypeAlias = "Callable[[SubAgent], Arrival | tuple[str, str] | None]"
"""Returns what the session above a stopped sub-agent is told: a message, or a conversation's address and the line for its next message.

It may be called twice, and changes nothing.
"""


class SubAgentLedger(Protocol):
    """Sub-agents."""

    async def start(self, new: NewSubAgent, task: Arrival, *, children: int, of_request: int) -> SentToSubAgent:
        """Store a sub-agent with its task, in one transaction; once for each ``name``.

        At most ``children`` open ones of one parent, and ``of_request`` of one request in all.
        """
        ...

    async def send(self, subagent: str, message: Arrival, *, most: int) -> SentToSubAgent:
        """Store a message for a sub-agent that is not archived or stopped, once; at most ``most`` with its task. Its row is open again."""
        ...

    async def end(self, subagent: str, state: TurnEnd, result: Arrival, *, reason: str = "") -> InboxRow | None:
        """Store the result of an open sub-agent for its parent, outside of a turn; return its row, or None where it is not the time."""
        ...

    async def stop(
        self, reason: str, *, below: str | None = None, only: Sequence[str] = (), told: Telling = lambda _: None
    ) -> StoppedSubAgents:
        """Stop open sub-agents, in one transaction: those below a session, those with the ids ``only`` and what is below them, or all.

        What waits for them ends unanswered, and their turns that wait for an approval end. ``told`` returns what those are told whose
        sub-agent is stopped and that are not stopped with it. Turns that run are the caller's to cancel.
        """
        ...

    async def find(self, *, subagent: str = "", session: str = "") -> SubAgent | None:
        """Return a sub-agent by its id or its session's key."""
        ...

    async def task(self, session: str) -> int | None:
        """Return the row of the first message of a sub-agent's session."""
        ...

    async def all(self, *, ended_since: datetime | None = None) -> list[SubAgent]:
        """Return those that are open and, with ``ended_since``, those that ended since then, in the order of their start."""
        ...

    async def below(self, session: str) -> list[SubAgent]:
        """Return the sub-agents below a session that are not archived, parents before their children."""
        ...

    async def abandoned(self) -> list[SubAgent]:
        """Return the open ones that nothing waits for and nothing runs for. ``reason`` says how the last message ended."""
        ...

    async def archive(self, agent: str, ended_before: datetime) -> list[SubAgent]:
        """Mark those of an agent that ended before an instant as archived, and return them."""
        ...


_NEW: Final = "id, name, agent, session, parent, request, depth, label, payload, usd"
COLUMNS: Final = f"{_NEW}, state, reason, messages, created_at, ended_at, archived"
_INSERT: Final = (
    f"INSERT INTO subagent ({_NEW}, state, messages, created_at, archived) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open', 1, ?, 0)"
)
_BELOW: Final = f"""
WITH RECURSIVE below (id, level) AS (
    SELECT id, 0 FROM subagent WHERE parent = :session
    UNION ALL
    SELECT child.id, level + 1 FROM below JOIN subagent AS above USING (id) JOIN subagent AS child ON child.parent = above.session
)
SELECT {COLUMNS} FROM below JOIN subagent USING (id) ORDER BY level, created_at, subagent.rowid
"""
_ALL: Final = f"SELECT {COLUMNS} FROM subagent ORDER BY depth, created_at, rowid"
_ABANDONED: Final = f"""
SELECT {COLUMNS.replace("reason", "(SELECT reason FROM inbox WHERE account = 'agent' AND session = one.session ORDER BY id DESC LIMIT 1)")}
FROM subagent AS one WHERE state = 'open'
AND NOT EXISTS (SELECT 1 FROM inbox WHERE account = 'agent' AND session = one.session AND inbox.state IN ('waiting', 'claimed'))
AND NOT EXISTS (SELECT 1 FROM subagent AS child WHERE child.parent = one.session AND child.state = 'open')
ORDER BY created_at, rowid
"""
_IN_SESSIONS: Final = "session IN (SELECT value FROM json_each(:sessions))"
_SUSPENDED: Final = f"SELECT id FROM turn WHERE state = 'suspended' AND {_IN_SESSIONS}"
_STOP: Final = (
    f"UPDATE subagent SET state = 'stopped', reason = :reason, ended_at = :now WHERE {_IN_SESSIONS}",
    (
        "UPDATE inbox SET state = 'answered', reason = :reason, ended_at = :now WHERE account = 'agent' "
        f"AND {_IN_SESSIONS} AND (state = 'waiting' OR (state = 'claimed' AND turn IN ({_SUSPENDED})))"
    ),
    f"UPDATE approval SET state = 'withdrawn', reason = :reason, decided_at = :now WHERE state = 'pending' AND turn IN ({_SUSPENDED})",
    f"UPDATE turn SET state = 'stopped', reason = :reason, ended_at = :now WHERE state = 'suspended' AND {_IN_SESSIONS}",
)
_OPEN_MESSAGES: Final = (
    "SELECT count(*), count(*) FILTER (WHERE substr(skey, 1, 7) = 'result:') FROM inbox "
    "WHERE account = 'agent' AND session = ? AND state IN ('waiting', 'claimed')"
)


class SubAgentsPart:
    """Implements ``SubAgentLedger``. ``events`` caches which conversations have context events."""

    def __init__(self, connection: LedgerConnection, events: NameCache) -> None:
        self._connection = connection
        self._events = events

    async def start(self, new: NewSubAgent, task: Arrival, *, children: int, of_request: int) -> SentToSubAgent:
        now = self._connection.now()

        def work(db: Database) -> SentToSubAgent:
            if (known := _one(db, "name", new.name)) is not None:
                return SentToSubAgent(subagent=known)
            above = _one(db, "session", new.parent)
            if above is not None and above.state != "open":
                return SentToSubAgent(obstacle="parent")
            if _count(db, "parent = ? AND state = 'open'", new.parent) >= children:
                return SentToSubAgent(obstacle="children")
            if _count(db, "request = ?", new.request) >= of_request:
                return SentToSubAgent(obstacle="request")
            row, _ = take(db, ACCOUNT, task, now)
            if row is None:
                return SentToSubAgent(obstacle="known")
            texts = (new.id, new.name, new.agent, new.session, new.parent, new.request)
            db.execute(_INSERT, (*map(clean, texts), new.depth, clean(new.label), clean(new.payload), new.usd, stamp(now)))
            return SentToSubAgent(subagent=_one(db, "id", new.id), row=row)

        return await self._connection.run(work)

    async def send(self, subagent: str, message: Arrival, *, most: int) -> SentToSubAgent:
        now = self._connection.now()

        def work(db: Database) -> SentToSubAgent:
            found = _one(db, "id", subagent)
            known = "SELECT 1 FROM inbox WHERE account = ? AND skey = ?"
            if found is None or db.execute(known, (ACCOUNT, clean(message.alias))).fetchone() is not None:
                return SentToSubAgent(subagent=found, obstacle=None if found else "over")
            if found.archived or found.state == "stopped":
                return SentToSubAgent(subagent=found, obstacle="over")
            if found.messages >= most:
                return SentToSubAgent(subagent=found, obstacle="messages")
            row, _ = take(db, ACCOUNT, message, now)
            query = "UPDATE subagent SET state = 'open', messages = messages + 1, reason = NULL, ended_at = NULL WHERE id = ?"
            db.execute(query, (found.id,))
            return SentToSubAgent(subagent=_one(db, "id", subagent), row=row)

        return await self._connection.run(work)

    async def end(self, subagent: str, state: TurnEnd, result: Arrival, *, reason: str = "") -> InboxRow | None:
        now = self._connection.now()
        return await self._connection.run(lambda db: end_subagent(db, subagent, state, result, reason=reason, now=now))

    async def stop(
        self, reason: str, *, below: str | None = None, only: Sequence[str] = (), told: Telling = lambda _: None
    ) -> StoppedSubAgents:
        now = self._connection.now()

        def work(db: Database) -> StoppedSubAgents:
            found = [one for one in _selected(db, below, only) if one.state == "open"]
            keys = {one.session for one in found}
            values = {"reason": clean(reason), "now": stamp(now), "sessions": listed(keys)}
            for query in _STOP:
                db.execute(query, values)
            rows: list[InboxRow | None] = []
            for one in found:
                match told(one) if one.parent not in keys else None:
                    case Arrival() as arrival:
                        rows.append(take(db, ACCOUNT, arrival, now)[0])
                    case (str(conversation), str(line)):
                        add_event(db, clean(conversation), line, now, agent=one.agent)
            return StoppedSubAgents(subagents=tuple(found), rows=tuple(row for row in rows if row is not None))

        self._events.changed()
        return await self._connection.run(work)

    async def find(self, *, subagent: str = "", session: str = "") -> SubAgent | None:
        return await self._connection.run(lambda db: _one(db, *(("id", subagent) if subagent else ("session", session))))

    async def task(self, session: str) -> int | None:
        query = "SELECT min(id) FROM inbox WHERE account = 'agent' AND session = ?"
        found: Any = await self._connection.run(lambda db: db.execute(query, (clean(session),)).fetchone())
        return None if found[0] is None else int(found[0])

    async def all(self, *, ended_since: datetime | None = None) -> list[SubAgent]:
        since = None if ended_since is None else stamp(ended_since)
        query = f"SELECT {COLUMNS} FROM subagent WHERE state = 'open' OR ended_at >= ? ORDER BY created_at, rowid"
        return await self._connection.run(lambda db: [read_subagent(found) for found in db.execute(query, (since,))])

    async def below(self, session: str) -> list[SubAgent]:
        return await self._connection.run(lambda db: [one for one in _below(db, session) if not one.archived])

    async def abandoned(self) -> list[SubAgent]:
        return await self._connection.run(lambda db: [read_subagent(found) for found in db.execute(_ABANDONED)])

    async def archive(self, agent: str, ended_before: datetime) -> list[SubAgent]:
        query = (
            "UPDATE subagent SET archived = 1 WHERE state <> 'open' AND archived = 0 AND agent = ? AND ended_at < ? "
            f"RETURNING {COLUMNS}"
        )
        values = (clean(agent), stamp(ended_before))
        return await self._connection.run(lambda db: [read_subagent(found) for found in db.execute(query, values).fetchall()])


def end_subagent(
    db: Database, subagent: str, state: TurnEnd, result: Arrival, *, reason: str, now: datetime
) -> InboxRow | None:
    """Store a result of an open sub-agent for its parent; return its row.

    Nothing is stored while sub-agents of its own work, or their results wait for it: what it says now is not its result yet. It stays open
    while other messages wait for it.
    """
    found = _one(db, "id", subagent)
    if found is None or found.state != "open" or _count(db, "parent = ? AND state = 'open'", found.session):
        return None
    waiting: Any = db.execute(_OPEN_MESSAGES, (found.session,)).fetchone()
    if waiting[1]:
        return None
    row, _ = take(db, ACCOUNT, result, now)
    if not waiting[0]:
        query = "UPDATE subagent SET state = ?, reason = ?, ended_at = ? WHERE id = ?"
        db.execute(query, (state, clean(reason) or None, stamp(now), found.id))
    return row


def _one(db: Database, column: str, value: str) -> SubAgent | None:
    found = db.execute(f"SELECT {COLUMNS} FROM subagent WHERE {column} = ?", (clean(value),)).fetchone()
    return None if found is None else read_subagent(found)


def _count(db: Database, condition: str, value: str) -> int:
    found: Any = db.execute(f"SELECT count(*) FROM subagent WHERE {condition}", (clean(value),)).fetchone()
    return int(found[0])


def _selected(db: Database, below: str | None, only: Sequence[str]) -> list[SubAgent]:
    """Return the sub-agents below a session, those named with all below them, or all; parents before their children."""
    if below is not None:
        return _below(db, below)
    if not only:
        return [read_subagent(found) for found in db.execute(_ALL)]
    tops = [one for name in only if (one := _one(db, "id", name)) is not None]
    found = {one.id: one for top in tops for one in (top, *_below(db, top.session))}
    return sorted(found.values(), key=lambda one: one.depth)


def _below(db: Database, session: str) -> list[SubAgent]:
    """Return the sub-agents below a session, parents before their children."""
    return [read_subagent(found) for found in db.execute(_BELOW, {"session": clean(session)})]


def read_subagent(found: Any) -> SubAgent:
    """Read a sub-agent, selected as ``COLUMNS``."""
    *same, state, reason, messages, created_at, ended_at, archived = found
    names = NewSubAgent.__struct_fields__
    return SubAgent(
        **dict(zip(names, same, strict=True)),
        state=state,
        reason=reason or "",
        messages=messages,
        created_at=instant(created_at),
        ended_at=None if ended_at is None else instant(ended_at),
        archived=bool(archived),
    )
