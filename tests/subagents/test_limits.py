"""A sub-agent has no tool, right, reader or money that the turn that asks lacks, and one that spawns for ever ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from agent.models.scripted import Stall
from gateway.ledger.spending_rows import Limit, NewCall, Spent
from tests.subagents.conftest import MAIN, Cast, results, settled, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.models.protocol import Request
    from tests.gateway.conftest import Street

    Make = Callable[..., Street]


def names(request: Request) -> set[str]:
    return {tool.name for tool in request.tools}


async def test_tools_are_those_of_the_asking_turn_or_fewer(street: Make) -> None:
    s, cast = street(tools={"deny": ["grep"]}), Cast()
    s.model.reply_with(cast.answer)
    cast.says(
        "main",
        [
            cast.spawn("⟨all⟩ Look."),
            cast.spawn("⟨few⟩ Look.", tools=["read", "spawn"]),
            cast.spawn("⟨x⟩ Look.", tools=["grep"]),
        ],
        "Started.",
    )
    cast.says("few", [cast.spawn("⟨below⟩ Look.")], "Waiting.", "Done.")
    async with s.house() as (house, talk):
        await talk.ask("go")
        await settled(house)
    assert "grep" not in names(cast.requests["all"][0])
    assert names(cast.requests["few"][0]) == {"read", "spawn"}
    assert names(cast.requests["below"][0]) == {"read"}, "it is as deep as may be, and has no more than the one above it"
    refused = results(cast.requests["main"][1])[-1]
    assert refused.is_error
    assert "cannot have grep" in refused.text


async def test_one_that_spawns_for_ever_ends_at_depth_and_number_and_says_so(street: Make) -> None:
    limits = {"maxChildren": 3, "maxPerRequest": 7, "maxSpawnDepth": 3}
    s, cast = street(agent={"subagents": limits}), Cast()
    s.model.reply_with(cast.answer)
    told: list[str] = []

    def for_ever(request: Request) -> Any:
        found = results(request)
        told.extend(one.text for one in found if one.is_error)
        if any(one.is_error for one in found) or "spawn" not in names(request):
            return "Enough."
        return [cast.spawn("More."), cast.spawn("And more.")]

    cast.always("main", for_ever)
    cast.always("sub", for_ever)
    async with s.house() as (house, talk):
        await talk.ask("go on for ever")
        await settled(house)
        everyone = await house.ledger.subagents.all(ended_since=s.clock.now().replace(year=2000))
        assert len(everyone) == 7
        assert max(one.depth for one in everyone) <= 3
        assert {one.request for one in everyone} == {everyone[0].request}, "what results lead to counts with the rest"
    assert any("7 sub-agents came of this request already" in one for one in told)
    assert any("3 sub-agents of this conversation work already" in one for one in told)


async def test_a_model_that_asks_for_depth_is_told(street: Make) -> None:
    s, cast = street(agent={"subagents": {"maxSpawnDepth": 1}}), Cast()
    s.model.reply_with(cast.answer)
    cast.says("main", [cast.spawn("⟨one⟩ Look.")], "Started.", "Done.")
    cast.says("one", [cast.spawn("⟨two⟩ Look.")], "I could not.")
    async with s.house() as (house, talk):
        await talk.ask("go")
        await settled(house)
    assert "two" not in cast.requests
    assert results(cast.requests["one"][1])[0].is_error


@pytest.mark.parametrize("allowed", [[], ["work"]])
async def test_another_agent_only_where_the_settings_allow_it(street: Make, allowed: list[str]) -> None:
    s, cast = street(), Cast()
    given = s.settings.model_dump(by_alias=True, exclude_unset=True)
    given["agents"]["list"] = [
        {"id": "main", "subagents": {"allowAgents": allowed}},
        {"id": "work", "tools": {"deny": ["read"]}, "workspace": str(s.root / "work")},
    ]
    s.settings = type(s.settings).model_validate(given)
    s.model.reply_with(cast.answer)
    send = cast.call("sessions", action="send", session="work", text="⟨also⟩ Look.")
    cast.says("main", [cast.spawn("⟨there⟩ Look.", agent="work"), send], "Ok.")
    async with s.house() as (house, talk):
        await talk.ask("go")
        await settled(house)
    outcomes = results(cast.requests["main"][1])
    if allowed:
        assert [one.text for one in outcomes if one.is_error] == []
        assert "read" not in names(cast.requests["there"][0])
        assert "also" in cast.requests
    else:
        assert all("may not start sub-agents as 'work'" in one.text for one in outcomes)
        assert cast.requests.keys() == {"main"}


async def test_money_of_one_counts_what_is_below_it_and_of_a_session_what_came_of_it(street: Make) -> None:
    s, cast = street(), Cast()
    s.model.reply_with(cast.answer)
    cast.says("main", [cast.spawn("⟨a⟩ Look.", usd=0.5)], "Started.")
    cast.says("a", [cast.spawn("⟨b⟩ Look.", usd=2)], "Waiting.", "Done.")
    async with s.house() as (house, talk):
        await talk.ask("go")
        await settled(house)
        below = await house.ledger.subagents.below(MAIN)
        assert [one.usd for one in below] == [0.5, 1.0], "the settings' limit holds where more is asked for"
        day = f"{s.clock.now():%Y-%m-%d}"

        async def spend(session: str, usd: float) -> str:
            call = NewCall(day=day, agent="main", session=session, model="m", background=False, tokens=1, usd=usd)
            limits = [Limit(name="budgets.session.usd", same="session", usd=3.0)]
            reserved = await house.ledger.spending.reserve(call, limits)
            if reserved.row is not None:
                await house.ledger.spending.settle_call(reserved.row, Spent(cost=usd))
            return reserved.broken.of or reserved.broken.name if reserved.broken else ""

        assert await spend(below[1].session, 0.4) == ""
        assert await spend(below[0].session, 0.2) == "the sub-agent “⟨a⟩ Look.”", "what is below it counts"
        assert await spend(below[1].session, 0.2) == "the sub-agent “⟨a⟩ Look.”", "and may not spend more than it"
        assert await spend(MAIN, 2.5) == ""
        assert await spend(MAIN, 0.2) == "budgets.session.usd", "a session pays for what came of it"


async def test_one_whose_money_is_spent_fails_and_says_so(street: Make) -> None:
    s, cast = street(), Cast()
    s.model.reply_with(cast.answer)
    spent = asyncio.Event()
    cast.says("main", [cast.spawn("⟨a⟩ Look.", usd=0.5)], "Started.", "It was too expensive.")
    cast.says("a", [Stall(until=spent), cast.call("list", path=".")])
    async with s.house() as (house, talk):
        await talk.ask("go")
        await until(lambda: "a" in cast.requests)
        (sub,) = await house.ledger.subagents.all()
        call = NewCall(
            day=f"{s.clock.now():%Y-%m-%d}", agent="main", session=sub.session, model="m", background=False, tokens=1, usd=0.6
        )
        assert (await house.ledger.spending.reserve(call, [], force=True)).row is None, "nothing forces it"
        reserved = await house.ledger.spending.reserve(replace(call, usd=0.5), [])
        assert reserved.row is not None
        await house.ledger.spending.settle_call(reserved.row, Spent(cost=0.6))
        spent.set()
        await talk.until(lambda: "It was too expensive." in talk.replies())
    assert len(cast.requests["a"]) == 1
    assert "failed" in cast.seen["main"][-1]
    assert "the daily budget of the sub-agent “⟨a⟩ Look.” ($0.50)" in cast.seen["main"][-1]


async def test_many_that_work_keep_nobody_waiting(street: Make) -> None:
    s, cast = street(agent={"maxConcurrent": 1, "subagents": {"maxConcurrent": 2, "maxChildren": 5}}), Cast()
    s.model.reply_with(cast.answer)
    cast.says("main", [cast.spawn(f"⟨n{n}⟩ Look.") for n in range(5)], "Started.", "Yes, I am here.")
    for n in range(5):
        cast.says(f"n{n}", [Stall()])
    async with s.house() as (house, talk):
        await talk.ask("go")
        await until(lambda: len(house.lanes.running()) == 2)
        assert (await talk.ask("are you there?"))["reply"] == "Yes, I am here."
        assert sum(f"n{n}" in cast.requests for n in range(5)) == 2
        await talk.ask("/stop all")
        await settled(house)
