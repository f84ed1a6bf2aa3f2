"""The figure to which a refusal has a budget raised: with it the turn that was stopped can be made from its beginning."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.messages import AssistantMessage, Text, ToolCall, Usage
from agent.models.catalog.prices import ESTIMATE
from agent.models.scripted import ScriptedModel
from gateway.base.clock import ManualClock
from gateway.budget.budget_guard import BudgetGuard, Spender
from gateway.budget.budgeted_calls import BudgetMiddleware
from gateway.budget.raised_limits import CALLS, BudgetKeys, keys_of, raised, readable, written
from gateway.ledger.spending_rows import Limit, Spent, TurnCosts
from gateway.ledger.sqlite import SqliteLedger
from gateway.settings.budget_settings import BudgetSettings
from gateway.settings.root import Settings
from tests.automation.conftest import LOCAL, answered, event, job, to
from tests.gateway.test_budgets import CENTS
from tests.models.conversation import ask, hear, user

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.gateway.conftest import Street

    Make = Callable[..., Street]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOST = 0.083
"""What a call of these turns may cost at most."""
THIRTEEN = tuple(0.041 + 0.0012 * number for number in range(13))
"""What the calls of a turn cost in which a file is read step by step: $0.63 together."""


def tries(costs: Sequence[float], limit: float, turns_before: float = 0.0) -> int:
    """Return how often a limit is raised, as its refusals say, until a turn of such calls is made; each try begins anew."""
    used = 0.0
    for count in range(20):
        turn = 0.0
        for cost in costs:
            if used + MOST > limit:
                break
            used, turn = used + cost, turn + cost
        else:
            return count
        known = TurnCosts(usd=turn, dearest_usd=turns_before)
        limit = raised(Limit(name="job:a.usd", of="it", same="source", usd=limit), used=used, call=MOST, turns=known)
        turns_before = max(turns_before, turn)
    raise AssertionError("it is raised for ever")


def test_a_turn_of_thirteen_calls_needs_one_raise() -> None:
    assert sum(THIRTEEN) == pytest.approx(0.63, abs=0.01)
    assert tries(THIRTEEN, 0.02) == 1
    assert tries([*THIRTEEN, *THIRTEEN], 0.02) == 2
    assert tries([*THIRTEEN, *THIRTEEN], 0.02, turns_before=1.0) == 1, "such turns were made before"


@given(
    costs=st.lists(st.floats(0.001, MOST), min_size=1, max_size=200),
    limit=st.floats(0.0, 1.0),
    shorter=st.floats(1.0, 2.0),
)
def test_few_raises_suffice_for_any_turn_and_one_where_such_turns_were_made(
    costs: list[float], limit: float, shorter: float
) -> None:
    assert tries(costs, limit) <= 1 + max(0, math.ceil(math.log2(1 + sum(costs) / ((CALLS - 1) * MOST))))
    assert tries(costs, limit, turns_before=sum(costs) / shorter) <= 1


@given(usd=st.floats(0.0, 5000.0), used=st.floats(0.0, 9000.0), call=st.floats(0.0, 100.0))
def test_the_figure_is_above_the_limit_and_has_room_for_a_call_whatever_is_used(usd: float, used: float, call: float) -> None:
    for limit in (Limit(name="budgets.day.usd", usd=usd), Limit(name="budgets.background.usd", usd=usd, by_use=True)):
        figure = float(written(limit, raised(limit, used=used, call=call)))
        assert figure > usd
        assert figure >= (used + call) * (1 - 1e-6)
        assert figure <= max(0.01, 1.5 * max(2 * usd, used + CALLS * call)) + 0.01


@pytest.mark.parametrize(
    ("amount", "shown"),
    [(0.0004, "0.01"), (0.011, "0.02"), (0.33, "0.40"), (0.8, "0.80"), (1.01, "1.20"), (2.64, "3"), (20, "20")],
)
def test_figures_are_readable(amount: float, shown: str) -> None:
    assert written(Limit(name="x", usd=1.0), readable(amount, least=0.01)) == shown


def test_a_budget_is_raised_where_the_settings_say_it() -> None:
    tidy = {"memorySearch": {"tidy": {"limitUsd": 0.9}}}
    settings = Settings.model_validate(
        {"agents": {"list": [{"id": "main"}, {"id": "work", "heartbeat": {"dailyUsd": 2}, "subagents": {"usd": 3}, **tidy}]}}
    )
    assert keys_of(settings, "main") == BudgetKeys(subagent_usd=1.0)
    assert keys_of(settings, "work") == BudgetKeys(
        heartbeat="agents.list.1.heartbeat.dailyUsd",
        subagent="agents.list.1.subagents.usd",
        subagent_usd=3.0,
        tidy="agents.list.1.memorySearch.tidy.limitUsd",
    )


def reads(times: int) -> Callable[[Any], AssistantMessage]:
    """A model that reads a file so many times, then answers."""

    def answer(request: Any) -> AssistantMessage:
        done = sum(isinstance(one, AssistantMessage) for one in request.messages)
        usage = Usage(input=3000, output=100)
        if done < times:
            call = ToolCall(id=f"c{done}", name="read", arguments={"path": "AGENTS.md", "offset": done + 1})
            return AssistantMessage(content=(call,), model="scripted/model", stop="tool_use", usage=usage)
        return AssistantMessage(content=(Text(text="Done."),), model="scripted/model", stop="end", usage=usage)

    return answer


async def test_a_job_that_follows_what_its_refusals_say_is_done_with_the_second_raise(
    street: Make, caplog: pytest.LogCaptureFixture
) -> None:
    s = street(agent={"maxOutputTokens": 1000}, budgets={"day": {"usd": 1000, "tokens": None}}, **CENTS)
    s.model.reply_with(reads(20))
    figures = [0.02]
    async with s.house() as (house, _):
        for number in range(9):
            automation = job("water", daily_usd=figures[-1], fresh=True)
            row = await house.inbox.submit(event("go", f"{number}", LOCAL), to(), automation, account="schedule")
            await answered(house, row)
            failed = [one for one in caplog.messages if one.startswith("job “water” failed: ")]
            if len(failed) < len(figures):
                break
            (figure,) = re.findall(r"To give it more: `homebody cron change water --usd ([\d.]+)`", failed[-1])
            assert failed[-1].endswith("Then run it again: `homebody cron run water`.")
            figures.append(float(figure))
            s.clock.move(60)
    assert figures == [0.02, 50, 150]


REPAIRS = {
    "heartbeat:main": "The next heartbeat is made by itself.",
    "job:water": "Then run it again: `homebody cron run water`.",
    "hook:alarm": "What called the webhook has to call again.",
    "mail:post": "The next new mail is looked at by itself.",
    "subagent:x": "The sub-agent has to be started again.",
}


@pytest.mark.parametrize("source", REPAIRS)
async def test_a_source_that_the_agents_budget_refuses_is_told_what_works_there(tmp_path: Path, source: str) -> None:
    clock = ManualClock(NOON)
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", clock)
    told: list[str] = []
    guard = BudgetGuard(
        ledger.spending,
        BudgetSettings.model_validate({"agent": {"tokens": 20_000}, "day": {"tokens": 1_000_000, "usd": None}}),
        clock,
        agent="main",
        zone=ZoneInfo("UTC"),
        price=lambda _: ESTIMATE,
        tell=told.append,
    )
    used_before = await guard.reserve("s", "m", tokens=19_000, usd=None, background=False)
    assert used_before.row is not None
    guard.settle(used_before.row, Spent(input=19_000))
    told.clear()
    model = ScriptedModel()
    spender = Spender(origin="schedule", source=source, label="the source", usd=None if source == "subagent:x" else 0.01)
    async with guard.turn("s", "t", spender):
        _, answer = await hear(BudgetMiddleware(model, guard, "s"), ask(user("Look."), max_output=2000))
    assert not model.requests
    failure = answer.failure
    assert failure is not None
    assert failure.message == "Today's budget is used up: the next answer could exceed budgets.agent.tokens (20,000 tokens)."
    hint = failure.hint
    assert "/budget once" not in hint
    assert "message" not in hint
    assert "To raise it: `homebody config set budgets.agent.tokens 40000`." in hint
    assert "tomorrow" not in hint, "no day has room for it"
    assert hint.endswith(REPAIRS[source])
    assert told[0].startswith(
        "💸 95% of today's budget budgets.agent.tokens (20,000 tokens) is used, and the next call may take up to "
    )
    assert told[0].endswith(f"To raise it: `homebody config set budgets.agent.tokens 40000`. {REPAIRS[source]}")
    if source != "subagent:x":
        assert "The call could exceed the daily budget of the source ($0.01), too: `homebody " in hint
        assert told[1].startswith("💸 The daily budget of the source ($0.01) allows no call: one may take up to ")
        assert len(told) == 2, "of each budget that refuses it"
    assert not any("is made now" in one for one in told), "no call is made"
    await ledger.close()


async def test_of_a_budget_that_does_not_refuse_it_is_not_said_that_a_call_is_made(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", clock)
    told: list[str] = []
    settings = BudgetSettings.model_validate({"agent": {"tokens": 100}, "day": {"tokens": 1000}})
    guard = BudgetGuard(
        ledger.spending, settings, clock, agent="main", zone=ZoneInfo("UTC"), price=lambda _: ESTIMATE, tell=told.append
    )
    earlier = BudgetGuard(
        ledger.spending,
        BudgetSettings(),
        clock,
        agent="other",
        zone=ZoneInfo("UTC"),
        price=lambda _: ESTIMATE,
        tell=told.append,
    )
    reserved = await earlier.reserve("other", "m", tokens=850, usd=None, background=False)
    assert reserved.row is not None
    earlier.settle(reserved.row, Spent(input=850))
    await guard.reserve("s", "m", tokens=120, usd=None, background=False)
    assert told[0] == "💸 85% of today's budget budgets.day.tokens (1,000 tokens) is used. `/usage` shows details."
    assert len(told) == 2, "and which budget refuses it"
    await ledger.close()


async def test_a_person_is_told_a_figure_that_is_enough_for_the_turn(street: Make) -> None:
    s = street(
        agent={"maxOutputTokens": 1000}, budgets={"day": {"usd": 90}, "session": {"usd": 0.02}, "agent": {"usd": 0.5}}, **CENTS
    )
    s.model.reply_with(reads(3))
    async with s.house() as (_, talk):
        reply = (await talk.ask("look"))["reply"]
    assert "budget allows no such call: the next answer could exceed budgets.agent.usd ($0.50)" in reply
    assert re.search(
        r"/budget once, then your message again; or raise the budget: homebody config set budgets\.agent\.usd \d+ && "
        r"homebody config set budgets\.session\.usd \d+$",
        reply,
    ), reply
