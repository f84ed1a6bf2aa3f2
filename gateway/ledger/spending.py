"""Tokens and cost of model calls: reserved before each call, settled after it. A crash in between leaves the reservation spent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gateway.base.errors import StorageFailed
from gateway.ledger.database import Database
from gateway.ledger.spending_rows import (
    Limit,
    NewCall,
    RecordedCall,
    Reserved,
    Same,
    Spent,
    SpentOn,
    TurnCosts,
    UsageBy,
    UsageRow,
)
from gateway.ledger.thread import LedgerConnection, NameCache
from gateway.ledger.turn_costs import turn_costs
from gateway.ledger.values import NUMBERS, clean, instant, listed, stamp

_ALLOWED, _NOTED = "allowed:", "noted:"
"""Prefixes of rows in ``meta``: an allowance (its value is the turn that uses it), and something that happened today."""
POLL_SECONDS: Final = 3.0
"""How often a shared ledger is asked for room that calls of other gateways have left."""
LONGEST_CALL: Final = timedelta(minutes=15)
"""How long a reservation of another gateway counts as a call that is under way; later as one that a crash left."""
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
        """A day, and what calls cost since. It follows each change, so that a turn need not ask. Not used where others book calls, too."""
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
            counted = {limit.name: _counted(db, call, limit) for limit in all_limits}
            used = _used(db, call, set(counted.values()))
            shares = {limit.name: limit.share(*used[counted[limit.name]]) for limit in all_limits}
            own = {limit.name: limit.share(call.tokens, call.usd) for limit in all_limits}
            if broken := [one for one in all_limits if one.is_broken(shares[one.name], own[one.name], force=force)]:
                under_way = _UnderWay(list(self._under_way), since)
                refusals = [
                    Reserved(
                        row=None,
                        broken=limit,
                        shares=shares,
                        tokens=call.tokens,
                        usd=call.usd,
                        held=limit.share(*under_way.used(db, call, counted[limit.name])) - own[limit.name],
                        as_of=as_of,
                    )
                    for limit in broken
                ]
                lasting = [one for one in refusals if not one.only_held]
                if not lasting:
                    return refusals[0]
                return replace(lasting[0], further=tuple(one.broken for one in lasting[1:] if one.broken is not None))
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

    async def turn_costs(self, call: NewCall) -> TurnCosts:
        return await self._connection.run(lambda db: turn_costs(db, call), synced=False)

    async def cost_since(self, day: str) -> float:
        if self.shared or self._total is None or self._total[0] != day:
            changes = self._changes
            found: Any = await self._connection.run(lambda db: db.execute(_COST_SINCE, (day,)).fetchone(), synced=False)
            cost = found[0] / _PICODOLLARS
            if self.shared or changes != self._changes:
                return float(cost)
            self._total = day, cost
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

    async def of_sessions(self, sessions: Sequence[str], since: datetime) -> dict[str, tuple[int, float]]:
        values = (listed(_days(since, self._connection.now())), listed(map(clean, sessions)))
        found: list[Any] = await self._connection.run(lambda db: db.execute(_OF_SESSIONS, values).fetchall())
        return {session: (int(tokens), picodollars / _PICODOLLARS) for session, tokens, picodollars in found}


def _days(since: datetime, until: datetime) -> list[str]:
    """Return the dates on which calls between two instants can have been booked, whatever the owner's time zone is."""
    first, last = (since - timedelta(days=1)).date(), (until + timedelta(days=1)).date()
    return [f"{first + timedelta(days=number):%Y-%m-%d}" for number in range((last - first).days + 1)]


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


_Total = tuple[Same, str]
"""Which calls of a day count for a limit: a scope and a name, as in ``spending_total``; those of a session with all that came of it."""
_PICODOLLARS: Final = 1e12
_COST_SINCE: Final = "SELECT coalesce(sum(picodollars), 0.0) FROM spending_total WHERE day >= ? AND scope = '' AND name = ''"
_OF_SESSIONS: Final = (
    "SELECT name, sum(tokens), sum(picodollars) FROM spending_total WHERE day IN (SELECT value FROM json_each(?)) "
    "AND scope = 'session' AND name IN (SELECT value FROM json_each(?)) GROUP BY name"
)
"""The days are named, so that each session's total of a day is looked up by itself."""
_ONE_TOTAL: Final = "tokens, picodollars FROM spending_total WHERE day = ? AND scope = ? AND name = ?"
_OF_TREE: Final = "(SELECT {column} FROM spending_total WHERE day = ? AND scope = 'session' AND name = tree.session)"
_TREE_TOTAL: Final = (
    f"coalesce(sum({_OF_TREE.format(column='tokens')}), 0), coalesce(sum({_OF_TREE.format(column='picodollars')}), 0.0) "
    f"FROM ({_TREE}) AS tree"
)
"""Each session is looked up by itself, whatever the planner takes the size of the table for."""
_COLUMNS: Final[dict[Same, str]] = {
    "": "",
    "agent": " AND agent = ?",
    "source": " AND source = ?",
    "background": " AND background = 1",
    "session": f" AND (session = ? OR session IN ({_TREE}))",
}


def _counted(db: Database, call: NewCall, limit: Limit) -> _Total:
    if limit.within:
        return "session", clean(limit.within)
    names = {"agent": call.agent, "source": call.source, "session": _top(db, call.session) if limit.same == "session" else ""}
    return limit.same, clean(names.get(limit.same, ""))


def _used(db: Database, call: NewCall, totals: Collection[_Total]) -> dict[_Total, tuple[int, float]]:
    """Return the tokens and USD of each total if this call uses its most. However many calls the day has, it takes the same time."""
    found = {total: (call.tokens, _whole(call.usd)) for total in totals}
    numbered, parts, values = list(totals), list[str](), list[str]()
    for number, (scope, name) in enumerate(numbered):
        parts.append(f"SELECT {number} AS number, {_ONE_TOTAL}")
        values += (call.day, scope, name)
        if scope == "session":
            parts.append(f"SELECT {number} AS number, {_TREE_TOTAL}")
            values += (call.day, call.day, name)
    for number, tokens, picodollars in db.execute(" UNION ALL ".join(parts), values) if parts else ():
        before = found[numbered[number]]
        found[numbered[number]] = before[0] + tokens, before[1] + picodollars
    return {total: (tokens, picodollars / _PICODOLLARS) for total, (tokens, picodollars) in found.items()}


def _whole(usd: float | None) -> float:
    return float(round((usd or 0.0) * _PICODOLLARS))


class _UnderWay(Struct, frozen=True):
    """Which rows are calls under way: these, if they are not settled, and all others that are not and were begun ``since`` then."""

    rows: list[int]
    since: int | None

    def used(self, db: Database, call: NewCall, total: _Total) -> tuple[int, float]:
        """Return what ``_used`` does, with calls under way alone. The rows of the others are not read."""
        scope, name = total
        which = f"id IN {NUMBERS}{'' if self.since is None else ' OR at >= ?'}"
        query = (
            f"WITH under_way AS MATERIALIZED (SELECT * FROM spending WHERE settled = 0 AND ({which})) "
            "SELECT coalesce(sum(tokens), 0), coalesce(sum(round(coalesce(cost, 0.0) * 1e12)), 0.0) FROM under_way "
            f"WHERE day = ?{_COLUMNS[scope]}"
        )
        values = (listed(self.rows), *(() if self.since is None else (self.since,)), call.day)
        found: Any = db.execute(query, (*values, *[name] * _COLUMNS[scope].count("?"))).fetchone()
        return found[0] + call.tokens, (found[1] + _whole(call.usd)) / _PICODOLLARS
