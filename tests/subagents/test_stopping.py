"""/stop ends a conversation's sub-agents, /stop all everything; what was stopped is told once, and nothing outlives it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from agent.models.scripted import Stall
from gateway.subagents.tree_text import tree_text
from tests.full_disk import no_file_may_grow
from tests.patience import PATIENCE
from tests.subagents.conftest import MAIN, Cast, open_ones, settled, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Street

    Make = Callable[..., Street]


def stalled(cast: Cast) -> None:
    """The person's session starts two; one of them starts another; all three then wait for their models."""
    cast.says("main", [cast.spawn("⟨a⟩ Look.", label="ann"), cast.spawn("⟨b⟩ Look.", label="bob")], "Started.")
    cast.says("a", [cast.spawn("⟨c⟩ Look.", label="cid")], [Stall()])
    cast.says("b", [Stall()])
    cast.says("c", [Stall()])


async def three(house: Any, cast: Cast) -> None:
    await until(lambda: {"b", "c"} <= cast.requests.keys() and len(cast.requests.get("a", ())) == 2)


async def test_stop_ends_those_of_the_conversation_and_the_model_hears_of_it_with_the_next_message(street: Make) -> None:
    s, cast = street(), Cast()
    s.model.reply_with(cast.answer)
    stalled(cast)
    async with s.house() as (house, talk):
        await talk.ask("go")
        await three(house, cast)
        assert (await talk.ask("/stop"))["reply"] == "⏹️ Stopped, including 3 sub-agents."
        await settled(house)
        assert (await talk.ask("/stop"))["reply"] == "Nothing is running."
        assert talk.replies().count("Started.") == 1
        await talk.ask("and now?")
        told = cast.seen["main"][-1]
        assert told.count("was stopped by your owner") == 2, "the third is none of its own"
        everyone = await house.ledger.subagents.all(ended_since=s.clock.now().replace(year=2000))
        assert {one.state for one in everyone} == {"stopped"}
        assert len(cast.requests["main"]) == 3


async def test_the_bare_word_stops_them_where_only_they_work(street: Make) -> None:
    s, cast = street(), Cast()
    s.model.reply_with(cast.answer)
    stalled(cast)
    async with s.house() as (house, talk):
        await talk.ask("go")
        await three(house, cast)
        assert "3 sub-agents" in (await talk.ask("stop"))["reply"]
        await settled(house)
        await talk.ask("stop")
        assert cast.seen["main"][-1].endswith("stop"), "with nothing to stop it is a word like any other"


@pytest.mark.sec(75)
async def test_stop_all_from_another_conversation_ends_everything(street: Make) -> None:
    s, cast = street(), Cast()
    s.model.reply_with(cast.answer)
    stalled(cast)
    cast.says("main", [Stall()])
    async with s.house() as (house, talk):
        await talk.ask("go")
        await three(house, cast)
        waiting = await talk.send("one more thing")
        await until(lambda: len(cast.requests["main"]) == 3)
        told = (await talk.ask("/stop all", session="elsewhere"))["reply"]
        assert told == "⏹️ Stopped everything: 1 turn and 3 sub-agents."
        await talk.facts(waiting)
        await settled(house)
        assert await open_ones(house) == []
        assert (await talk.ask("/stop all"))["reply"] == "Nothing is running."


@pytest.mark.parametrize("command", ["/stop", "/stop all"])
async def test_on_a_full_disk_they_stop_at_once_and_that_is_told_rightly_when_there_is_room(street: Make, command: str) -> None:
    s, cast = street(), Cast()
    s.model.reply_with(cast.answer)
    stalled(cast)
    async with s.house() as (house, talk):
        await talk.ask("go")
        await three(house, cast)
        with no_file_may_grow():
            told = (
                await house.subagents.stopping.at_once(MAIN)
                if command == "/stop"
                else await house.subagents.stopping.everything()
            )
            await house.lanes.quiet()
            assert not await house.subagents.service.works_for(MAIN)
        assert "3 sub-agents" in told
        async with asyncio.timeout(PATIENCE):
            while await open_ones(house):
                s.clock.move(11)
                await asyncio.sleep(0.01)
        await talk.ask("and now?")
        everyone = await house.ledger.subagents.all(ended_since=s.clock.now().replace(year=2000))
        assert {one.state for one in everyone} == {"stopped"}
        await house.subagents.service.tick()
        await settled(house)
        assert cast.seen["main"][-1].count("was stopped by your owner") == 2
        assert not any("failed" in text for text in cast.seen["main"])
        assert len(cast.requests["main"]) == 3, "nothing answers on its own"


async def test_one_is_stopped_by_its_id_and_those_above_a_nested_one_are_told_at_once(street: Make) -> None:
    s, cast = street(), Cast()
    s.model.reply_with(cast.answer)
    cast.says("main", [cast.spawn("⟨a⟩ Look.", label="ann")], "Started.", "Ann is done.")
    cast.says("a", [cast.spawn("⟨c⟩ Look.", label="cid")], "I wait for Cid.", "Cid was stopped, so I did it myself.")
    cast.says("c", [Stall()])
    async with s.house() as (house, talk):
        await talk.ask("go")
        await until(lambda: "c" in cast.requests)
        while "“ann”: waits for the sub-agents below it" not in (tree := (await talk.ask("/agents"))["reply"]):
            pass  # her turn ends a moment after the other began
        assert "“cid”: works" in tree
        (cid,) = [one for one in await open_ones(house) if one.label == "cid"]
        assert (await talk.ask(f"/agents stop {cid.id}"))["reply"] == f"⏹️ Stopped the sub-agent {cid.id} “cid”."
        await settled(house)
        assert "was stopped before it had ended (stopped by its owner)" in cast.seen["a"][-1]
        assert "Cid was stopped, so I did it myself." in cast.seen["main"][-1]
        await talk.until(lambda: "Ann is done." in talk.replies())
        assert "No sub-agent nobody works now" in (await talk.ask("/agents stop nobody"))["reply"]
        working, _, ended = (await talk.ask("/agents tree"))["reply"].partition("Ended today:\n")
        assert "“ann”" not in working
        assert [line.partition("“")[2][:3] for line in ended.splitlines()] == ["ann", "cid"], "the newest first"
        assert "has ended" in ended


def test_those_that_have_ended_are_few_and_below_those_that_work() -> None:
    def one(name: str, ended: str | None) -> dict[str, Any]:
        facts = {"id": name, "label": name, "agent": "main", "session": f"s:{name}", "parent": MAIN, "reason": ""}
        return facts | {"state": "done" if ended else "running", "endedAt": ended, "age": 90, "tokens": 0, "usd": 0}

    session = {"key": MAIN, "agent": "main", "state": "running", "age": 5, "toolCalls": 0, "waiting": 0}
    over = [one(f"e{n}", f"2026-03-01T0{n}:00:00+00:00") for n in range(8)]
    lines = tree_text({"sessions": [session], "subagents": [*over, one("w", None)]}, {}).splitlines()
    assert [line.split()[1] for line in lines if line.lstrip().startswith("-")][1:] == ["w", "e7", "e6", "e5", "e4", "e3", "…"]
    assert lines[-1] == "- … and 3 more"
    assert tree_text({"sessions": [], "subagents": []}, {}) == "Nothing works now."
    assert tree_text({"sessions": [], "subagents": over[:1]}, {}).startswith("Nothing works now.\n\nEnded today:\n- e0 “e0”")


async def test_a_stop_before_a_crash_holds_after_it(street: Make) -> None:
    """The process dies between the stop and the end of the turns that it cancelled."""
    s, cast = street(), Cast()
    s.model.reply_with(cast.answer)
    stalled(cast)
    async with s.house() as (house, talk):
        await talk.ask("go")
        await three(house, cast)
        await house.ledger.subagents.stop("stopped by its owner")
    asked = {who: len(found) for who, found in cast.requests.items()}
    async with s.house() as (house, talk):
        await settled(house)
        assert {who: len(found) for who, found in cast.requests.items()} == asked, "none of them went on"
        assert await house.ledger.turns.unfinished() == []


async def test_those_that_work_go_on_after_a_restart_and_answer_once(street: Make) -> None:
    s, cast = street(), Cast()
    s.model.reply_with(cast.answer)
    stalled(cast)
    async with s.house() as (house, talk):
        await talk.ask("go")
        await three(house, cast)
    for who in "bc":
        cast.always(who, f"{who} is done.")
    cast.always("a", "a is done.")
    cast.always("main", lambda request: f"Heard: {request.messages[-1].text[-12:]}")
    async with s.house() as (house, talk):
        await settled(house)
        mine = [text for text in cast.seen["main"] if "from sub-agent" in text]
        assert len(mine) == 2
        assert sum("a is done." in text for text in mine) == 1
        assert sum("b is done." in text for text in mine) == 1
        assert MAIN in {one.parent for one in await house.ledger.subagents.all(ended_since=s.clock.now().replace(year=2000))}


async def test_sub_agents_are_listed_below_the_one_that_started_them(street: Make) -> None:
    s, cast = street(), Cast()
    s.model.reply_with(cast.answer)
    stalled(cast)
    cast.says("main", [cast.call("sessions", action="list")], "Listed.")
    async with s.house() as (house, talk):
        await talk.ask("go")
        await three(house, cast)
        await talk.ask("who works?")
        lines = cast.seen["main"][-1].splitlines()
        assert [line.partition("“")[2][:3] for line in lines] == ["ann", "cid", "bob"]
        assert lines[1].startswith("  - sub-agent ")
        await talk.ask("/stop all")
        await settled(house)


async def test_an_agent_that_is_removed_takes_its_sub_agents_with_it(street: Make) -> None:
    s, cast = street(), Cast()
    s.model.reply_with(cast.answer)
    stalled(cast)
    async with s.house() as (house, talk):
        await talk.ask("go")
        await three(house, cast)
        await house.subagents.service.stop_agent("main")
        await until(lambda: not house.lanes.running() or all(":sub:" not in one.session for one in house.lanes.running()))
        await settled(house)
        assert await open_ones(house) == []
