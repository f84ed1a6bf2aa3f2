"""Two gateways with one ledger: each sees and changes what it holds by its leases, and a former holder nothing more."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from agent.models.catalog.prices import ESTIMATE
from channels.messages import ChatAddress, Cursor
from gateway.base.clock import SystemClock
from gateway.base.errors import InvalidTransition, StorageFailed
from gateway.budget.budget_guard import BudgetGuard
from gateway.cluster.lease_tables import prepare, write_lock_of
from gateway.cluster.leases import LeaseTable
from gateway.cluster.own_end import UNCOUNTED, leave_end, take_back
from gateway.cluster.postgres_leases import Member, PostgresLeases
from gateway.ledger import spending
from gateway.ledger.postgres.cluster_views import Sharing
from gateway.ledger.postgres.engine import PostgresEngine, make_tables
from gateway.ledger.postgres.ledger import PostgresLedger
from gateway.ledger.rows import Arrival, NewOutbound
from gateway.ledger.spending_rows import NewCall, Spent
from gateway.settings.budget_settings import BudgetSettings
from gateway.turns.interrupted import MAX_ATTEMPTS
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from gateway.cluster.postgres_leases import Connection

pytestmark = pytest.mark.postgres

ANNA, BOB = ("account:telegram:anna", "agent:anna"), ("account:telegram:bob", "agent:bob")
CELLS = (ANNA, BOB)


async def connected(url: str) -> Connection:
    import psycopg

    return await psycopg.AsyncConnection.connect(url, autocommit=True, options="-c search_path=homebody")


def chat(of: str) -> ChatAddress:
    return ChatAddress(channel="telegram", account=of, kind="direct", id="7")


def arrival(of: str, number: int) -> Arrival:
    return Arrival(
        key=f"{number}",
        alias=f"m{number}",
        conversation=chat(of).address,
        session=f"agent:{of}:main",
        sender="7",
        payload="{}",
        received_at=datetime.now(UTC),
    )


class One:
    """A gateway: its leases, taken by hand, and its ledger."""

    def __init__(self, name: str, url: str, ledger: PostgresLedger, seconds: float) -> None:
        self.ledger = ledger
        self.store = PostgresLeases(lambda: connected(url), "homebody", Member(name, name))
        self.table = LeaseTable(name, seconds, cells=CELLS)

    async def round(self) -> None:
        claimed = True
        while claimed:
            sent = time.monotonic()
            asked, _ = self.table.begin(sent)
            changes = self.table.end(asked, await self.store.round(asked), sent, time.monotonic())
            for token in changes.leave:
                self.table.left(token)
            claimed = changes.claimed

    @property
    def held(self) -> set[str]:
        return {lease.token for lease in self.table.all_held(time.monotonic())}


@asynccontextmanager
async def gateway(name: str, url: str, seconds: float = 30.0) -> AsyncIterator[One]:
    await asyncio.to_thread(make_tables, url, "homebody", name)
    connection = await connected(url)
    await prepare(connection, "homebody")
    await connection.close()
    sharing = Sharing(name, write_lock_of("homebody"), 1.0)
    ledger = await PostgresLedger.open(url, SystemClock(), sharing=sharing)
    one = One(name, url, ledger, seconds)
    await one.store.add([token for cell in CELLS for token in cell])
    try:
        yield one
    finally:
        await one.store.close()
        await ledger.close()


async def test_each_sees_what_it_holds(url: str) -> None:
    async with gateway("one", url) as one, gateway("other", url) as other:
        await one.round()
        assert one.held == {*ANNA, *BOB}
        for _ in range(4):
            await other.round()
            await one.round()
        first, second = (one, other) if "agent:anna" in one.held else (other, one)
        assert (first.held, second.held) == (set(ANNA), set(BOB)), "cells are held as a whole, and shared out"
        await first.ledger.inbox.accept("telegram:anna", [arrival("anna", 1)], Cursor(name="updates", value="1"))
        await first.ledger.inbox.accept("hook", [arrival("bob", 2)])  # anybody may store a message for anybody
        assert [row.alias for row in await first.ledger.inbox.waiting()] == ["m1"]
        [row] = await second.ledger.inbox.waiting()
        assert row.alias == "m2"
        with pytest.raises(StorageFailed, match="check option"):
            await first.ledger.turns.claim("agent:bob:main", "bob", [row.id])
        turn = await second.ledger.turns.claim("agent:bob:main", "bob", [row.id])
        assert await first.ledger.turns.unfinished() == []
        assert [one.id for one in await second.ledger.turns.unfinished()] == [turn.id]
        told = NewOutbound(conversation=chat("anna"), text="for another account")
        for text in ("1", "2"):
            await first.ledger.outbox.enqueue([NewOutbound(conversation=chat("anna"), text=text)])
            await second.ledger.turns.suspend(turn.id, [], [told]) if text == "2" else None
        due = await first.ledger.outbox.due(["telegram:anna", "telegram:bob"])
        assert [one.text for one in due] == ["1"]
        assert await second.ledger.outbox.due(["telegram:anna", "telegram:bob"]) == []
        sent = await first.ledger.outbox.sent((await first.ledger.outbox.sending(due[0].id)).id, "p1")
        assert sent is not None
        assert sent.text == "2", "what others queue stands behind what was queued before"


async def test_a_former_holder_changes_nothing(url: str) -> None:
    async with gateway("one", url, 2) as one, gateway("other", url, 2) as other:
        await one.round()
        await one.ledger.inbox.accept("telegram:anna", [arrival("anna", 1)], Cursor(name="updates", value="1"))
        [row] = await one.ledger.inbox.waiting()
        turn = await one.ledger.turns.claim("agent:anna:main", "anna", [row.id])
        [number] = await one.ledger.outbox.enqueue([NewOutbound(conversation=chat("anna"), text="1")])
        await one.ledger.outbox.sending(number)
        await asyncio.sleep(2.1)  # it stood still
        await other.round()
        assert other.held == {*ANNA, *BOB}
        assert [one.id for one in await other.ledger.turns.unfinished()] == [turn.id]
        with pytest.raises(InvalidTransition):
            await one.ledger.turns.finish(turn.id, "done", [NewOutbound(conversation=chat("anna"), text="twice")])
        with pytest.raises(InvalidTransition):
            await one.ledger.outbox.sent(number, "p")
        with pytest.raises(StorageFailed, match="check option"):
            await one.ledger.inbox.accept("telegram:anna", [], Cursor(name="updates", value="0"))
        assert await other.ledger.inbox.cursor("telegram:anna", "updates") == "1"
        taken = await other.ledger.inbox.accept("telegram:anna", [arrival("anna", 1)], Cursor(name="updates", value="1"))
        assert taken.rows == (), "it is known, whoever took it"


async def _interrupted(ledger: PostgresLedger) -> tuple[str, list[int]]:
    """Go on with the only turn; return it, and how often its messages were interrupted before."""
    [turn] = await ledger.turns.unfinished()
    before = [row.attempts for row in await ledger.inbox.rows(turn.inbox)]
    await ledger.turns.retry(turn.id)
    return turn.id, before


async def _told(url: str, local: Path) -> None:
    connection = await connected(url)
    await take_back(connection, "homebody", local)
    await connection.close()


async def _begun(one: One) -> None:
    await one.round()
    await one.ledger.inbox.accept("telegram:anna", [arrival("anna", 1)], Cursor(name="updates", value="1"))
    [row] = await one.ledger.inbox.waiting()
    await one.ledger.turns.claim("agent:anna:main", "anna", [row.id])


@pytest.mark.parametrize("first", ["told", "taken"])
async def test_a_gateway_that_ends_itself_has_interrupted_nothing_whoever_goes_on_with_its_turns(
    url: str, tmp_path: Path, first: str
) -> None:
    async with gateway("one", url, 1) as one:
        await _begun(one)
        leave_end(tmp_path, "one")
    await asyncio.sleep(1.1)
    async with gateway("other", url) as other:
        if first == "told":
            await _told(url, tmp_path)
        await other.round()
        turn, before = await _interrupted(other.ledger)
        assert before == [0 if first == "told" else 1]
        for _ in range(2):  # once is enough
            leave_end(tmp_path, "one")
            await _told(url, tmp_path)
        [again] = await other.ledger.turns.unfinished()
        assert (again.id, again.attempt) == (turn, 2)
        assert [row.attempts for row in await other.ledger.inbox.rows(again.inbox)] == [1], "as after its first beginning"
        assert not (tmp_path / "ended").exists()


async def test_a_gateway_that_crashes_has_interrupted_its_turns(url: str, tmp_path: Path) -> None:
    async with gateway("one", url, 1) as one:
        await _begun(one)
    await asyncio.sleep(1.1)
    async with gateway("two", url, 1) as two:
        await two.round()
        assert (await _interrupted(two.ledger))[1] == [1]
        leave_end(tmp_path, "two")
    await asyncio.sleep(1.1)
    async with gateway("three", url) as three:
        await _told(url, tmp_path)
        await three.round()
        assert (await _interrupted(three.ledger))[1] == [1], "the crash of one, and not the end of two"


async def test_a_turn_that_ends_each_gateway_is_given_up_after_all(url: str, tmp_path: Path) -> None:
    async with gateway("g0", url, 0.5) as one:
        await _begun(one)
    number, before = 0, [0]
    while before[0] < MAX_ATTEMPTS:
        leave_end(tmp_path, f"g{number}")
        await asyncio.sleep(0.6)
        number += 1
        async with gateway(f"g{number}", url, 0.5) as one:
            await _told(url, tmp_path)
            await one.round()
            _, before = await _interrupted(one.ledger)
    assert number == UNCOUNTED + MAX_ATTEMPTS


async def test_a_gateway_that_stands_still_in_a_transaction_holds_nobody_up(url: str) -> None:
    async with gateway("other", url) as other:
        await other.round()
        sharing = Sharing("one", write_lock_of("homebody"), 1.0)
        engine = await asyncio.to_thread(PostgresEngine, url, "homebody", "one", lambda _: None, sharing)
        engine.begin(synced=True)
        await asyncio.to_thread(engine.db.execute, "SELECT 1")  # and then it stands still
        began = time.monotonic()
        await other.ledger.tally()
        assert 0.5 < time.monotonic() - began < 5.0
        with pytest.raises(engine.failures):
            engine.db.execute("SELECT 1")
        engine.close()


async def test_a_call_waits_for_room_that_a_call_of_another_gateway_leaves(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending, "POLL_SECONDS", 0.1)
    limits = {"day": {"tokens": 1000, "usd": None}}
    async with gateway("one", url) as one, gateway("other", url) as other:
        first, second = (
            BudgetGuard(
                each.ledger.spending,
                BudgetSettings.model_validate(limits),
                SystemClock(),
                agent="main",
                zone=ZoneInfo("Europe/Berlin"),
                price=lambda _: ESTIMATE,
                tell=lambda _: None,
            )
            for each in (one, other)
        )
        reserved = await first.reserve("a", "m", tokens=900, usd=None, background=False)
        assert reserved.row is not None
        waiting = asyncio.ensure_future(second.reserve("b", "m", tokens=500, usd=None, background=False))
        await asyncio.wait([waiting], timeout=0.5)
        assert not waiting.done()
        first.settle(reserved.row, Spent(input=100))
        async with asyncio.timeout(PATIENCE):
            assert (await waiting).row is not None
        together = [
            guard.reserve(f"{n}", "m", tokens=300, usd=None, background=False, waits=False)
            for n in range(6)
            for guard in (first, second)
        ]
        assert sum(one.row is not None for one in await asyncio.gather(*together)) == 1, "of the 400 tokens that are left"


async def test_what_calls_cost_today_counts_those_of_other_gateways(url: str) -> None:
    async with gateway("one", url) as one, gateway("other", url) as other:
        for number, each in enumerate((one, other, one), 1):
            call = NewCall(day="2026-03-01", agent="main", session="s", model="m", background=False, tokens=1, usd=1.0)
            reserved = await each.ledger.spending.reserve(call, [])
            assert reserved.row is not None
            await each.ledger.spending.settle_call(reserved.row, Spent(input=5, cost=0.25))
            told = [await asked.ledger.spending.cost_since("2026-03-01") for asked in (one, other)]
            assert told == [number / 4, number / 4]


async def test_a_gateway_alone_is_refused_while_a_cluster_runs(url: str) -> None:
    async with gateway("one", url):
        with pytest.raises(StorageFailed, match="gateways of a cluster use this database") as told:
            await PostgresLedger.open(url, SystemClock())
        assert "HOMEBODY_GATEWAY" in told.value.hint
        assert "schemaName" not in told.value.hint
    alone = await PostgresLedger.open(url, SystemClock())
    with pytest.raises(StorageFailed, match="not of a cluster"):
        async with gateway("one", url):
            pass
    await alone.close()
