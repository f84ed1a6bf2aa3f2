"""Tokens and cost of model calls: reserved before each call, settled after it. A crash in between leaves the reservation spent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from gateway.base.errors import StorageFailed
from gateway.ledger.database import Database
from gateway.ledger.thread import LedgerConnection, NameCache
from gateway.ledger.values import NUMBERS, clean, instant, listed, stamp

_ALLOWED, _NOTED = "allowed:", "noted:"
"""Prefixes of rows in ``meta``: an allowance (its value is the turn that uses it), and something that happened today."""
POLL_SECONDS: Final = 3.0
"""How often a shared ledger is asked for room that calls of other gateways have left."""
LONGEST_CALL: Final = timedelta(minutes=15)
"""How long a reservation of another gateway counts as a call that is under way; later as one that a crash left."""


class SpendingLedger(Protocol):
    """Tokens and cost of model calls."""

    async def reserve(self, call: NewCall, limits: Sequence[Limit], *, force: bool = False) -> Reserved:
        """Record a call about to be made, unless it could exceed one of the limits. ``force`` records it anyway."""
        ...

    async def settle_call(self, row: int, spent: Spent) -> None:
        """Record what a call used."""
        ...

    async def settled_since(self, reserved: Reserved) -> None:
        """Return once a call was settled after a reservation was refused; in a ledger that others share after some seconds anyway."""
        ...

    async def allow(self, session: str) -> None:
        """Let the session's next turn exceed every limit."""
        ...

    async def use_allowance(self, session: str, turn: str) -> bool:
        """Return whether a turn may exceed the limits. It takes an unused allowance of its session, and keeps it over restarts."""
        ...

    async def first_time(self, day: str, what: str) -> bool:
        """Record that something happened on a day; return whether it was the first time. Records of other days are deleted."""
        ...

    async def spent_on(self, day: str) -> list[SpentOn]:
        """Return what each session used on a day (``YYYY-MM-DD``), in the background and otherwise, by source."""
        ...

    async def calls_since(self, day: str, *, limit: int = 50_000) -> list[RecordedCall]:
        """Return the latest calls from a day on that were booked with the provider's figures, oldest first."""
        ...

    async def of_sessions(self, sessions: Sequence[str]) -> dict[str, tuple[int, float]]:
        """Return the tokens and the USD that sessions have used in all, by their keys; without those that used nothing."""
        ...

    async def cost_since(self, day: str) -> float:
        """Return what all calls from a day on cost, in USD, reservations included. It is read once, and kept up to date."""
        ...

    async def usage(self, since: str, by: UsageBy = "model") -> list[UsageRow]:
        """Return the usage from a day (``YYYY-MM-DD``) on, by day, agent and model, or origin or source of the turns.

        For people the source is their origin; in the background and outside of turns the origin is empty.
        """
        ...


class NewCall(Struct, frozen=True, kw_only=True):
    """A model call about to be made, with the most it can use. ``day`` is the owner's date; ``usd`` is None when no price is known.

    ``origin`` is who or what started the turn that makes it, and is empty outside of turns; ``source`` is the job, webhook or
    sub-agent, such as "job:abcde", and is empty for people.
    """

    day: str
    agent: str
    session: str
    model: str
    background: bool
    tokens: int
    usd: float | None
    origin: str = ""
    source: str = ""


_ROUNDING: Final = 1e-9


class Limit(Struct, frozen=True, kw_only=True):
    """A limit on one day's calls: those of the same agent, session or source (``same`` names the columns), in the background, or all.

    Calls of a session are counted with those of all sub-agents that came of it. With ``within``, a session's key, only those count.
    ``of`` says in words whose it is, for one that belongs to a job, webhook or sub-agent; such a one cannot be forced. ``by_use``: it
    refuses calls once it is used up, so that the last one may go beyond it; otherwise each that could. One is of tokens or of USD.
    """

    name: str
    of: str = ""
    same: tuple[str, ...] = ()
    within: str = ""
    tokens: int | None = None
    usd: float | None = None
    by_use: bool = False

    def share(self, tokens: int, usd: float | None) -> float:
        """Return which share of the limit so much is; 1 is all of it."""
        of_tokens = 0.0 if self.tokens is None else tokens / max(self.tokens, 1)
        of_usd = 0.0 if self.usd is None or not usd else usd / max(self.usd, 1e-9)
        return max(of_tokens, of_usd)

    def is_broken(self, share: float, own: float) -> bool:
        """Whether a call may not be made with which ``share`` of the limit would be used, ``own`` of it at most by the call itself."""
        if self.by_use and self.tokens != 0 and self.usd != 0:
            return own > 0 and share - own >= 1 - _ROUNDING
        return share > 1


class Reserved(Struct, frozen=True, kw_only=True):
    """The result of a reservation: the call's row, or the limit it could exceed. ``shares`` of each limit are used with this call.

    ``held``: the share of the broken limit that calls under way have reserved, and of which they may leave a part; ``own``: the most that
    the call itself would use of it. ``as_of``: how many calls had been settled before.
    """

    row: int | None
    broken: Limit | None
    shares: dict[str, float]
    held: float = 0.0
    own: float = 0.0
    as_of: int = 0

    @property
    def only_held(self) -> bool:
        """Whether it is refused only because of calls under way: without them there would be room."""
        limit = self.broken
        return limit is not None and self.held > 0 and not limit.is_broken(self.shares[limit.name] - self.held, self.own)


class Spent(Struct, frozen=True, kw_only=True):
    """What a call used. ``cost`` is in USD; ``estimated``: tokens or price are our estimate, not the provider's figure."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None
    estimated: bool = False


class UsageRow(Struct, frozen=True, kw_only=True):
    """What one agent used on one day of one model, or for one origin or source: that is its ``name``.

    ``unpriced`` counts calls without a cost, ``open`` those never settled, ``estimated`` those whose tokens or price are our estimate.
    """

    day: str
    agent: str
    name: str
    calls: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float
    unpriced: int
    open: int
    estimated: int = 0


class SpentOn(Struct, frozen=True, kw_only=True):
    """What a session used on one day, in the background or not, for one source.

    ``top`` is the session that its sub-agents belong to; else itself.
    """

    agent: str
    session: str
    top: str
    background: bool
    calls: int
    tokens: int
    cost: float
    source: str = ""


class RecordedCall(Struct, frozen=True, kw_only=True):
    """One call that was booked with the provider's figures. ``cost`` is in USD, and None in those of an earlier version."""

    at: datetime
    session: str
    model: str
    input: int
    output: int
    cache_read: int
    cache_write: int
    cost: float | None = None


UsageBy = Literal["model", "origin", "source"]
_STARTED_BY: Final = "CASE WHEN background = 0 OR origin = 'refresh' THEN origin END"
_NAMES: Final[dict[UsageBy, str]] = {
    "model": "model",
    "origin": f"coalesce({_STARTED_BY}, '')",
    "source": f"coalesce(source, {_STARTED_BY}, '')",
}
"""Background calls of a turn (flushes, summaries) are upkeep, whoever started it."""
_TOLD, _ESTIMATED = 1, 2
"""Values of ``settled``: the provider's figures, or our estimate (0: not settled yet)."""


class SpendingPart:
    """Implements ``SpendingLedger``."""

    def __init__(self, connection: LedgerConnection) -> None:
        self._connection = connection
        self.allowances = NameCache()
        self._total: tuple[str, float] | None = None
        """A day, and what calls cost since. It follows each change, so that a turn costs the same whatever was spent."""
        self._changes = 0
        self._reserved: dict[int, tuple[str, float]] = {}
        """Day and cost of the calls that were reserved here and not settled yet."""
        self._under_way: set[int] = set()
        """The rows of these, as the ledger's thread knows them: also of those whose callers are still to be told."""
        self.shared = False
        """Whether other gateways book their calls here, too."""
        self._settlements = 0
        self._waiting: list[asyncio.Future[None]] = []

    async def reserve(self, call: NewCall, limits: Sequence[Limit], *, force: bool = False) -> Reserved:
        now, made, as_of = self._connection.now(), list[int](), self._settlements
        at, since = stamp(now), stamp(now - LONGEST_CALL) if self.shared else None

        def work(db: Database) -> Reserved:
            all_limits = [*limits, *(_of_subagents(db, call.session) if ":sub:" in call.session else ())]
            kinds = {
                (limit.same, limit.within): limit for limit in all_limits
            }  # a budget of tokens and one of USD are read at once
            used = {kind: _used(db, call, limit) for kind, limit in kinds.items()}
            shares = {limit.name: limit.share(*used[limit.same, limit.within]) for limit in all_limits}
            own = {limit.name: limit.share(call.tokens, call.usd) for limit in all_limits}
            if broken := [
                limit
                for limit in all_limits
                if limit.is_broken(shares[limit.name], own[limit.name]) and (limit.of or not force)
            ]:
                under_way = _UnderWay(list(self._under_way), since)
                refusals = [
                    Reserved(
                        row=None,
                        broken=limit,
                        shares=shares,
                        held=limit.share(*_used(db, call, limit, of=under_way)) - own[limit.name],
                        own=own[limit.name],
                        as_of=as_of,
                    )
                    for limit in broken
                ]
                return next((one for one in refusals if not one.only_held), refusals[0])
            values = (
                *(call.day, at, call.agent, call.session, call.model),
                *(int(call.background), call.tokens, call.usd),
                *(clean(call.origin) or None, clean(call.source) or None),
            )
            query = (
                "INSERT INTO spending (day, at, agent, session, model, background, tokens, cost, origin, source) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"
            )
            (row,) = db.execute(query, values).fetchall()[0]
            made[:] = [int(str(row))]
            self._under_way.add(made[0])
            return Reserved(row=made[0], broken=None, shares=shares)

        def booked() -> None:
            for row in made:
                self._reserved[row] = call.day, call.usd or 0.0
                self._add(call.day, call.usd or 0.0)

        return await self._connection.run(work, booked, synced=False)

    async def settle_call(self, row: int, spent: Spent) -> None:
        tokens = spent.input + spent.output + spent.cache_read + spent.cache_write
        settled = _ESTIMATED if spent.estimated else _TOLD
        values = (settled, tokens, spent.cost, spent.input, spent.output, spent.cache_read, spent.cache_write, row)
        query = "UPDATE spending SET settled = ?, tokens = ?, cost = ?, input = ?, output = ?, cache_read = ?, cache_write = ? WHERE id = ?"
        try:
            await self._connection.run(
                lambda db: db.execute(query, values).fetchone(), lambda: self._settled(row, spent), synced=False, lazy=True
            )
        except StorageFailed:  # it stays reserved for good: nobody waits for what it may leave
            self._reserved.pop(row, None)
            self._under_way.discard(row)
            self._total = None
            raise

    async def settled_since(self, reserved: Reserved) -> None:
        if self._settlements > reserved.as_of:
            return
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(told)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS if self.shared else None):
                    await told
        finally:
            if told in self._waiting:
                self._waiting.remove(told)

    def _settled(self, row: int, spent: Spent) -> None:
        self._settlements += 1
        self._under_way.discard(row)
        waiting, self._waiting = self._waiting, []
        for one in waiting:  # in the order in which they began to wait
            if not one.done():
                one.set_result(None)
        day, reserved = self._reserved.pop(row, ("", 0.0))
        if not day:  # an earlier life reserved it
            self._changes += 1
            self._total = None
        self._add(day, (spent.cost or 0.0) - reserved)

    def _add(self, day: str, cost: float) -> None:
        self._changes += 1
        if self._total is not None and day >= self._total[0]:
            self._total = self._total[0], self._total[1] + cost

    async def cost_since(self, day: str) -> float:
        if self._total is None or self._total[0] != day:
            changes, query = self._changes, "SELECT coalesce(sum(cost), 0.0) FROM spending WHERE day >= ?"
            found: Any = await self._connection.run(lambda db: db.execute(query, (day,)).fetchone(), synced=False)
            if changes != self._changes:
                return float(found[0])
            self._total = day, float(found[0])
        return self._total[1]

    async def allow(self, session: str) -> None:
        query = "INSERT INTO meta VALUES (?, '') ON CONFLICT (name) DO UPDATE SET value = ''"
        self.allowances.changed()
        await self._connection.run(lambda db: db.execute(query, (f"{_ALLOWED}{clean(session)}",)).fetchone())

    async def use_allowance(self, session: str, turn: str) -> bool:
        name = f"{_ALLOWED}{clean(session)}"
        if self.allowances.lacks(name):
            return False
        as_of = self.allowances.changes

        def work(db: Database) -> tuple[list[str], bool]:
            db.execute("UPDATE meta SET value = ? WHERE name = ? AND value = ''", (turn, name))
            names = [str(one) for (one,) in db.execute(_ALL_ALLOWANCES, {"prefix": _ALLOWED})]
            return names, db.execute("SELECT 1 FROM meta WHERE name = ? AND value = ?", (name, turn)).fetchone() is not None

        names, allowed = await self._connection.run(work)
        self.allowances.learn(names, as_of)
        return allowed

    async def first_time(self, day: str, what: str) -> bool:
        name = f"{_NOTED}{day} {clean(what)}"

        def work(db: Database) -> bool:
            db.execute(_FORGET_OTHER_DAYS, {"noted": _NOTED, "today": f"{_NOTED}{day} "})
            db.execute("INSERT INTO meta VALUES (?, '') ON CONFLICT DO NOTHING", (name,))
            return db.changes() == 1

        return await self._connection.run(work)

    async def usage(self, since: str, by: UsageBy = "model") -> list[UsageRow]:
        name = _NAMES[by]
        query = (
            f"SELECT day, agent, {name} AS name, count(*), sum(input), sum(output), sum(cache_read), sum(cache_write), "
            "coalesce(sum(cost), 0.0), count(*) FILTER (WHERE cost IS NULL), count(*) FILTER (WHERE settled = 0), "
            "count(*) FILTER (WHERE settled = 2) FROM spending WHERE day >= ? "
            "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
        )
        found: list[Any] = await self._connection.run(lambda db: db.execute(query, (since,)).fetchall())
        return [
            UsageRow(**dict(zip(UsageRow.__struct_fields__, row, strict=True)))  # the columns are in the order of the fields
            for row in found
        ]

    async def spent_on(self, day: str) -> list[SpentOn]:
        query = (
            "SELECT agent, session, background, coalesce(source, ''), count(*), sum(tokens), coalesce(sum(cost), 0.0) FROM spending "
            "WHERE day = ? GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
        )

        def work(db: Database) -> list[SpentOn]:
            found: list[Any] = db.execute(query, (day,)).fetchall()
            return [
                SpentOn(
                    agent=agent,
                    session=session,
                    top=_top(db, session),
                    background=bool(background),
                    calls=calls,
                    tokens=tokens,
                    cost=cost,
                    source=source,
                )
                for agent, session, background, source, calls, tokens, cost in found
            ]

        return await self._connection.run(work)

    async def calls_since(self, day: str, *, limit: int = 50_000) -> list[RecordedCall]:
        query = (
            "SELECT at, session, model, input, output, cache_read, cache_write, cost FROM spending WHERE day >= ? AND settled = 1 "
            "AND input + cache_read + cache_write > 0 ORDER BY id DESC LIMIT ?"
        )
        found: list[Any] = await self._connection.run(lambda db: db.execute(query, (day, limit)).fetchall())
        return [
            RecordedCall(
                at=instant(at),
                session=session,
                model=model,
                input=sent,
                output=output,
                cache_read=read,
                cache_write=written,
                cost=cost,
            )
            for at, session, model, sent, output, read, written, cost in reversed(found)
        ]

    async def of_sessions(self, sessions: Sequence[str]) -> dict[str, tuple[int, float]]:
        query = (
            "SELECT session, sum(tokens), coalesce(sum(cost), 0.0) FROM spending "
            "WHERE session IN (SELECT value FROM json_each(?)) GROUP BY session"
        )
        found: list[Any] = await self._connection.run(lambda db: db.execute(query, (listed(sessions),)).fetchall())
        return {session: (tokens, cost) for session, tokens, cost in found}


_ALL_ALLOWANCES = "SELECT name FROM meta WHERE substr(name, 1, length(:prefix)) = :prefix"
_FORGET_OTHER_DAYS = (
    "DELETE FROM meta WHERE substr(name, 1, length(:noted)) = :noted AND substr(name, 1, length(:today)) <> :today"
)
_TREE = (
    "WITH RECURSIVE tree (session) AS (SELECT session FROM subagent WHERE parent = ? "
    "UNION SELECT subagent.session FROM subagent JOIN tree ON subagent.parent = tree.session) SELECT session FROM tree"
)
"""The sessions of all sub-agents that came of a session."""
_ABOVE = """
WITH RECURSIVE above (session, parent) AS (
    SELECT session, parent FROM subagent WHERE session = ?
    UNION SELECT subagent.session, subagent.parent FROM subagent JOIN above ON subagent.session = above.parent
)
SELECT subagent.id, subagent.label, subagent.session, subagent.parent, subagent.usd FROM above JOIN subagent USING (session)
ORDER BY subagent.depth
"""
"""A sub-agent and those above it, the highest first."""


def _of_subagents(db: Database, session: str) -> list[Limit]:
    """Return what a sub-agent and those above it may spend, each with all that came of it."""
    found: list[Any] = db.execute(_ABOVE, (clean(session),)).fetchall()
    return [
        Limit(name=f"subagent:{name}", of=f"the sub-agent “{label}”", within=key, usd=usd)
        for name, label, key, _, usd in found
        if usd is not None
    ]


def _top(db: Database, session: str) -> str:
    """Return the session from which a sub-agent's came; any other session is its own."""
    found: list[Any] = db.execute(_ABOVE, (clean(session),)).fetchall() if ":sub:" in session else []
    return str(found[0][3]) if found else session


class _UnderWay(Struct, frozen=True):
    """Which rows are calls under way: these, if they are not settled, and all others that are not and were begun ``since`` then."""

    rows: list[int]
    since: int | None


def _used(db: Database, call: NewCall, limit: Limit, *, of: _UnderWay | None = None) -> tuple[int, float]:
    """Return the tokens and USD that count for a limit if this call uses its most. With ``of``, only calls under way count."""
    within = limit.within or (_top(db, call.session) if "session" in limit.same else "")
    same = "".join(f" AND {column} = ?" for column in limit.same if column != "session")
    values = (call.day, *(getattr(call, column) for column in limit.same if column != "session"))
    if within:
        same += f" AND (session = ? OR session IN ({_TREE}))"
        values = (*values, clean(within), clean(within))
    if of is not None:
        same += f" AND settled = 0 AND (id IN {NUMBERS}{'' if of.since is None else ' OR at >= ?'})"
        values = (*values, listed(of.rows), *(() if of.since is None else (of.since,)))
    query = f"SELECT coalesce(sum(tokens), 0), coalesce(sum(cost), 0.0) FROM spending WHERE day = ?{same}"
    found: Any = db.execute(query, values).fetchone()
    return found[0] + call.tokens, found[1] + (call.usd or 0.0)
