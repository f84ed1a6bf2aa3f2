"""Groups in a whole house: how agents are called there, what is kept of what is said to others, and several agents in one room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.tool_settings import ToolRules
from agent.tools.policy import ToolPolicy
from channels.messages import ChatAddress
from channels.platform import GroupRule, Policy
from gateway.base.clock import ManualClock
from gateway.base.errors import UsageError
from gateway.inbound.authorise import patterns_of
from gateway.routing.access import group_of, rules_of
from gateway.sessions.sessions_file import SessionRecord
from gateway.settings.root import Settings
from gateway.supervision.platforms import platforms
from tests.peers.wire import NOON
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
        rows = await house.ledger.inbox.latest(["answered"])
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


async def test_a_group_narrows_the_tools_and_a_private_chat_has_them_all(town: Make) -> None:
    quiet = GroupRule(users=("*",), tools=(ToolRules(allow=("group:memory", "read"), deny=("memory_get",)),))
    policy = Policy(allow_from=("anna",), rules={"*": {"g": quiet, "h": GroupRule(users=("*",))}})
    t = town()
    wire = t.wire()
    async with t.house(wire, policy=policy) as house:
        for group in ("g", "h", None):
            await wire.say("what can you do?", group=group, mentioned=True)
            await house.lanes.quiet()
        await wire.say("/new", group="g", mentioned=True)
        await wire.say("and now?", group="g", mentioned=True)
        await wire.until(lambda: len(wire.sent) == 5)
        await house.lanes.quiet()
    tools = [[tool.name for tool in request.tools] for request in t.model.requests]
    assert tools[0] == ["memory_search", "read"]
    assert {"write", "edit", "read"} <= set(tools[1])
    assert tools[1] == tools[2]
    assert tools[-1] == tools[0]


async def test_a_rule_of_a_server_holds_in_its_channels_and_not_in_another_server(town: Make) -> None:
    narrow = GroupRule(users=("*",), tools=(ToolRules(allow=("read",)),))
    policy = Policy(rules={"s1": {"*": narrow}, "s2": {"*": GroupRule(users=("*",))}})
    t = town()
    wire = t.wire()
    async with t.house(wire, policy=policy):
        await wire.say("hello", group="g1", space="s1", mentioned=True)
        await wire.until(lambda: len(wire.sent) == 1)
        await wire.say("hello", group="g2", space="s2", mentioned=True)
        await wire.until(lambda: len(wire.sent) == 2)
    assert [tool.name for tool in t.model.requests[0].tools] == ["read"]
    assert len(t.model.requests[1].tools) > 3


@pytest.mark.parametrize(
    ("channels", "place", "allowed"),
    [
        ({"telegram": {"botToken": "1:a", "groups": {"-100": {"tools": {"allow": ["read"]}}}}}, {"id": "-100"}, ("read",)),
        (
            {
                "telegram": {
                    "botToken": "1:a",
                    "groups": {"-100": {"tools": {"allow": ["read"]}, "topics": {"7": {"tools": {"deny": ["*"]}}}}},
                }
            },
            {"id": "-100", "thread": "7"},
            (),
        ),
        (
            {
                "discord": {
                    "token": "t",
                    "guilds": {
                        "800000000000000007": {
                            "tools": {"deny": ["write"]},
                            "channels": {"810000000000000001": {"tools": {"allow": ["read", "write"]}}},
                        }
                    },
                }
            },
            {"id": "810000000000000001", "space": "800000000000000007"},
            ("read",),
        ),
        (
            {"slack": {"botToken": "xoxb-1", "channels": {"C1HALL": {"tools": {"deny": ["group:fs"]}}}}},
            {"id": "C1HALL"},
            ("memory_get",),
        ),
    ],
)
def test_the_settings_of_each_platform_narrow_the_tools(
    channels: dict[str, Any], place: dict[str, str], allowed: tuple[str, ...]
) -> None:
    settings = Settings.model_validate({"channels": channels})
    ((channel, policy),) = platforms(settings, ManualClock(NOON), {})
    rule = policy.group(ChatAddress(channel=channel.name, kind="group", **place))
    assert rule is not None
    layers = ToolPolicy(rules_of(rule))
    assert tuple(name for name in ("read", "write", "memory_get") if layers.allows(name)) == allowed


def test_a_group_of_tools_that_is_not_there_is_told_with_its_place() -> None:
    groups = {"-100": {"tools": {"deny": ["group:shell"]}}}
    settings = Settings.model_validate({"channels": {"telegram": {"botToken": "1:a", "groups": groups}}})
    with pytest.raises(UsageError, match="group:shell") as told:
        list(platforms(settings, ManualClock(NOON), {}))
    assert "channels.telegram.groups" in str(told.value.where)


ADDRESS = st.builds(
    ChatAddress,
    channel=st.just("wire"),
    account=st.sampled_from(["default", "two"]),
    kind=st.just("group"),
    id=st.from_regex(r"[-@!a-z0-9:.]{1,12}", fullmatch=True).filter(
        lambda one: ":thread:" not in f"{one}:" and one != ":thread"
    ),
    thread=st.none() | st.from_regex(r"[a-z0-9.]{1,6}", fullmatch=True),
    space=st.none() | st.just("s1"),
)


@given(ADDRESS)
def test_a_session_knows_its_group(place: ChatAddress) -> None:
    record = SessionRecord(session="s", key="k", started=NOON, spoken=NOON, address=place.address, space=place.space or "")
    assert group_of(record) == place
    direct = replace(place, kind="direct")
    assert group_of(replace(record, address=direct.address)) is None
