"""What turns cost, as the ledger tells it where a budget stops one: the present turn, and the dearest before it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from gateway.base.clock import ManualClock
from gateway.ledger.rows import Arrival
from gateway.ledger.spending_rows import NewCall, Spent, TurnCosts
from tests.ledger.engines import open_at
from tests.ledger.test_spending_totals import INSERT
from tests.ledger.test_spending_totals import open_at as connected_at

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.ledger.database import Database
    from gateway.ledger.protocol import Ledger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
JOB = "agent:main:job:a"


class Turns:
    """Turns with calls. Time passes with each step."""

    def __init__(self, ledger: Ledger, clock: ManualClock) -> None:
        self.ledger = ledger
        self.clock = clock
        self.count = 0

    def call(self, session: str = JOB, source: str = "job:a", *, background: bool = False) -> NewCall:
        day = f"{self.clock.now():%Y-%m-%d}"
        return NewCall(
            day=day, agent="main", session=session, model="m", background=background, tokens=9, usd=9.0, source=source
        )

    async def spend(self, usd: float, **of: str | bool) -> None:
        self.clock.move(1)
        reserved = await self.ledger.spending.reserve(self.call(**of), [])  # type: ignore[arg-type]
        assert reserved.row is not None
        await self.ledger.spending.settle_call(reserved.row, Spent(input=round(100 * usd), cost=usd))

    async def begin(self, session: str = JOB) -> str:
        self.clock.move(1)
        self.count += 1
        name = f"u:{self.count}"
        arrival = Arrival(
            key=name,
            alias=f"m:{self.count}",
            conversation="internal:default:direct:x",
            session=session,
            sender="x",
            payload="{}",
            received_at=NOON,
        )
        await self.ledger.inbox.accept("internal:default", [arrival])
        row = next(one for one in await self.ledger.inbox.waiting() if one.alias == f"m:{self.count}")
        return (await self.ledger.turns.claim(session, "main", [row.id])).id

    async def end(self, turn: str) -> None:
        self.clock.move(1)
        await self.ledger.turns.finish(turn, "done")


async def test_the_present_turn_and_the_dearest_before_it_are_told(tmp_path: Path, engine: str) -> None:
    clock = ManualClock(NOON)
    ledger = await open_at(tmp_path / "ledger.sqlite", clock)
    turns = Turns(ledger, clock)
    assert await ledger.spending.turn_costs(turns.call()) == TurnCosts()
    for costs in ((0.25, 0.5, 0.25), (0.25,), (0.5, 0.125)):
        turn = await turns.begin()
        for usd in costs:
            await turns.spend(usd)
            await turns.spend(7.0, session="agent:main:main", source="")  # somebody else speaks meanwhile
        await turns.spend(5.0, background=True)
        await turns.end(turn)
        clock.move(24 * 3600)
    await turns.spend(3.0)  # belongs to no turn
    assert await ledger.spending.turn_costs(turns.call()) == TurnCosts(dearest_tokens=100, dearest_usd=1.0)
    await turns.begin()
    await turns.spend(0.5)
    await turns.spend(0.25, session="agent:main:sub:x")
    assert await ledger.spending.turn_costs(turns.call()) == TurnCosts(tokens=75, usd=0.75, dearest_tokens=100, dearest_usd=1.0)
    assert await ledger.spending.turn_costs(turns.call(source="job:b")) == TurnCosts()
    assert await ledger.spending.turn_costs(turns.call(background=True)) == TurnCosts()
    await ledger.close()


async def test_of_people_the_turns_of_their_session_count_and_of_a_sub_agent_those_of_all(tmp_path: Path, engine: str) -> None:
    clock = ManualClock(NOON)
    ledger = await open_at(tmp_path / "ledger.sqlite", clock)
    turns = Turns(ledger, clock)
    for session, source, usd in (
        ("agent:main:main", "", 1.0),
        ("agent:main:other", "", 2.0),
        ("agent:main:sub:x", "subagent:x", 4.0),
    ):
        turn = await turns.begin(session)
        await turns.spend(usd, session=session, source=source)
        await turns.end(turn)
    told = [
        (await ledger.spending.turn_costs(turns.call(session, source))).dearest_usd
        for session, source in (("agent:main:main", ""), ("agent:main:other", ""), ("agent:main:sub:y", "subagent:y"))
    ]
    assert told == [1.0, 2.0, 4.0]
    await ledger.close()


@pytest.mark.files
async def test_it_reads_no_more_where_a_source_has_made_more_calls(tmp_path: Path) -> None:
    """Counted in instructions of SQLite's machine."""
    steps: Counter[str] = Counter()

    def tick() -> bool:
        steps["all"] += 1
        return False

    def fill(db: Database) -> None:
        for number in range(steps["calls"], steps["calls"] + 2000):
            db.execute(INSERT, ("2026-03-01", 10 * number, "main", JOB, 0, 1, 5, 0.25, "job:a"))
            if not number % 4:
                query = "INSERT INTO turn (id, session, agent, state, attempt, started_at, ended_at) VALUES (?, ?, 'main', 'done', 1, ?, ?)"
                db.execute(query, (f"t{number}", JOB, 10 * number - 1, 10 * number + 35))
        steps["calls"] += 2000

    call = NewCall(day="2026-03-01", agent="main", session=JOB, model="m", background=False, tokens=1, usd=1.0, source="job:a")
    async with connected_at(tmp_path / "ledger.sqlite", ManualClock(NOON)) as (connection, ledger):
        await connection.run_outside(lambda engine: engine.db.set_progress_handler(tick, 1))
        counted = []
        for one in (call, replace(call, source="")):
            found = []
            for _ in range(2):
                await connection.run(fill)
                before = steps["all"]
                assert (await ledger.spending.turn_costs(one)).dearest_usd == 1.0
                found.append(steps["all"] - before)
            counted.append(found)
    assert all(more <= 1.1 * less + 20 for less, more in counted), counted
