"""Calls for which only the reservations of others leave no room wait for them, and no budget is exceeded by it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models.catalog.prices import ESTIMATE
from gateway.base.clock import ManualClock
from gateway.budget.budget_guard import WAIT_SECONDS, BudgetGuard, Spender
from gateway.ledger.spending_rows import Spent
from gateway.settings.budget_settings import BudgetSettings
from tests.ledger import engines
from tests.ledger.engines import open_at
from tests.patience import PATIENCE
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from gateway.ledger.protocol import Ledger
    from gateway.ledger.spending_rows import Reserved

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = {"day": {"tokens": 1000, "usd": None}}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture
async def ledger(tmp_path: Path, clock: ManualClock, engine: str) -> AsyncIterator[Ledger]:
    opened = await open_at(tmp_path / "ledger.sqlite", clock)
    yield opened
    await opened.close()


def guard_of(ledger: Ledger, clock: ManualClock, told: list[str] | None = None, **budgets: Any) -> BudgetGuard:
    tell = [].append if told is None else told.append
    settings = BudgetSettings.model_validate(budgets or DAY)
    zone = ZoneInfo("Europe/Berlin")
    return BudgetGuard(ledger.spending, settings, clock, agent="main", zone=zone, price=lambda _: ESTIMATE, tell=tell)


def asked(guard: BudgetGuard, tokens: int, session: str = "s", *, background: bool = False) -> asyncio.Task[Reserved]:
    return asyncio.ensure_future(guard.reserve(session, "m", tokens=tokens, usd=None, background=background))


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110 (the ledger's thread does not tell)
            await asyncio.sleep(0.001)


async def row_of(task: asyncio.Task[Reserved]) -> int:
    async with asyncio.timeout(PATIENCE):
        reserved = await task
    assert reserved.row is not None
    return reserved.row


async def test_a_call_waits_for_the_room_that_another_leaves(ledger: Ledger, clock: ManualClock) -> None:
    guard = guard_of(ledger, clock)
    row = await row_of(asked(guard, 900))
    waiting = [asked(guard, 500, "a"), asked(guard, 600, "b")]
    await until(lambda: len(clock.alarms) == 2)
    guard.settle(row, Spent(input=100))
    first = await row_of(waiting[0])
    await until(lambda: len(clock.alarms) == 3)
    assert not waiting[1].done(), "it fits no more beside the one that has waited for longer"
    guard.settle(first, Spent(input=50))
    await row_of(waiting[1])
    assert clock.monotonic() == 0


async def test_a_turn_waits_for_a_minute_in_all_and_then_says_why(ledger: Ledger, clock: ManualClock) -> None:
    guard = guard_of(ledger, clock)
    row = await row_of(asked(guard, 900))
    async with guard.turn("s", "t"):
        waiting = asked(guard, 500)
        await until(lambda: clock.alarms)
        clock.move(WAIT_SECONDS - 20)
        guard.settle(row, Spent(input=100))
        second = await row_of(waiting)
        waiting = asked(guard, 800)
        await until(lambda: len(clock.alarms) == 2)
        assert clock.alarms[-1] == WAIT_SECONDS, "what was waited before counts"
        clock.move(20)
        refused = await waiting
        assert refused.only_held
        assert refused.held == 0.5
        assert (await asked(guard, 800)).only_held, "the turn waits no more"
    guard.settle(second, Spent(input=500))
    refused = await asked(guard, 800)
    assert refused.row is None
    assert not refused.only_held, "it is used up"


async def test_what_is_used_up_is_not_waited_for_whatever_else_is_reserved(ledger: Ledger, clock: ManualClock) -> None:
    guard = guard_of(ledger, clock, day={"tokens": 1000, "usd": None}, session={"tokens": 600})
    guard.settle(await row_of(asked(guard, 400)), Spent(input=400))
    await row_of(asked(guard, 600, "other"))
    async with asyncio.timeout(PATIENCE):
        refused = await asked(guard, 300)
        too_much = await asked(guard, 1100, "third")
    assert (refused.row, refused.only_held) == (None, False)
    assert refused.broken is not None
    assert refused.broken.name == "budgets.session.tokens"
    assert not too_much.only_held, "it would find no room without the others, either"


async def test_who_goes_away_while_it_waits_or_reserves_leaves_nothing_reserved(ledger: Ledger, clock: ManualClock) -> None:
    guard = guard_of(ledger, clock)
    row = await row_of(asked(guard, 900))
    waiting = asked(guard, 500)
    await until(lambda: clock.alarms)
    waiting.cancel()
    guard.settle(row, Spent(input=0))
    for steps in range(1, 12):
        reserving = asked(guard, 1000)
        for _ in range(steps):
            await asyncio.sleep(0)
        reserving.cancel()
        await asyncio.wait([reserving])
        if not reserving.cancelled() and (made := reserving.result().row) is not None:
            guard.settle(made, Spent(input=0))
        if steps % 3 == 0:
            await asyncio.sleep(0.01)
    await row_of(asked(guard, 1000))


async def test_the_owner_is_told_once_a_day_what_only_others_held_up(ledger: Ledger, clock: ManualClock) -> None:
    told: list[str] = []
    guard = guard_of(ledger, clock, told, **DAY, warnAt=1)
    await row_of(asked(guard, 700))
    for number in range(2):
        async with guard.turn("job", f"t{number}", Spender(origin="schedule", source="job:a", label="job “a”")):
            waiting = asked(guard, 500, "job")
            await until(lambda: clock.alarms)
            clock.move(WAIT_SECONDS)
            assert (await waiting).only_held
    (line,) = told
    assert line == (
        "💸 Calls under way had reserved 70% of today's budget budgets.day.tokens (1,000 tokens), and left no room within a minute for one "
        "that may take up to 500 tokens. What was due is done when it is next due. `/usage` shows details."
    )


async def test_the_owner_is_told_once_a_day_that_the_budget_of_the_background_is_used_up(
    ledger: Ledger, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    guard = guard_of(ledger, clock, told, background={"tokens": 1000, "usd": None})
    for day in range(2):
        guard.settle(await row_of(asked(guard, 850, background=True)), Spent(input=850))
        guard.settle(await row_of(asked(guard, 300, background=True)), Spent(input=300))  # the last one may go beyond it
        for _ in range(3):
            assert (await asked(guard, 300, background=True)).row is None
        assert len(told) == 2 * (day + 1)
        nearly, refused = told[-2:]
        assert "85% of" in nearly
        assert "the call that is made now may take up to 300 tokens" in nearly
        assert refused == (
            "💸 Today's budget budgets.background.tokens (1,000 tokens) is used up. It goes on tomorrow. Until then memory flushes and "
            "summaries are written by rule, and what is searched by meaning is searched by word. To raise it: `homebody config set "
            "budgets.background.tokens 2000`"
        )
        assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"].count(refused) == day + 1
        clock.move(24 * 3600)


class Conversation:
    """A conversation that makes one call after the other, each of which uses some of what it reserved, or is stopped."""

    def __init__(self, name: str, calls: list[tuple[int, int, int, bool]]) -> None:
        self.name, self.calls = name, calls

    async def run(self, guard: BudgetGuard, check: Callable[[int, int], None], spent: Callable[[], int], limit: int) -> None:
        for most, part, steps, stopped in self.calls:
            task = asked(guard, most, self.name)
            if stopped:
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                if task.cancelled():
                    continue
            reserved = await task
            if reserved.row is None:
                assert spent() + most > limit, "nothing but what was used refuses it, as no time has passed"
                continue
            check(most, 0)
            for _ in range(steps):
                await asyncio.sleep(0.0005)
            used = most * part // 4
            check(-most, used)
            guard.settle(reserved.row, Spent(input=used))


@settings(max_examples=examples(25), deadline=None)
@given(
    conversations=st.lists(
        st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 4), st.integers(0, 6), st.booleans()), min_size=1, max_size=4),
        min_size=12,
        max_size=12,
    ),
    limit=st.integers(500, 4000),
)
async def test_twelve_conversations_at_once_neither_stand_still_nor_exceed_a_small_budget(
    tmp_path_factory: pytest.TempPathFactory, conversations: list[list[tuple[int, int, int, bool]]], limit: int
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    clock = ManualClock(NOON)  # which stands still: who waits for what does not come waits for ever
    ledger = await open_at(path, clock)
    guard = guard_of(ledger, clock, day={"tokens": limit, "usd": None})
    reserved = spent = 0

    def check(more: int, used: int) -> None:
        nonlocal reserved, spent
        reserved, spent = reserved + more, spent + used
        assert reserved + spent <= limit

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(
            *(
                Conversation(f"c{number}", calls).run(guard, check, lambda: spent, limit)
                for number, calls in enumerate(conversations)
            )
        )
        rows = await ledger.spending.usage("2026-01-01")
        while guard.settling or any(row.open for row in rows):
            await asyncio.sleep(0.001)
            rows = await ledger.spending.usage("2026-01-01")
    await ledger.close()
    if engines.Current.engine == engines.POSTGRES:
        engines.drop(path)
    assert sum(row.input for row in rows) == spent <= limit
