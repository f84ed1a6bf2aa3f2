"""The sums of a day's calls, which budgets are checked by: they are those of the rows, whatever happened, and cost the same to ask."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections import Counter
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from gateway.base.clock import ManualClock
from gateway.ledger import schema
from gateway.ledger.ledger_file import connect
from gateway.ledger.ledger_store import LedgerStore, new_id
from gateway.ledger.rows import Arrival
from gateway.ledger.spending_rows import Limit, NewCall, Spent
from gateway.ledger.sqlite_engine import SqliteEngine
from gateway.ledger.subagent_rows import NewSubAgent
from gateway.ledger.thread import LedgerConnection, LedgerThread
from tests import postgres_server
from tests.ledger import engines
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from gateway.ledger.database import Database, Engine

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MAIN, OTHER, CHILD, GRANDCHILD = "agent:main:a", "agent:other:b", "agent:main:sub:1", "agent:main:sub:2"
PARENTS = {CHILD: MAIN, GRANDCHILD: CHILD}
SESSIONS = (MAIN, OTHER, CHILD, GRANDCHILD)
DAYS, SOURCES = ("2026-03-01", "2026-03-02"), ("", "job:a", "hook:b")
CALLS = "SELECT day, agent, session, background, source, settled, tokens, cost FROM spending"
TOTALS = "SELECT day, scope, name, calls, settled, tokens, picodollars FROM spending_total"
INSERT = (
    "INSERT INTO spending (day, at, agent, session, model, background, settled, tokens, cost, source) "
    "VALUES (?, ?, ?, ?, 'm', ?, ?, ?, ?, ?)"
)


def summed(calls: Sequence[Any]) -> dict[tuple[str, str, str], tuple[int, int, int, float]]:
    """Return what the totals of calls are by definition."""
    found: dict[tuple[str, str, str], list[Any]] = {}
    for day, agent, session, background, source, settled, tokens, cost in calls:
        scopes = [("", ""), ("agent", agent), ("session", session)]
        scopes += [("background", "")] * background + [("source", source)] * (source is not None)
        for scope in scopes:
            total = found.setdefault((day, *scope), [0, 0, 0, 0])
            for place, more in enumerate((1, settled, tokens, round((cost or 0.0) * 1e12))):
                total[place] += more
    return {name: tuple(total) for name, total in found.items()}


def totals_of(db: Database) -> dict[tuple[str, str, str], Any]:
    """Return the totals. Raises AssertionError where they are not those of the rows."""
    calls: list[Any] = db.execute(CALLS).fetchall()
    totals = {tuple(row[:3]): tuple(row[3:]) for row in db.execute(TOTALS).fetchall()}
    assert totals == summed(calls)
    return totals


@asynccontextmanager
async def open_at(path: Path, clock: ManualClock) -> AsyncIterator[tuple[LedgerConnection, LedgerStore]]:
    """A ledger with its connection. How it is left is how a process that ends at once leaves it."""

    def engine() -> Engine:
        if engines.Current.engine == engines.SQLITE:
            found = connect(path, new_id(), clock.now())
            return SqliteEngine(found.db, found.marking, str(path))
        from gateway.ledger.postgres.engine import PostgresEngine

        return PostgresEngine(postgres_server.server().url(), engines.schema_of(path), new_id(), lambda _: None)

    thread = LedgerThread(engine, "here")
    await thread.start()
    connection = LedgerConnection(thread, clock, new_id)
    yield connection, LedgerStore(connection, "here")
    await connection.close()


class Call(Struct):
    """A call in the model. ``usd`` is in ten-thousandths of a dollar: sums of such floats drift, which whole numbers do not."""

    day: str
    at: datetime
    session: str
    background: bool
    source: str
    tokens: int
    usd: int
    settled: bool = False

    @property
    def agent(self) -> str:
        return self.session.split(":")[1]


def top(session: str) -> str:
    while session in PARENTS:
        session = PARENTS[session]
    return session


def tree(session: str) -> set[str]:
    return {session, *(each for one, parent in PARENTS.items() if parent == session for each in tree(one))}


class Model:
    """What is spent, in rows that are summed one by one."""

    def __init__(self, most: dict[str, int]) -> None:
        self.most = most
        self.calls: dict[int, Call] = {}
        self.here: set[int] = set()
        """The rows that the present life reserved."""

    def limits(self, call: Call) -> list[Limit]:
        usd, tokens = self.most["usd"] / 10_000, self.most["tokens"]
        if call.background:
            found = [Limit(name="background", same="background", usd=usd, by_use=True)]
        else:
            found = [
                Limit(name="day", usd=2 * usd),
                Limit(name="agent.usd", same="agent", usd=1.5 * usd),
                Limit(name="agent.tokens", same="agent", tokens=2 * tokens),
                Limit(name="session", same="session", usd=usd),
            ]
        return found + [Limit(name="source", of="it", same="source", tokens=tokens)] * bool(call.source)

    def all_limits(self, call: Call) -> list[Limit]:
        above, session = list[Limit](), call.session
        while session in PARENTS:
            above.append(Limit(name=f"subagent:{session[-1]}", of="it", within=session, usd=self.most["usd"] / 10_000))
            session = PARENTS[session]
        return [*self.limits(call), *reversed(above)]

    def counted(self, limit: Limit, call: Call) -> list[tuple[int, Call]]:
        within = tree(limit.within or top(call.session))

        def counts(one: Call) -> bool:
            matches = {
                "": not limit.within or one.session in within,
                "agent": one.agent == call.agent,
                "session": one.session in within,
                "source": one.source == call.source,
                "background": one.background,
            }
            return one.day == call.day and matches[limit.same]

        return [(row, one) for row, one in self.calls.items() if counts(one)]

    def expected(self, call: Call, *, force: bool) -> tuple[str, bool]:
        """Return the limit that a call breaks, "" for none, and whether only calls under way leave no room."""
        refusals = []
        for limit in self.all_limits(call):
            unit = "tokens" if limit.usd is None else "usd"
            most = limit.tokens if limit.tokens is not None else round((limit.usd or 0) * 10_000)
            counted, own = self.counted(limit, call), getattr(call, unit)
            used = sum(getattr(one, unit) for _, one in counted)
            held = sum(getattr(one, unit) for row, one in counted if row in self.here and not one.settled)

            def breaks(before: int, own: int = own, most: int = most, by_use: bool = limit.by_use) -> bool:
                return own > 0 and before >= most if by_use and most else before + own > most

            if breaks(used) and not (force and not limit.of):
                refusals.append((limit.name, held > 0 and not breaks(used - held)))
        return next((one for one in refusals if not one[1]), refusals[0]) if refusals else ("", False)


AMOUNTS = {"tokens": st.integers(0, 200), "usd": st.integers(0, 200)}
RESERVE = st.fixed_dictionaries(
    {
        "session": st.sampled_from(SESSIONS),
        "background": st.booleans(),
        "source": st.sampled_from(SOURCES),
        "day": st.sampled_from(DAYS),
        "force": st.booleans(),
        **AMOUNTS,
    }
)
SETTLE = st.fixed_dictionaries({"which": st.integers(0, 30), **AMOUNTS})
STEPS = st.lists(st.one_of(RESERVE, RESERVE, SETTLE, st.sampled_from(("restart", "fail", "sweep"))), max_size=40)


async def start_subagents(ledger: LedgerStore, usd: float) -> None:
    for number, (session, parent) in enumerate(PARENTS.items(), 1):
        new = NewSubAgent(
            id=str(number),
            name=f"n{number}",
            agent="main",
            session=session,
            parent=parent,
            request="r",
            depth=number,
            label=f"s{number}",
            payload="{}",
            usd=usd,
        )
        task = Arrival(
            key=f"k{number}",
            alias=f"a{number}",
            conversation="agent:x",
            session=session,
            sender=parent,
            payload="{}",
            received_at=NOON,
        )
        assert (await ledger.subagents.start(new, task, children=9, of_request=9)).row


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=STEPS, most=st.fixed_dictionaries({"tokens": st.integers(1, 600), "usd": st.integers(2, 600).map(lambda n: 2 * n)})
)
def test_what_calls_may_spend_follows_from_the_rows_whatever_happened(
    engine: str, steps: list[Any], most: dict[str, int]
) -> None:
    async def live(path: Path) -> None:
        clock, model, left = ManualClock(NOON), Model(most), list(steps)
        async with open_at(path, clock) as (_, ledger):
            await start_subagents(ledger, most["usd"] / 10_000)
        while left:
            model.here.clear()
            async with open_at(path, clock) as (connection, ledger):
                await one_life(connection, ledger, clock, model, left)
        async with open_at(path, clock) as (connection, ledger):
            for row in model.calls:  # also those of an earlier life
                await ledger.spending.settle_call(row, Spent(input=1, cost=0.3))
            totals = await connection.run(totals_of)
            sums = "SELECT day, count(*), sum(tokens), sum(cost) FROM spending GROUP BY day"
            for day, calls, tokens, cost in await connection.run(lambda db: db.execute(sums).fetchall()):
                found = totals[day, "", ""]
                assert (found[0], found[2]) == (calls, tokens)
                assert found[3] / 1e12 == pytest.approx(cost, abs=1e-9)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(live(Path(folder) / "ledger.sqlite"))
        if engine == engines.POSTGRES:
            engines.drop(Path(folder) / "ledger.sqlite")


async def one_life(
    connection: LedgerConnection, ledger: LedgerStore, clock: ManualClock, model: Model, left: list[Any]
) -> None:
    """Do the steps up to the next restart."""
    while left and (step := left.pop(0)) != "restart":
        if step == "fail":

            def work(db: Database) -> None:
                db.execute(INSERT, (DAYS[0], 0, "main", MAIN, 1, 0, 5, 0.1, "job:a"))
                db.execute("UPDATE spending SET settled = 1, tokens = tokens + 1, cost = 0.7")
                raise ValueError

            asked = [connection.run(work), ledger.tally(), connection.run(work)]  # in one commit
            assert [type(one) is ValueError for one in await asyncio.gather(*asked, return_exceptions=True)] == [
                True,
                False,
                True,
            ]
        elif step == "sweep":
            clock.move(timedelta(days=150).total_seconds())
            await ledger.sweep()
            kept = clock.now() - timedelta(days=400)
            model.calls = {row: one for row, one in model.calls.items() if one.at >= kept}
        elif "which" in step:
            if model.calls:
                row = list(model.calls)[step["which"] % len(model.calls)]
                await ledger.spending.settle_call(row, Spent(input=step["tokens"], cost=step["usd"] / 10_000))
                call = model.calls[row]
                call.tokens, call.usd, call.settled = step["tokens"], step["usd"], True
        else:
            await reserve(ledger, clock, model, **step)
        await connection.run(totals_of)


async def reserve(ledger: LedgerStore, clock: ManualClock, model: Model, *, force: bool, usd: int, **said: Any) -> None:
    call = Call(at=clock.now(), usd=usd, **said)
    new = NewCall(
        day=call.day,
        agent=call.agent,
        session=call.session,
        model="m",
        background=call.background,
        tokens=call.tokens,
        usd=usd / 10_000,
        source=call.source,
    )
    reserved = await ledger.spending.reserve(new, model.limits(call), force=force)
    for limit in model.all_limits(call):
        counted = [one for _, one in model.counted(limit, call)]
        used = limit.share(sum(one.tokens for one in counted) + call.tokens, (sum(one.usd for one in counted) + usd) / 10_000)
        assert reserved.shares[limit.name] == pytest.approx(used, rel=1e-12)
    broken, only_held = model.expected(call, force=force)
    assert ((reserved.broken.name if reserved.broken else ""), reserved.only_held) == (broken, only_held)
    assert (reserved.row is None) == bool(broken)
    if reserved.row is not None:
        model.calls[reserved.row] = call
        model.here.add(reserved.row)


async def test_a_ledger_of_the_version_before_gets_the_totals_of_its_calls(tmp_path: Path, engine: str) -> None:
    path, clock = tmp_path / "ledger.sqlite", ManualClock(NOON)
    calls = [
        (day, 0, agent, f"agent:{agent}:{n % 3}", n % 2, n % 3, n, None if n % 5 == 0 else n / 7, source)
        for n, day, agent, source in zip(
            range(40), DAYS * 20, ("main", "other") * 20, (None, "job:a", None, "hook:b") * 10, strict=True
        )
    ]
    if engine == engines.SQLITE:
        db = apsw.Connection(str(path))
        for step in schema.STEPS[:11]:
            db.execute(step)
        db.execute("INSERT INTO meta VALUES ('epoch', 'e')")
        db.executemany(INSERT, calls)
        db.execute(f"PRAGMA user_version = 11; PRAGMA application_id = {schema.APPLICATION_ID}")
        db.close()
    else:
        from gateway.ledger.postgres import postgres_schema
        from gateway.ledger.postgres.postgres_connection import connected

        name = engines.schema_of(path)
        with connected(postgres_server.server().url(), name) as there:
            there.execute(f"CREATE SCHEMA {name}".encode())
            for step in postgres_schema.STEPS[:2]:
                there.execute(step.encode())
            there.execute("INSERT INTO meta VALUES ('epoch', 'e'), ('version', '2')")
            for one in calls:
                there.execute(INSERT.replace("?", "%s").encode(), one)
    async with open_at(path, clock) as (connection, ledger):
        totals = await connection.run(totals_of)
        assert len(totals) == 2 * (1 + 1 + 3 + 1 + 1) - 1, "one of the days has no call in the background"
        await ledger.spending.settle_call(3, Spent(input=5, cost=2.0))
        assert await connection.run(totals_of) != totals


@pytest.mark.files
async def test_a_reservation_reads_no_more_where_the_day_has_more_calls(tmp_path: Path) -> None:
    """Counted in instructions of SQLite's machine, of calls that are made and of those that are refused."""
    steps: Counter[str] = Counter()
    limits = [
        Limit(name="day", usd=9.0),
        Limit(name="agent", same="agent", tokens=10**9),
        Limit(name="session", same="session", usd=9.0),
        Limit(name="source", of="it", same="source", usd=9.0),
    ]
    call = NewCall(day=DAYS[0], agent="main", session=GRANDCHILD, model="m", background=True, tokens=3, usd=0.0, source="job:a")
    numbers = itertools.count()

    async def measured(ledger: LedgerStore) -> tuple[int, int, int]:
        found = []
        for usd in (0.0, 10.0):
            before = steps["all"]
            reserved = await ledger.spending.reserve(replace(call, usd=usd), limits)
            found.append(steps["all"] - before)
            assert (reserved.row is None) == (usd > 0)
            if reserved.row is not None:
                before = steps["all"]
                await ledger.spending.settle_call(reserved.row, Spent(input=1, cost=0.0))
                found.append(steps["all"] - before)
        return found[0], found[1], found[2]

    def tick() -> bool:
        steps["all"] += 1
        return False

    def fill(db: Database) -> None:
        for number in itertools.islice(numbers, 2000):
            session = GRANDCHILD if number % 2 else f"agent:main:{number}"
            db.execute(INSERT, (DAYS[0], 0, "main", session, 1, number % 3, 5, 0.0001, "job:a"))

    async with open_at(tmp_path / "ledger.sqlite", ManualClock(NOON)) as (connection, ledger):
        await start_subagents(ledger, 100.0)
        await connection.run_outside(lambda engine: engine.db.set_progress_handler(tick, 1))
        await measured(ledger)
        few = await measured(ledger)
        await connection.run(fill)
        many = await measured(ledger)
    assert all(more <= 1.1 * less + 20 for less, more in zip(few, many, strict=True)), (few, many)


@pytest.mark.files
async def test_what_was_spent_on_a_day_and_by_sessions_reads_no_more_where_there_are_more_calls(tmp_path: Path) -> None:
    steps: Counter[str] = Counter()

    def tick() -> bool:
        steps["all"] += 1
        return False

    async def measured(ledger: LedgerStore) -> list[int]:
        found = []
        for ask in (
            lambda: ledger.spending.cost_since(DAYS[1]),
            lambda: ledger.spending.cost_since(DAYS[0]),
            lambda: ledger.spending.of_sessions(SESSIONS, NOON),
        ):
            before = steps["all"]
            assert await ask()
            found.append(steps["all"] - before)
        return found

    def fill(db: Database) -> None:
        for number in range(3000):
            db.execute(INSERT, (DAYS[number % 2], 0, "main", SESSIONS[number % 4], 1, 1, 5, 0.25, None))

    async with open_at(tmp_path / "ledger.sqlite", ManualClock(NOON)) as (connection, ledger):
        await connection.run_outside(lambda engine: engine.db.set_progress_handler(tick, 1))
        await connection.run(fill)
        few = await measured(ledger)
        await connection.run(fill)
        many = await measured(ledger)
        spent = await ledger.spending.of_sessions([*SESSIONS, "another"], NOON)
        assert spent == dict.fromkeys(SESSIONS, (7500, 375.0))
        assert await ledger.spending.cost_since(DAYS[0]) == 4 * 375.0
    assert all(more <= 1.1 * less + 20 for less, more in zip(few, many, strict=True)), (few, many)
