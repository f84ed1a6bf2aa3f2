"""Tools that are found instead of told: the search, calls through ``mcp_call``, and the prompt that stays the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from agent.messages import ToolCall
from agent.models.protocol import ToolSpec
from agent.tool_settings import ToolRules
from agent.tools.protocol import Act, Outcome, ToolContext
from agent.tools.provider import FixedTools
from agent.tools.tool_search import ToolSearch
from agent.tools.toolbox import Toolbox
from gateway.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from collections.abc import Mapping

SCENE = ToolContext(now=datetime(2026, 3, 1, tzinfo=UTC), session="s", turn="t")


class Named:
    """A tool of another program."""

    effect = "effect"
    output, needs, private = "somewhere", (), True

    def __init__(self, name: str, description: str = "") -> None:
        self.spec = ToolSpec(name=name, description=description, parameters={"type": "object", "properties": {"path": {}}})

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        del context
        return Act(kind="call", summary=f"use {self.spec.name}", details=str(dict(arguments)))

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> Outcome:
        del context
        return Outcome(text=f"{self.spec.name} {dict(arguments)}", sources=("mcp:x",))


class Many(FixedTools):
    """A provider that is searched."""

    def deferred(self) -> frozenset[str]:
        return frozenset(tool.spec.name for tool in self.tools())


TOOLS = [
    Named("mcp_files_read_text_file", "Read the contents of a file as text."),
    Named("mcp_files_write_file", "Create a new file, or overwrite an existing one."),
    Named("mcp_git_log", "Show commits of a repository."),
    Named("mcp_home_setLights", "Switch lamps on and off."),
]


def test_the_search_finds_by_words_of_name_and_description() -> None:
    search = ToolSearch(TOOLS)
    assert search.ranked("read a file")[0].spec.name == "mcp_files_read_text_file"
    assert search.ranked("which commit changed it? git")[0].spec.name == "mcp_git_log"
    assert search.ranked("turn the LIGHT off")[0].spec.name == "mcp_home_setLights"
    assert search.ranked("xyzzy") == []


@given(st.permutations(TOOLS), st.text(max_size=60))
def test_what_is_found_does_not_depend_on_the_order(tools: list[Named], query: str) -> None:
    assert [one.spec for one in ToolSearch(tools).ranked(query)] == [one.spec for one in ToolSearch(TOOLS).ranked(query)]
    assert ToolSearch(tools).spec == ToolSearch(TOOLS).spec


async def test_deferred_tools_are_not_told_of_but_can_be_called_both_ways() -> None:
    box = Toolbox(TOOLS, deferred=[tool.spec.name for tool in TOOLS])
    assert [spec.name for spec in box.specs] == ["mcp_call", "tool_search"]
    found = await box.run(ToolCall(id="1", name="tool_search", arguments={"query": "git"}), SCENE)
    assert '"name": "mcp_git_log"' in found.text
    call = ToolCall(id="2", name="mcp_call", arguments={"name": "mcp_git_log", "arguments": {"path": "."}})
    answer = await box.run(call, SCENE)
    assert "mcp_git_log {'path': '.'}" in answer.text
    assert answer.taint == ("mcp:x",)
    assert "mcp_git_log {}" in (await box.run(ToolCall(id="3", name="mcp_git_log", arguments={}), SCENE)).text
    act = box.act_of(call, SCENE)
    assert act is not None
    assert (act.tool, act.details) == ("mcp_git_log", "{'path': '.'}")
    unknown = await box.run(ToolCall(id="4", name="mcp_call", arguments={"name": "exec"}), SCENE)
    assert unknown.is_error


def test_rules_hold_for_what_is_found_and_others_than_the_owner_find_nothing() -> None:
    rack = ToolRegistry([Named("own")], providers=[Many("mcp:x", TOOLS)])
    assert "mcp_git_log" in rack.box().names
    assert "mcp_git_log" not in rack.box("", ToolRules(deny=("mcp_git_*",))).names
    assert [spec.name for spec in rack.box("", ToolRules(deny=("mcp_call",))).specs] == ["own"]
    assert [spec.name for spec in rack.box("", ToolRules(deny=("group:mcp",))).specs] == ["own"]
    assert rack.box(private=False).names == ()


def test_a_box_is_the_same_until_a_provider_changes() -> None:
    class Changing(FixedTools):
        number = 0

        @property
        def version(self) -> object:
            return self.number

    provider = Changing("x", [Named("mcp_x_a")])
    rack = ToolRegistry([], providers=[provider, FixedTools("y", [Named("mcp_x_a", "another"), Named("mcp_y_b")])])
    before = rack.box("a/b")
    assert rack.box("a/b") is before
    assert [(one.tool.spec.name, one.provider) for one in rack.offered.values()] == [("mcp_x_a", "x"), ("mcp_y_b", "y")]
    provider.number = 1
    assert rack.box("a/b") is not before
    assert rack.box("a/b").specs == before.specs
