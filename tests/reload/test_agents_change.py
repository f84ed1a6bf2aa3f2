"""Agents that come, go and change while the house runs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent.events import TextDelta
from agent.models.scripted import Stall
from gateway.base.clock import SystemClock
from tests.reload.place import Place, ask, homebody, listening, until

WORK = {"id": "work", "name": "Wanda", "model": "scripted/two", "workspace": "WORK"}


def agents(place: Place, *entries: dict[str, Any], **more: Any) -> None:
    """Write settings with these agents."""
    listed = [
        entry | {"workspace": str(place.root / entry["workspace"])} if "workspace" in entry else entry for entry in entries
    ]
    place.write({"agents": {"list": listed}, **more})


MAIN = {"id": "main"}


@pytest.fixture
def place(place: Place) -> Place:
    """A house in which messages are answered one by one."""
    place.base["messages"] = {"queue": {"mode": "followup"}}
    place.write({})
    return place


async def test_an_agent_that_is_added_answers_without_a_restart(place: Place) -> None:
    async with place.open() as house:
        assert "there is no agent 'work'" in await ask(house, "too early", agent="work")
        agents(place, MAIN, WORK)
        came = await house.reload.now()
        assert (came["taken"], came["waiting"]) == (["agents.list"], [])
        assert await ask(house, "hello", agent="work") == "scripted/two"
        assert await ask(house, "hello you") == "scripted/one"
        assert (place.root / "WORK" / "AGENTS.md").is_file()
        place.file.write_text(place.file.read_text() + "bindings: [{agentId: work, match: {channel: terminal}}]\n")
        await house.reload.now()
        assert await ask(house, "and by a rule") == "scripted/two"
    assert {agent.id for agent in house.agents.values()} == {"main", "work"}


async def test_an_agent_that_is_taken_out_answers_what_waits_and_then_goes_and_its_files_stay(place: Place) -> None:
    gate = asyncio.Event()
    place.models["scripted/two"].reply_with(lambda _: [Stall(gate), TextDelta("in the end")])
    agents(place, MAIN, WORK)
    async with place.open() as house:
        running = asyncio.ensure_future(ask(house, "first", agent="work"))
        await until(lambda: bool(place.models["scripted/two"].requests))
        waiting = asyncio.ensure_future(ask(house, "second", agent="work"))
        await until(lambda: house.lanes.queued("agent:work:main") == 1)
        agents(place, MAIN)
        assert (await house.reload.now())["taken"] == ["agents.list"]
        assert "there is no agent 'work'" in await ask(house, "too late", agent="work")
        assert "work" in house.agents
        gate.set()
        assert await running == "in the end"
        assert "in the end" in await waiting
        await house.agent_supervisor.settled()
        assert set(house.agents) == {"main"}
        assert await ask(house, "still there?") == "scripted/one"
    assert (place.root / "WORK" / "AGENTS.md").is_file()
    assert list((place.paths.sessions("work")).glob("*.jsonl"))


async def test_an_agent_that_is_taken_out_and_put_back_before_it_went_has_never_been_away(place: Place) -> None:
    gate = asyncio.Event()
    place.models["scripted/two"].reply_with(lambda _: [Stall(gate), TextDelta("here")])
    agents(place, MAIN, WORK)
    async with place.open() as house:
        running = asyncio.ensure_future(ask(house, "first", agent="work"))
        await until(lambda: bool(place.models["scripted/two"].requests))
        before = house.agents["work"]
        agents(place, MAIN)
        await house.reload.now()
        agents(place, MAIN, WORK)
        await house.reload.now()
        gate.set()
        assert await running == "here"
        await house.agent_supervisor.settled()
        assert house.agents["work"] is before
        assert await ask(house, "again", agent="work") == "here"


async def test_an_agent_moves_between_two_turns_and_goes_on_with_its_conversation(place: Place) -> None:
    gate = asyncio.Event()
    place.models["scripted/two"].reply_with(lambda _: [Stall(gate), TextDelta("done")])
    agents(place, MAIN, WORK)
    async with place.open() as house:
        running = asyncio.ensure_future(ask(house, "first", agent="work"))
        await until(lambda: bool(place.models["scripted/two"].requests))
        agents(place, MAIN, WORK | {"workspace": "NEW", "tools": {"profile": "minimal"}})
        came = await house.reload.now()
        assert came["taken"] == ["agents.list[1].workspace", "agents.list[1].tools.profile"]
        assert house.agents["work"].workspace.root == place.root / "WORK", "the turn keeps what it began with"
        waiting = asyncio.ensure_future(ask(house, "second", agent="work"))
        await until(lambda: house.lanes.queued("agent:work:main") == 1)
        gate.set()
        assert await running == "done"
        assert await waiting == "done"
        assert house.agents["work"].workspace.root == place.root / "NEW"
        assert (place.root / "NEW" / "AGENTS.md").is_file()
    last = place.models["scripted/two"].requests[-1]
    assert [tool.name for tool in last.tools] == ["memory_get", "memory_search"]
    assert "first" in last.messages[0].text, "the same conversation"


async def test_other_agents_work_while_one_is_made_anew_however_many_messages_wait_for_it(place: Place) -> None:
    gate = asyncio.Event()
    place.models["scripted/two"].reply_with(lambda _: [Stall(gate), TextDelta("done")])
    agents(place, MAIN, WORK)
    place.base["agents"]["defaults"]["maxConcurrent"] = 2
    agents(place, MAIN, WORK)
    async with place.open() as house:
        running = asyncio.ensure_future(ask(house, "first", agent="work"))
        await until(lambda: bool(place.models["scripted/two"].requests))
        agents(place, MAIN, WORK | {"workspace": "NEW"})
        await house.reload.now()
        others = [asyncio.ensure_future(ask(house, f"n {n}", agent="work", session=f"s{n}")) for n in range(4)]
        await until(lambda: all(house.lanes.queued(f"agent:work:s{n}") == 1 for n in range(4)))
        assert await ask(house, "hello") == "scripted/one"
        gate.set()
        assert await asyncio.gather(running, *others) == ["done"] * 5
    assert house.agents["work"].workspace.root == place.root / "NEW"


async def test_an_agent_whose_folder_cannot_be_made_is_a_complaint_and_changes_nothing(place: Place) -> None:
    (place.root / "a file").write_text("")
    async with place.open() as house:
        said = listening(house)
        agents(place, MAIN, WORK | {"workspace": "a file"}, budgets={"day": {"usd": 1}})
        assert "a file" in (await house.reload.now())["complaint"]
        assert (set(house.agents), house.settings.current.budgets.day.usd) == ({"main"}, 5)
        agents(place, MAIN | {"workspace": "a file"})
        await house.reload.now()
        await house.agent_supervisor.settled()
        assert house.agents["main"].workspace.root == place.root / "work"
        assert "The agent main stays as it was" in said[-1]
        assert await ask(house, "hello") == "scripted/one"


async def test_the_house_closes_in_order_while_an_agent_is_to_change(place: Place) -> None:
    gate = asyncio.Event()
    place.models["scripted/two"].reply_with(lambda _: [Stall(gate), TextDelta("done")])
    agents(place, MAIN, WORK)
    async with place.open() as house:
        running = asyncio.ensure_future(ask(house, "first", agent="work"))
        await until(lambda: bool(place.models["scripted/two"].requests))
        agents(place, MAIN, WORK | {"workspace": "NEW"})
        await house.reload.now()
        gate.set()
        assert await running == "done"
    assert not house.agent_supervisor.changing


async def test_a_message_that_waited_for_an_agent_which_is_gone_is_answered_by_another(place: Place) -> None:
    agents(place, MAIN, WORK, bindings=[{"agentId": "work", "match": {"channel": "terminal"}}])
    async with place.open() as house:
        house.lanes.pause()
        link = house.terminal.attach("early")
        await link.say("is anybody there?", key="k")
        await until(lambda: house.lanes.queued("agent:work:main") == 1)
        await link.close()
    agents(place, MAIN)
    async with place.open() as house:
        await until(lambda: bool(place.models["scripted/one"].requests))
        await house.lanes.quiet()
        assert (await house.ledger.tally()).waiting == 0
    assert not place.models["scripted/two"].requests


async def test_the_command_says_what_the_running_gateway_made_of_it(place: Place) -> None:
    async with place.open(serving=True, clock=SystemClock()) as house:
        told = await homebody(place, "agents", "add", "work", "--model", "scripted/two", "--workspace", str(place.root / "W"))
        assert "Applied in the running gateway: agents.list." in told
        assert await ask(house, "hello", agent="work") == "scripted/two"
        told = json.loads(await homebody(place, "agents", "remove", "work", "--json"))
        assert told["gateway"]["taken"] == ["agents.list"]
        await house.agent_supervisor.settled()
        assert set(house.agents) == {"main"}
