"""Groups in a whole house: how agents are called there, what is kept of what is said to others, and several agents in one room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.mentions import patterns_of
from tests.queueing.conftest import newest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.models.protocol import Request
    from tests.queueing.conftest import Town

    Make = Callable[..., Town]


async def test_a_pattern_calls_the_agent_as_a_mention_does(town: Make) -> None:
    t = town(messages={"groupChat": {"mentionPatterns": [r"\bhb\b"]}})
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("the fence is green", "HB, what colour is it?", "thank you all", group="g")
        await wire.until(lambda: wire.sent)
        await house.lanes.quiet()
    assert wire.said() == ["re: HB, what colour is it?"]
    assert "the fence is green" in t.model.requests[0].messages[-1].text
    assert len(t.model.requests) == 1


@pytest.mark.parametrize(("limit", "kept"), [(0, []), (2, ["three", "four"]), (20, ["one", "two", "three", "four"])])
async def test_as_much_is_kept_of_what_was_said_as_the_settings_say(town: Make, limit: int, kept: list[str]) -> None:
    t = town(messages={"groupChat": {"historyLimit": limit}})
    wire = t.wire()
    async with t.house(wire):
        await wire.say("one", "two", "three", "four", group="g")
        await wire.say("and?", group="g", mentioned=True)
        await wire.until(lambda: wire.sent)
    asked = t.model.requests[0].messages[-1].text
    assert [word for word in ("one", "two", "three", "four") if f"Anna: {word}" in asked] == kept


def test_an_agent_is_called_by_its_own_patterns_or_those_of_all_or_its_name(town: Make) -> None:
    def settings(**more: Any) -> Any:
        entries = [
            {"id": "main"},
            {"id": "work", "name": "Wanda"},
            {"id": "own", "name": "Otto", "groupChat": {"mentionPatterns": ["otti"]}},
            {"id": "deaf", "name": "Dora", "groupChat": {"mentionPatterns": []}},
        ]
        return town(agents={"list": entries}, **more).settings

    named, shared = settings(), settings(messages={"groupChat": {"mentionPatterns": ["all of you"]}})
    assert [len(patterns_of(named, agent)) for agent in ("main", "work", "own", "deaf")] == [0, 1, 1, 0]
    assert [patterns_of(shared, agent) for agent in ("main", "own", "deaf")] == [("all of you",), ("otti",), ()]


def two_agents(root: Path, **more: Any) -> dict[str, Any]:
    agents = [
        {"id": "main", "name": "Mia", "workspace": str(root / "mia")},
        {"id": "work", "name": "Wanda", "workspace": str(root / "wanda")},
    ]
    return {"agents": {"list": agents}, **more}


async def test_several_agents_answer_one_message_each_in_its_own_session(town: Make, tmp_path: Path) -> None:
    t = town(**two_agents(tmp_path, broadcast={"wire:g": ["main", "work"]}))
    wire = t.wire()
    async with t.house(wire) as house:
        message = wire.message("hello both", group="g", mentioned=True)
        await wire.deliver(message)
        await wire.deliver(message)
        await wire.until(lambda: len(wire.sent) == 2)
        await wire.say("only in private")
        await wire.until(lambda: len(wire.sent) == 3)
        await house.lanes.quiet()
        sessions = [agent.store.all() for agent in house.agents.values()]
        rows = await house.ledger.inbox(["answered"])
    assert sorted(wire.said("g")) == ["**Mia:** re: hello both", "**Wanda:** re: hello both"]
    assert wire.said("anna") == ["re: only in private"]
    assert [{record.key for record in records} for records in sessions] == [
        {"agent:main:main", "agent:main:wire:group:g"},
        {"agent:work:wire:group:g"},
    ]
    assert len(rows) == 3


async def test_a_command_in_such_a_room_is_for_each_agent_once(town: Make, tmp_path: Path) -> None:
    t = town(**two_agents(tmp_path, broadcast={"wire:g": ["main", "work"]}))
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("/status", group="g", mentioned=True)
        await wire.until(lambda: len(wire.sent) == 2)
        await house.lanes.quiet()
    assert sorted(text.partition(" ")[0] for text in wire.said("g")) == ["**Mia**", "**Wanda**"]


async def test_what_several_agents_were_asked_is_answered_by_each_after_a_restart(town: Make, tmp_path: Path) -> None:
    t = town(**two_agents(tmp_path, broadcast={"wire:g": ["main", "work"]}))
    wire = t.wire()
    async with t.house(wire) as house:
        await house.lanes.drain(0)
        await wire.say("hello both", group="g", mentioned=True)
    t.answer = lambda request: "re: " + " | ".join(newest(request))
    again = t.wire()
    async with t.house(again):
        await again.until(lambda: len(again.sent) == 2)
    assert sorted(again.said("g")) == ["**Mia:** re: hello both", "**Wanda:** re: hello both"]


async def test_any_of_several_agents_is_called_by_its_name(town: Make, tmp_path: Path) -> None:
    t = town(
        **two_agents(
            tmp_path, bindings=[{"agentId": "work", "match": {"channel": "wire", "peer": {"kind": "group", "id": "g"}}}]
        )
    )
    wire = t.wire()
    seen: list[str] = []

    def answer(request: Request) -> str:
        seen.append(newest(request)[-1])
        return "yes"

    t.answer = answer
    async with t.house(wire) as house:
        await wire.say("Mia, are you there?", "wanda: are you?", group="g")
        await wire.until(lambda: wire.sent)
        await house.lanes.quiet()
    assert seen == ["wanda: are you?"], "the agent of another conversation is not called here"
