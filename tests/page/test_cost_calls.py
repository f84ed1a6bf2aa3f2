"""Costs: by model and origin, today's budgets, and what a longer cache would have saved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.messages import Usage
from agent.models.catalog.prices import Price
from gateway.base.errors import UsageError
from gateway.budget.cache_savings import cache_savings
from gateway.budget.cost_words import budget_lines, hour_cache_line, savings_lines
from gateway.budget.daily_budgets import daily_budgets
from gateway.ledger.spending_rows import NewCall, RecordedCall, Spent, SpentOn
from gateway.settings.budget_settings import BudgetSettings
from tests.gateway.conftest import street
from tests.ledger.test_subagents import new, session, start

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.app.gateway import Gateway
    from tests.gateway.conftest import Street

__all__ = ["street"]
OF = ("day", "background", "agent", "session")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLAUDE = Price(input=2, output=10, cache_read=0.2, cache_write=2.5, cache_write_1h=4)
GPT = Price(input=2, output=10, cache_read=0.2)


async def call(house: Gateway, name: str, /, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = await house.calls()[name](**arguments)
    return found


def made(
    minutes: float, *, read: int = 0, written: int = 0, plain: int = 0, session: str = "s", hours: int = 0
) -> RecordedCall:
    """A call as it is recorded; with ``hours`` all that it wrote was written for an hour."""
    usage = Usage(input=plain, output=10, cache_read=read, cache_write=written)
    return RecordedCall(
        cost=CLAUDE.of_usage(usage, written_for_an_hour=written * hours),
        at=NOON + timedelta(minutes=minutes),
        session=session,
        model="m",
        input=plain,
        output=10,
        cache_read=read,
        cache_write=written,
    )


async def test_budgets_tell_what_the_guard_counts(street: Callable[..., Street]) -> None:
    here = street(budgets={"day": {"usd": None, "tokens": 1_000_000}, "session": {"tokens": 500_000}})
    async with here.house() as (house, talk):
        here.model.then("Hello!", "And again.")
        await talk.ask("hello")
        await talk.ask("again")
        costs = await call(house, "costs", days=7)
        (row,) = costs["models"]
        (origin,) = costs["origins"]
        assert (row["model"], row["calls"], origin["origin"]) == ("scripted/model", 2, "owner")
        assert costs["today"] == "2026-03-01"
        used = row["input"] + row["output"] + row["cacheRead"] + row["cacheWrite"]
        found = {(one["name"], one["whose"]): one for one in (await call(house, "costs.budgets"))["budgets"]}
        day = found["budgets.day.tokens", None]
        assert (day["used"], day["left"]) == (used, 1_000_000 - used)
        assert found["budgets.session.tokens", "agent:main:main"]["used"] == used
        assert found["budgets.day.usd", None]["left"] is None
        assert found["budgets.background.tokens", None]["used"] == 0
        assert {f"budgets.{of}.{unit}" for of in OF for unit in ("usd", "tokens")} <= {name for name, _ in found}, (
            "each can be changed"
        )
        told = "\n".join(budget_lines(await call(house, "costs.budgets")))
        assert "budgets.day.tokens" in told
        with pytest.raises(UsageError, match="days"):
            await call(house, "costs", days=0)
        with pytest.raises(UsageError, match="is not called so"):
            await call(house, "costs", days=1, nonsense=1)


async def spend(
    house: Gateway, cost: float, *, session: str = "agent:main:x", source: str = "", written: int = 0, model: str = "m"
) -> None:
    call_ = NewCall(
        day="2026-03-01", agent="main", session=session, model=model, background=False, tokens=1, usd=0.0, source=source
    )
    row = (await house.ledger.spending.reserve(call_, ())).row
    await house.ledger.spending.settle_call(row or 0, Spent(input=7, cache_write=written, cost=cost))


async def test_budgets_of_jobs_webhooks_and_sub_agents_are_told_with_what_is_used(street: Callable[..., Street]) -> None:
    here = street(
        mail={
            "accounts": {
                "post": {"imap": {"host": "127.0.0.1", "port": 9}, "user": "a@b.example", "password": "x", "watch": "agent"}
            }
        }
    )
    async with here.house() as (house, _):
        job = (await call(house, "jobs.add", when="every day at 9", text="x", kind="task", daily_usd=0.5))["job"]["id"]
        await call(house, "jobs.add", when="every day at 9", text="without a budget", kind="task")
        await call(house, "hooks.add", name="alarm", instruction="look", daily_usd=2.0, daily_tokens=100)
        for one in (new("a"), new("b", session("a"), depth=2)):
            await start(house.ledger, replace(one, usd=1.0 if one.id == "a" else 0.25))
        for source in (f"job:{job}", "hook:alarm", "heartbeat:main", "mail:post"):
            await spend(house, 0.2, source=source)
        await spend(house, 0.1, session=session("a"))
        await spend(house, 0.3, session=session("b"))
        facts = await call(house, "costs.budgets")
        found = {one["name"]: one for one in facts["budgets"]}
        assert (found[f"job:{job}.usd"]["used"], found[f"job:{job}.usd"]["limit"], found[f"job:{job}.usd"]["kind"]) == (
            0.2,
            0.5,
            "job",
        )
        assert (found["hook:alarm.usd"]["left"], found["hook:alarm.tokens"]["used"]) == (1.8, 7)
        assert found["heartbeat:main.usd"]["used"] == found["mail:post.usd"]["used"] == 0.2
        of_agents = [(found[f"subagent:{one}.usd"]["used"], found[f"subagent:{one}.usd"]["left"]) for one in "ab"]
        assert of_agents == [(pytest.approx(0.4), pytest.approx(0.6)), (0.3, 0)], "with all that came of it"
        assert [one["name"] for one in facts["budgets"] if one["kind"] == "job"] == [f"job:{job}.usd"]
        lines = "\n".join(budget_lines(facts))
        assert "hook:alarm.usd of alarm: $0.20 of $2.00 used (10%), $1.80 left" in lines
        assert f"To raise that of the job x: homebody cron change {job} --usd 3" in lines, "calls cost $0.30"
        assert "To raise that of the webhook alarm: homebody hooks change alarm --daily-usd 4" in lines
        assert "To raise that of the heartbeats of main: homebody config set agents.defaults.heartbeat.dailyUsd 3" in lines
        assert "To raise that of the mailbox post: homebody config set mail.accounts.post.watchDailyUsd 3" in lines
        assert (
            "To give sub-agents more that are started from now on: homebody config set agents.defaults.subagents.usd 2.50"
            in lines
        )
        assert "To raise budgets.day.usd: homebody config set budgets.day.usd 10" in lines
        assert found["hook:alarm.tokens"]["raise"] == "homebody hooks change alarm --daily-tokens 200"


async def test_each_budget_has_a_command_that_runs_and_raises_it(street: Callable[..., Street]) -> None:
    agents = {"list": [{"id": "main"}, {"id": "work", "heartbeat": {"dailyUsd": 3}, "subagents": {"usd": 4}}]}
    here = street(agents=agents, budgets={"agent": {"usd": 70}, "session": {"tokens": 30_000_000}})
    async with here.house() as (house, _):
        await call(house, "jobs.add", when="every day at 9", text="x", kind="task", daily_usd=13.2)
        await call(house, "hooks.add", name="alarm", instruction="look", daily_usd=250.0, daily_tokens=7)
        await start(house.ledger, replace(new("a"), usd=0.25))
        await start(house.ledger, replace(new("b", "agent:work:main"), usd=4.0))
        budgets = (await call(house, "costs.budgets"))["budgets"]
    limited = [one for one in budgets if one["limit"] is not None]
    assert len(limited) == 13
    for one in limited:
        assert float(one["raise"].split()[-1]) > one["limit"]
    commands = {one["name"]: one["raise"].rpartition(" ")[0] for one in limited}
    assert commands["heartbeat:main.usd"] == "homebody config set agents.defaults.heartbeat.dailyUsd"
    assert commands["heartbeat:work.usd"] == "homebody config set agents.list.1.heartbeat.dailyUsd"
    assert commands["subagent:b.usd"] == "homebody config set agents.list.1.subagents.usd"
    (asked_for_less,) = (one["raise"] for one in limited if one["name"] == "subagent:a.usd")
    assert asked_for_less == "homebody config set agents.defaults.subagents.usd 2", "above the setting, which is 1"
    assert all(one["raise"] is None for one in budgets if one["limit"] is None)


async def test_what_is_listed_of_the_budgets_of_sessions_adds_up(street: Callable[..., Street]) -> None:
    here = street(budgets={"session": {"usd": 2}})
    async with here.house() as (house, _):
        for number in range(1, 9):
            await spend(house, number / 8, session=f"agent:main:{number}")
        facts = await call(house, "costs.budgets")
    sums = {
        unit: sum(one["used"] for one in facts["budgets"] if one["name"] == f"budgets.session.{unit}")
        for unit in ("usd", "tokens")
    }
    (more,) = facts["notListed"]
    assert (more["name"], more["count"]) == ("budgets.session", 3)
    used = {one["name"]: one["used"] for one in facts["budgets"]}
    assert sums["usd"] + more["usedUsd"] == used["budgets.day.usd"] == 4.5
    assert sums["tokens"] + more["usedTokens"] == used["budgets.day.tokens"] == 56
    lines = budget_lines(facts)
    at = lines.index("  budgets.session.usd of 3 more sessions: $0.75 used in all")
    assert lines[at - 1].startswith("  budgets.session.usd of agent:main:4: $0.50 of $2.00")
    assert "  budgets.session.tokens of 3 more sessions: 21 tokens used in all" in lines
    assert lines[-1] == "To raise that of the heartbeats of main: homebody config set agents.defaults.heartbeat.dailyUsd 8", (
        "calls cost $1"
    )
    assert "To raise budgets.day.usd: homebody config set budgets.day.usd 15" in lines
    facts["budgets"] = [one for one in facts["budgets"] if one["name"] != "budgets.day.usd"]
    assert "To raise budgets.session.usd: homebody config set budgets.session.usd 10" in budget_lines(facts), "the next fullest"


async def test_usage_says_what_a_cache_of_an_hour_would_have_changed(street: Callable[..., Street]) -> None:
    here = street()
    async with here.house() as (house, talk):
        assert "one-hour" not in (await talk.ask("/usage"))["reply"], "no call was made of a model that has one"
        for _ in range(2):
            await spend(house, 2.5, written=1_000_000, model="anthropic/claude-sonnet-5-5")
            here.clock.move(600)
        assert "With a one-hour cache: " in (await talk.ask("/usage"))["reply"]


@pytest.mark.parametrize(("net", "said"), [(1.1, "−$1.10 in the last 7 days"), (-0.3, "+$0.30 in the last 7 days")])
def test_a_saving_has_a_minus_and_a_loss_a_plus(net: float, said: str) -> None:
    missed = {"missedCalls": 1, "dearer": 0.1, "writtenForAnHour": 0}
    assert said in hour_cache_line({"models": [missed], "net": net}, 7)
    assert hour_cache_line({"models": [], "net": 0}, 7) == ""


def test_a_budget_of_each_agent_is_told_of_those_that_used_most() -> None:
    spent = [
        SpentOn(agent=f"a{n}", session=f"s{n}", top="s0", background=n == 3, calls=1, tokens=n * 10, cost=float(n))
        for n in range(8)
    ]
    found = daily_budgets(BudgetSettings.model_validate({"agent": {"usd": 4}}), spent)
    agents = [one for one in found if one["name"] == "budgets.agent.usd"]
    assert [one["whose"] for one in agents] == ["a7", "a6", "a5", "a4", "a3"]
    assert (agents[0]["left"], agents[0]["share"]) == (0, 7 / 4)
    (background,) = (one for one in found if one["name"] == "budgets.background.usd")
    assert background["used"] == 3.0
    (session,) = (one for one in found if one["name"] == "budgets.session.usd")
    assert (session["whose"], session["used"]) == ("s0", 28.0), "those of sub-agents count for the session above them"


def test_a_pause_of_ten_minutes_is_what_an_hour_would_save() -> None:
    calls = [made(0, written=100_000), made(10, written=101_000), made(11, read=101_000, written=1_000)]
    found = cache_savings(calls, lambda _: CLAUDE)
    (model,) = found["models"]
    assert (model["missedCalls"], model["missedTokens"]) == (1, 100_000)
    assert model["saved"] == pytest.approx(100_000 * (2.5 - 0.2) / 1e6)
    assert model["dearer"] == pytest.approx((100_000 + 1_000 + 1_000) * (4 - 2.5) / 1e6)
    assert found["net"] == pytest.approx(model["saved"] - model["dearer"])
    assert "m: 1 of 3 calls" in "\n".join(savings_lines({"since": "2026-03-01", "retention": "auto", **found}))


def test_what_was_taken_out_of_a_cold_prompt_would_have_stayed_and_been_read() -> None:
    """Of 100,010 tokens with the answer, 61,000 are left for two calls; after more than an hour the rest would be gone, too."""
    calls = [
        made(0, written=10_000),
        made(1, read=10_000, written=90_000),
        made(11, written=61_000),
        made(12, read=61_000, written=1_000),
        made(90, written=50_000),
        made(91, read=50_000, written=1_000),
    ]
    (model,) = cache_savings(calls, lambda _: CLAUDE)["models"]
    assert model["longer"] == pytest.approx(2 * 39_010 * 0.2 / 1e6)
    assert model["net"] == pytest.approx(model["saved"] - model["dearer"] - model["longer"])
    told = savings_lines({"since": "2026-03-01", "retention": "5m", "models": [model], "net": -0.25, "hourNet": 0})
    assert "prompts that stay longer: $0.02 more" in told[1]
    assert told[2:] == ["Keeping all for an hour: $0.25 more.", "The setting is agents.defaults.cacheRetention: 5m"]


@pytest.mark.parametrize(
    ("minutes", "left"),
    [(3, 20_000), (11, 10_500), (75, 60_000)],
    ids=["a summary", "a new conversation", "a pause of more than an hour"],
)
def test_a_prompt_that_is_shorter_for_another_reason_would_be_so_with_an_hours_cache(minutes: int, left: int) -> None:
    calls = [
        made(0, written=10_000),
        made(1, read=10_000, written=90_000),
        made(minutes, written=left),
        made(minutes + 1, read=left, written=100),
    ]
    (model,) = cache_savings(calls, lambda _: CLAUDE)["models"]
    assert model["longer"] == 0


@pytest.mark.parametrize("minutes", [1.0, 4.9, 61.0, 600.0])
def test_other_pauses_save_nothing(minutes: float) -> None:
    (model,) = cache_savings([made(0, written=9_000), made(minutes, written=9_000)], lambda _: CLAUDE)["models"]
    assert (model["missedCalls"], model["saved"]) == (0, 0)


def test_what_was_read_after_a_pause_was_kept_already_and_other_prices_are_left_out() -> None:
    calls = [made(0, written=9_000), made(20, read=9_000, written=500)]
    (model,) = cache_savings(calls, lambda _: CLAUDE)["models"]
    assert (model["keptLonger"], model["missedCalls"]) == (1, 0)
    assert cache_savings(calls, lambda _: GPT)["models"] == []
    assert "No model" in savings_lines({"since": "2026-03-01", "retention": "5m", "models": []})[0]


def test_what_is_kept_for_an_hour_already_is_not_charged_again_but_told_with_what_it_brought() -> None:
    calls = [
        made(0, written=100_000, hours=1),
        made(10, read=100_000, written=1_000, hours=1),
        made(75, written=50_000, hours=1),
    ]
    found = cache_savings(calls, lambda _: CLAUDE)
    (model,) = found["models"]
    assert (model["missedCalls"], model["saved"], model["dearer"]) == (0, 0, 0)
    assert (model["writtenForAnHour"], model["hourCost"]) == (151_000, pytest.approx(151_000 * (4 - 2.5) / 1e6))
    assert model["hourSaved"] == pytest.approx(100_000 * (2.5 - 0.2) / 1e6)
    assert hour_cache_line(found, 7).startswith("\n\nThe one-hour cache that you have: at most −$0.00 in the last 7 days")
    assert "151,000 tokens were written for an hour already: $0.23 more" in "\n".join(
        savings_lines({"since": "2026-03-01", "retention": "auto", **found})
    )


def test_a_prompt_that_an_hours_cache_did_not_hold_was_missed_for_another_reason() -> None:
    calls = [made(0, written=100_000, hours=1), made(10, written=100_000, hours=1)]
    assert cache_savings(calls, lambda _: CLAUDE)["saved"] == 0


@given(st.lists(st.tuples(st.floats(0, 90), st.integers(0, 200_000), st.integers(0, 200_000)), max_size=20))
def test_whoever_has_the_hour_is_told_of_no_other_gain_or_cost(drawn: list[tuple[float, int, int]]) -> None:
    at, calls = 0.0, []
    for gap, read, written in drawn:
        at += gap
        calls.append(made(at, read=read, written=written + 1, hours=1))
    found = cache_savings(calls, lambda _: CLAUDE)
    assert (found["saved"], found["dearer"]) == (0, pytest.approx(0))


amounts = st.integers(0, 200_000)


@given(st.lists(st.tuples(st.floats(0, 90), amounts, amounts, amounts, st.sampled_from("ab")), max_size=20))
def test_the_estimate_never_saves_more_than_was_paid(drawn: list[tuple[float, int, int, int, str]]) -> None:
    at, calls = 0.0, []
    for gap, read, written, plain, which in drawn:
        at += gap
        calls.append(made(at, read=read, written=written, plain=plain, session=which))
    found = cache_savings(calls, lambda _: CLAUDE)
    paid = sum(one.input * 2 + one.cache_read * 0.2 + one.cache_write * 2.5 for one in calls) / 1e6
    assert 0 <= found["saved"] <= paid + 1e-9
    assert found["dearer"] >= 0
