"""What models may cost: reserved before, settled after, held back beyond."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.events import TextDelta
from agent.messages import AssistantMessage, Text, Usage
from agent.models.scripted import Stall
from gateway.clock import ManualClock
from gateway.ledger.spending import Limit, NewCall, Spent
from gateway.ledger.sqlite import SqliteLedger

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
        assert "goes through" in (await talk.ask("/budget once"))["reply"]
        assert (await talk.ask("second"))["reply"] == "two"
        assert "budget is used up" in (await talk.ask("third"))["reply"]
        table = (await talk.ask("/usage"))["reply"]
    assert "| main | scripted/model | 2 |" in table


async def test_a_stopped_call_counts_what_was_sent_and_said(street: Make) -> None:
    s = street()
    s.model.then([TextDelta("well "), Stall()])
    async with s.house() as (house, talk):
        await talk.send("think for ever")
        await talk.until(lambda: talk.frames)
        await talk.ask("/stop")
        async with asyncio.timeout(10):
            while not (rows := await house.ledger.usage("2026-01-01")) or rows[0].open:  # noqa: ASYNC110 (it is settled in the background)
                await asyncio.sleep(0)
        assert rows[0].input > 100


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.booleans()), max_size=30),
    limit=st.integers(1, 2000),
)
async def test_a_purse_is_never_overdrawn_by_calls_that_keep_to_what_they_reserved(
    tmp_path_factory: Any, steps: list[tuple[int, int, bool]], limit: int
) -> None:
    path: Path = tmp_path_factory.mktemp("ledger")
    ledger = await SqliteLedger.open(path / "ledger.sqlite", ManualClock(NOON))
    used = 0
    for most, really, crash in steps:
        call = NewCall(day="d", agent="a", session="s", model="m", background=False, tokens=most, usd=None)
        reserved = await ledger.reserve(call, [Limit(name="day", tokens=limit)])
        assert (reserved.row is not None) == (used + most <= limit)
        if reserved.row is not None and crash:
            used += most
        elif reserved.row is not None:
            await ledger.settle_call(reserved.row, Spent(input=min(most, really)))
            used += min(most, really)
        assert used <= limit
    await ledger.close()
