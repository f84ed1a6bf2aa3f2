"""What models may cost: reserved before, settled after, held back beyond."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.events import TextDelta
from agent.messages import AssistantMessage, Text, Usage
from agent.models.catalog.prices import ESTIMATE
from agent.models.scripted import Stall
from gateway.base.clock import ManualClock
from gateway.budget.budget_guard import BudgetGuard
from gateway.budget.usage_report import first_day
from gateway.ledger.spending_rows import Limit, NewCall, Reserved, Spent
from gateway.ledger.sqlite import SqliteLedger
from gateway.settings.budget_settings import BudgetSettings
from tests.patience import PATIENCE
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.gateway.conftest import Street

    Make = Callable[..., Street]


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def answer(text: str, **usage: Any) -> AssistantMessage:
    return AssistantMessage(content=(Text(text=text),), model="scripted/model", stop="end", usage=Usage(**usage))


async def test_a_message_beyond_the_budget_is_held_until_it_is_allowed_once(street: Make) -> None:
    s = street(budgets={"day": {"tokens": 52_000}}, agent={"maxOutputTokens": 1000})
    s.model.then(answer("one", input=50_000, output=10), answer("two", input=1, output=1), answer("never"))
    async with s.house() as (_, talk):
        assert (await talk.ask("first"))["reply"] == "one"
        held = await talk.ask("second")
        assert "budget is used up" in held["reply"]
        assert "/budget once" in held["reply"]
        assert len(s.model.requests) == 1
        assert "is allowed" in (await talk.ask("/budget once"))["reply"]
        assert (await talk.ask("second"))["reply"] == "two"
        assert "budget is used up" in (await talk.ask("third"))["reply"]
        table = (await talk.ask("/usage"))["reply"]
    assert "| main | scripted/model | 2 |" in table


async def test_twelve_messages_at_once_wait_for_each_others_room_and_one_that_is_stopped_waits_no_more(street: Make) -> None:
    s = street(budgets={"day": {"tokens": 75_000}}, agent={"maxOutputTokens": 8000, "memorySearch": {"enabled": False}})
    gate = asyncio.Event()
    s.model.reply_with(lambda _: [TextDelta("well"), Stall(gate), answer("well done", input=10, output=10)])
    async with s.house() as (house, talk):
        spending, waiting = house.ledger.spending, 0

        async def settled_since(refused: Reserved) -> None:
            nonlocal waiting
            waiting += 1
            await former(refused)

        former, house.ledger.spending.settled_since = spending.settled_since, settled_since  # type: ignore[method-assign]
        asked = [asyncio.ensure_future(talk.ask("hello", session=f"s{number}")) for number in range(12)]
        async with asyncio.timeout(PATIENCE):
            while len(s.model.requests) + waiting < 12:  # noqa: ASYNC110 (they are looked at from outside)
                await asyncio.sleep(0.01)
        assert waiting >= 4
        held = await talk.ask("/stop", session="s11")
        gate.set()
        replies = [(await one)["reply"] for one in asked]
        (row,) = await spending.usage("2026-01-01")
    assert "Stopped" in held["reply"]
    assert replies.count("well done") >= 11
    assert not any("budget" in one for one in replies)
    assert row.input + row.output < 75_000


async def test_a_stopped_call_counts_what_was_sent_and_said(street: Make) -> None:
    s = street()
    s.model.then([TextDelta("well "), Stall()])
    async with s.house() as (house, talk):
        await talk.send("think for ever")
        await talk.until(lambda: talk.frames)
        await talk.ask("/stop")
        async with asyncio.timeout(PATIENCE):
            while not (rows := await house.ledger.spending.usage("2026-01-01")) or rows[0].open:  # noqa: ASYNC110 (it is settled in the background)
                await asyncio.sleep(0)
        assert rows[0].input > 100


@settings(max_examples=examples(25), deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.booleans()), max_size=30),
    limit=st.integers(1, 2000),
)
async def test_a_budget_is_never_overdrawn_by_calls_that_keep_to_what_they_reserved(
    tmp_path_factory: Any, steps: list[tuple[int, int, bool]], limit: int
) -> None:
    path: Path = tmp_path_factory.mktemp("ledger")
    ledger = await SqliteLedger.open(path / "ledger.sqlite", ManualClock(NOON))
    used = 0
    for most, really, crash in steps:
        call = NewCall(day="d", agent="a", session="s", model="m", background=False, tokens=most, usd=None)
        reserved = await ledger.spending.reserve(call, [Limit(name="day", tokens=limit)])
        assert (reserved.row is not None) == (used + most <= limit)
        if reserved.row is not None and crash:
            used += most
        elif reserved.row is not None:
            await ledger.spending.settle_call(reserved.row, Spent(input=min(most, really)))
            used += min(most, really)
        assert used <= limit
    await ledger.close()


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["reserve", "settle", "together", "reopen"]), st.integers(0, 500), st.integers(0, 2)),
        max_size=30,
    )
)
async def test_what_was_spent_since_a_day_is_what_the_ledger_says(
    tmp_path_factory: Any, steps: list[tuple[str, int, int]]
) -> None:
    path: Path = tmp_path_factory.mktemp("ledger")
    ledger = await SqliteLedger.open(path / "ledger.sqlite", ManualClock(NOON))
    open_: list[int] = []
    for step, cents, day in steps:
        call = NewCall(day=f"2026-03-0{day + 1}", agent="a", session="s", model="m", background=False, tokens=1, usd=cents / 64)
        if step == "reopen":
            await ledger.close()
            ledger = await SqliteLedger.open(path / "ledger.sqlite", ManualClock(NOON))
        elif step == "settle" and open_:
            await ledger.spending.settle_call(open_.pop(), Spent(cost=cents / 64))
        else:
            asked = [ledger.spending.cost_since("2026-03-02")] if step == "together" else []
            reserved, *_ = await asyncio.gather(ledger.spending.reserve(call, []), *asked)
            assert reserved.row is not None
            open_.append(reserved.row)
        said = sum(row.cost for row in await ledger.spending.usage("2026-03-02"))
        assert await ledger.spending.cost_since("2026-03-02") == said
    await ledger.close()


CENTS = {
    "models": {
        "mode": "replace",
        "providers": {
            "scripted": {
                "baseUrl": "http://127.0.0.1:9/v1",
                "apiKey": "none",
                "api": "openai-completions",
                "models": [
                    {"id": "model", "contextWindow": 200_000, "maxTokens": 1000, "cost": {"input": 1000, "output": 2000}}
                ],
            }
        },
    }
}
"""A model that costs a tenth of a cent a token, and twice that for what it answers."""


async def test_a_budget_in_dollars_reserves_the_worst_case_and_books_the_actual_cost(street: Make) -> None:
    s = street(budgets={"day": {"usd": 20}}, agent={"maxOutputTokens": 1000}, **CENTS)
    s.model.then(answer("one", input=3000, output=500), answer("two", input=3000, output=500))
    async with s.house() as (house, talk):
        assert (await talk.ask("first"))["reply"] == "one"
        (row,) = await house.ledger.spending.usage("2026-01-01")
        assert (row.cost, row.open) == (3 + 1, 0), "settled: what it really used"
        for _ in range(9):
            if "budget is used up" in (held := await talk.ask("more"))["reply"]:
                break
            s.model.then(answer("more", input=3000, output=500))
        assert "budgets.day.usd ($20.00)" in held["reply"]
        spent = sum(row.cost for row in await house.ledger.spending.usage("2026-01-01"))
        assert spent <= 20


@pytest.mark.parametrize("usd", [0.01, 0])
async def test_background_calls_have_a_budget_of_their_own_that_a_last_one_may_go_beyond(street: Make, usd: float) -> None:
    """A flush reserves its whole prompt: held by that, large conversations would never be flushed."""
    s = street(budgets={"day": {"usd": 100}, "background": {"usd": usd}}, agent={"maxOutputTokens": 1000}, **CENTS)
    s.model.reply_with(lambda _: answer("one", input=1000, output=10))
    made = 1 if usd else 0
    async with s.house() as (house, talk):
        assert (await talk.ask("the blue pot has the key"))["reply"] == "one"
        assert "New conversation" in (await talk.ask("/new"))["reply"]
        assert len(s.model.requests) == 1 + made
        await talk.ask("the red box has the hammer")
        assert "New conversation" in (await talk.ask("/new"))["reply"], "what its flush may not cost is written by rule"
        (row,) = await house.ledger.spending.usage("2026-01-01")
        assert row.calls == 2 + made
    assert len(s.model.requests) == 2 + made
    assert "red box" in s.notes()


async def test_a_session_has_a_budget_of_its_own(street: Make) -> None:
    s = street(budgets={"session": {"tokens": 52_000}}, agent={"maxOutputTokens": 1000})
    s.model.then(answer("one", input=50_000, output=10), answer("elsewhere", input=10, output=10))
    async with s.house() as (_, talk):
        assert (await talk.ask("first"))["reply"] == "one"
        assert "budgets.session" in (await talk.ask("second"))["reply"]
        assert (await talk.ask("third", session="another"))["reply"] == "elsewhere"


def brake(ledger: SqliteLedger, clock: ManualClock, tell: Callable[[str], None], **budgets: Any) -> BudgetGuard:
    return BudgetGuard(
        ledger.spending,
        BudgetSettings.model_validate(budgets),
        clock,
        agent="main",
        zone=ZoneInfo("Europe/Berlin"),
        price=lambda _: ESTIMATE,
        tell=tell,
    )


async def test_the_owner_is_warned_once_a_day_whatever_is_restarted(tmp_path: Path) -> None:
    clock, told = ManualClock(NOON), []
    for day in range(2):
        for _ in range(2):
            ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", clock)
            tried = brake(ledger, clock, told.append, day={"tokens": 1000}, session={"tokens": 900})
            for tokens in (500, 250, 100):
                await tried.reserve("s", "m", tokens=tokens // 2, usd=None, background=False)
            await ledger.close()
        assert [text.split("budget ")[1].partition(" (")[0] for text in told] == [
            "budgets.day.tokens",
            "budgets.session.tokens",
        ] * (day + 1)
        clock.move(24 * 3600)


async def test_a_message_allowed_once_stays_allowed_across_a_restart_and_for_one_turn(street: Make) -> None:
    s = street(budgets={"day": {"tokens": 52_000}}, agent={"maxOutputTokens": 1000})
    s.model.then(answer("one", input=50_000, output=10), answer("two", input=1, output=1))
    async with s.house() as (_, talk):
        await talk.ask("first")
        await talk.ask("/budget once")
    async with s.house() as (_, talk):
        assert (await talk.ask("second"))["reply"] == "two"
        assert "budget is used up" in (await talk.ask("third"))["reply"]


async def test_an_allowance_belongs_to_the_turn_that_began_with_it_however_often_it_begins(tmp_path: Path) -> None:
    path, clock = tmp_path / "ledger.sqlite", ManualClock(NOON)
    ledger = await SqliteLedger.open(path, clock)
    assert not await ledger.spending.use_allowance("s", "t1")
    await ledger.spending.allow("s")
    await ledger.spending.allow("s")
    assert [await ledger.spending.use_allowance(*one) for one in (("other", "t1"), ("s", "t2"), ("s", "t3"))] == [
        False,
        True,
        False,
    ]
    await ledger.close()
    ledger = await SqliteLedger.open(path, clock)
    assert await ledger.spending.use_allowance("s", "t2"), "the same turn, after a crash"
    await ledger.close()


@pytest.mark.parametrize(
    ("instant", "zone", "days", "first"),
    [
        ("2026-03-01T23:30:00+00:00", "Europe/Berlin", 1, "2026-03-02"),
        ("2026-03-01T23:30:00+00:00", "UTC", 1, "2026-03-01"),
        ("2026-03-01T03:00:00+00:00", "America/New_York", 2, "2026-02-27"),
        ("2026-03-29T22:30:00+00:00", "Europe/Berlin", 2, "2026-03-29"),
    ],
)
def test_days_are_counted_as_their_owner_counts_them(instant: str, zone: str, days: int, first: str) -> None:
    assert first_day(datetime.fromisoformat(instant), ZoneInfo(zone), days) == first


async def test_the_command_alone_tells_what_today_cost_and_the_limit(street: Make) -> None:
    s = street(budgets={"day": {"usd": 0.001}})
    async with s.house() as (_, talk):
        reply = (await talk.ask("/budget"))["reply"]
    assert "Calls of today cost $0.00 of $0.0010 (budgets.day.usd)" in reply
    assert "/budget once" in reply
