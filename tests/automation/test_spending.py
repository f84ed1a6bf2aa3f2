"""What automations cost: counted by origin and by source, and kept within a daily budget of their own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from pydantic.alias_generators import to_snake

from agent.messages import AssistantMessage, Text, Usage
from gateway.base.clock import ManualClock
from gateway.budget.budget_words import goes_on, how_to_raise
from gateway.budget.raised_limits import BudgetKeys
from gateway.budget.usage_report import facts, usage_facts, usage_table
from gateway.ledger.job_rows import NewJob
from gateway.ledger.rows import Arrival
from gateway.ledger.spending_rows import Limit, NewCall, Reserved, Spent, TurnCosts
from gateway.ledger.sqlite import SqliteLedger
from gateway.ledger.subagent_rows import NewSubAgent
from gateway.settings.root import Settings
from tests.automation.conftest import LOCAL, MAIN, answered, event, job, to
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from gateway.app.gateway import Gateway
    from gateway.routing.routed_message import Automation
    from tests.gateway.conftest import Street

    Make = Callable[..., Street]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SMALL = {"maxOutputTokens": 1000}
ENOUGH = 12_000
"""Tokens for one call of these tests and not for two: what it may use at most counts, then what it used."""


def used(tokens: int) -> Callable[[Any], AssistantMessage]:
    return lambda _: AssistantMessage(
        content=(Text(text="Done."),), model="scripted/model", stop="end", usage=Usage(input=tokens, output=10)
    )


async def run(house: Gateway, automation: Automation, key: str, session: str = "agent:main:job:water") -> None:
    row = await house.inbox.submit(event("go", key, LOCAL, session), to(session), automation, account="schedule")
    await answered(house, row)


async def test_usage_is_counted_by_origin_and_by_source(street: Make) -> None:
    s = street()
    s.model.reply_with(used(5000))
    async with s.house() as (house, talk):
        await talk.ask("hello")
        await run(house, job("a"), "1")
        await run(house, job("b"), "2")
        await run(house, job("alarm", origin="webhook", source="hook:alarm"), "3", MAIN)
        by_origin = await house.ledger.spending.usage("2026-01-01", "origin")
        assert {row.name: row.calls for row in by_origin} == {"owner": 1, "schedule": 2, "webhook": 1}
        by_source = await house.ledger.spending.usage("2026-01-01", "source")
        assert {row.name: row.calls for row in by_source} == {"owner": 1, "job:a": 1, "job:b": 1, "hook:alarm": 1}
        shown = facts(by_origin, "origin")
        assert [row["origin"] for row in shown["usage"]] == ["owner", "schedule", "webhook"]
        assert "| day | agent | origin | calls |" in usage_table(shown, "origin")
        assert "| main | schedule | 2 |" in usage_table(shown, "origin")


async def test_jobs_and_sub_agents_are_told_by_their_names(tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(tmp_path / "ledger.sqlite", ManualClock(NOON))
    new = NewJob(agent="main", name="morning|news", schedule="cron 0 9 * * *", kind="message", text="x")
    kept = await ledger.jobs.add(new, NOON + timedelta(days=1), "UTC")
    gone = await ledger.jobs.add(replace(new, name="evening"), NOON + timedelta(days=1), "UTC")
    looker = NewSubAgent(
        id="x1", name="t/x1", agent="main", session="agent:main:sub:x1", parent=MAIN, request="t", depth=1, label="looker", payload="{}",
    )  # fmt: skip
    task = Arrival(
        key="k", alias="k", conversation="internal:default:direct:x", session=looker.session, sender="x", payload="{}", received_at=NOON
    )  # fmt: skip
    await ledger.subagents.start(looker, task, children=5, of_request=5)
    for source in (f"job:{kept.id}", f"job:{gone.id}", "subagent:x1", "hook:alarm", ""):
        call = NewCall(
            day="2026-03-01", agent="main", session="s", model="m", background=False, tokens=5, usd=0.1, origin="schedule", source=source
        )  # fmt: skip
        reserved = await ledger.spending.reserve(call, [])
        assert reserved.row is not None
        await ledger.spending.settle_call(reserved.row, Spent(input=5, cost=0.1))
    await ledger.jobs.remove(gone.id)
    found = await usage_facts(ledger, "2026-03-01", "source")
    assert {row["source"]: row.get("label") for row in found["usage"]} == {
        f"job:{kept.id}": "morning|news", f"job:{gone.id}": None, "subagent:x1": "looker", "hook:alarm": None, "schedule": None,
    }  # fmt: skip
    table = usage_table(found, "source")
    assert f"| main | morning/news (job:{kept.id}) | 1 |" in table
    assert f"| main | job:{gone.id} | 1 |" in table
    assert all(line.count("|") == 9 for line in table.splitlines() if line.startswith("|"))
    await ledger.close()


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("job:abc.usd", "`homebody cron change abc --usd 0.80`"),
        ("job:abc.tokens", "`homebody cron change abc --tokens 2000`"),
        ("hook:a.b.usd", "`homebody hooks change a.b --daily-usd 0.80`"),
        ("heartbeat:main.usd", "`homebody config set agents.defaults.heartbeat.dailyUsd 0.80`"),
        ("mail:home.usd", "`homebody config set mail.accounts.home.watchDailyUsd 0.80`"),
        ("tidy.usd", "`homebody memory tidy --limit-usd 0.80`"),
        ("tidy.usd", "`homebody config set agents.defaults.memorySearch.tidy.limitUsd 0.80`"),
        ("subagent:x1", "`homebody config set agents.defaults.subagents.usd 0.80`"),
    ],
)
def test_it_is_said_what_gives_a_source_more(name: str, advice: str) -> None:
    in_usd = not name.endswith("tokens")
    usd, tokens = (0.2, None) if in_usd else (None, 700)
    limit = Limit(name=name, of="somebody", usd=usd, tokens=tokens, within="s" if name == "subagent:x1" else "")

    def refused(share: float) -> Reserved:
        most = {"tokens": round(share * 700), "usd": share * 0.2}
        turns = TurnCosts(dearest_tokens=100, dearest_usd=0.1)
        return Reserved(row=None, broken=limit, shares={limit.name: share}, turns=turns, **most)

    source, keys = name.removesuffix(".usd").removesuffix(".tokens"), BudgetKeys(subagent_usd=0.2)
    assert advice in how_to_raise(limit, refused(1.0 if in_usd else 500 / 700), source, keys)
    assert ("tomorrow" in goes_on(limit, refused(0.9), source)) == (name != "subagent:x1")
    assert not goes_on(limit, refused(1.1), source), "no day allows such a call"
    if "config set" in advice:
        key, value = advice.strip("`").split()[-2:]
        account = {"user": "me@example.org", "imap": {"host": "imap.example.org"}, "password": "p"}
        given = {"mail": {"accounts": {"home": account}}} if key.startswith("mail") else {}
        path = key.split(".")
        place: Any = given
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = value
        found: Any = Settings.model_validate(given)
        for part in path:
            found = found[part] if isinstance(found, dict) else getattr(found, to_snake(part))
        assert found == 0.8


async def test_a_job_stays_within_its_daily_budget_and_others_go_on(street: Make) -> None:
    s = street(agent=SMALL)
    s.model.reply_with(used(9000))
    async with s.house() as (house, talk):
        for n in range(4):
            await run(house, job("a", daily_tokens=ENOUGH), f"a{n}")
        assert len(s.model.requests) == 1, "the others could have used more than was left"
        await run(house, job("b", daily_tokens=ENOUGH), "b")
        await talk.send("hello")
        await talk.until(lambda: len(talk.replies()) == 3)
        assert len(s.model.requests) == 3
        assert talk.replies() == ["Done.", "Done.", "Done."], "nobody is told at each firing"
        assert len(await house.ledger.outbox.latest(["ready", "sending", "sent"])) == 3
        s.clock.set(s.clock.now() + timedelta(days=1))
        await run(house, job("a", daily_tokens=ENOUGH), "a9")
        assert len(s.model.requests) == 4


async def test_the_owner_is_told_once_a_day_why_a_job_makes_no_more_calls(street: Make) -> None:
    s = street(agent=SMALL)
    s.model.reply_with(used(9000))
    said: list[str] = []
    async with s.house() as (house, _):
        house.agents["main"].budget_guard.tell = said.append
        for n in range(4):
            await run(house, job("plants", source="job:p", daily_tokens=ENOUGH), f"a{n}")
    assert len(said) == 1
    assert said[0].startswith(
        "💸 75% of the daily budget of job “plants” (12,000 tokens) is used, and the next call may take up to "
    )
    assert "It goes on tomorrow. To give it more: `homebody cron change p --tokens " in said[0]


async def test_a_budget_that_allows_no_call_is_not_told_of_as_used(street: Make) -> None:
    s = street(agent=SMALL)
    s.model.reply_with(used(9000))
    said: list[str] = []
    async with s.house() as (house, _):
        house.agents["main"].budget_guard.tell = said.append
        for n in range(2):
            await run(house, job("plants", source="job:p", daily_tokens=10), f"a{n}")
    assert not s.model.requests
    assert len(said) == 1
    assert said[0].startswith("💸 The daily budget of job “plants” (10 tokens) allows no call: one may take up to ")
    assert "used" not in said[0]
    needed = int(said[0].partition("--tokens ")[2].partition("`")[0])
    s2 = street(agent=SMALL)
    s2.model.reply_with(used(9000))
    async with s2.house() as (house, _):
        await run(house, job("plants", source="job:p", daily_tokens=needed), "b")
    assert len(s2.model.requests) == 1, "what the line advises is enough for a call"


async def test_its_budget_holds_although_budgets_are_off_or_one_message_was_allowed(street: Make) -> None:
    s = street(agent=SMALL, budgets={"enabled": False})
    s.model.reply_with(used(9000))
    async with s.house() as (house, talk):
        await house.agents["main"].budget_guard.allow_once(MAIN)
        for n in range(3):
            await run(house, job("a", daily_tokens=ENOUGH), f"a{n}", MAIN)
        assert len(s.model.requests) == 1
        assert await house.ledger.spending.use_allowance(MAIN, "a person's turn"), "what was allowed waits for a person"
        await talk.send("hello")
        await talk.until(lambda: len(s.model.requests) == 2)


@settings(max_examples=examples(25), deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 400), st.integers(0, 400), st.booleans()), max_size=25),
    limits=st.fixed_dictionaries({name: st.integers(1, 1000) for name in "abc"}),
)
async def test_no_source_is_ever_overdrawn(
    tmp_path_factory: Any, steps: list[tuple[str, int, int, bool]], limits: dict[str, int]
) -> None:
    path: Path = tmp_path_factory.mktemp("ledger")
    ledger = await SqliteLedger.open(path / "ledger.sqlite", ManualClock(NOON))
    spent = dict.fromkeys("abc", 0)
    for source, most, really, force in steps:
        call = NewCall(
            day="d", agent="m", session="s", model="m", background=False, tokens=most, usd=None, source=f"job:{source}"
        )
        limit = Limit(name=f"{source}.tokens", of=source, same="source", tokens=limits[source])
        reserved = await ledger.spending.reserve(call, [Limit(name="day", tokens=0), limit] if force else [limit], force=force)
        assert (reserved.row is not None) == (spent[source] + most <= limits[source])
        if reserved.row is not None:
            await ledger.spending.settle_call(reserved.row, Spent(input=min(most, really)))
            spent[source] += min(most, really)
        assert all(spent[name] <= limits[name] for name in spent)
    await ledger.close()
