"""Rules on tools come in layers, and no layer gives back what another took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent.tool_settings import GROUPS, PROFILES, GlobalToolsSettings, ToolRules, ToolsSettings
from agent.tools.policy import ToolPolicy, named
from gateway.settings.root import Settings
from gateway.tools.registry import ToolRegistry, tools_of

if TYPE_CHECKING:
    from tests.tools.house import House

NAMES = sorted({name for group in GROUPS.values() for name in group} | {"something_else"})
PATTERNS = st.lists(st.sampled_from([*NAMES, *GROUPS, "*", "memory_*", "GROUP:FS", "Read", "nothing"]), max_size=4).map(tuple)
RULES = st.builds(ToolRules, profile=st.sampled_from([None, *PROFILES]), allow=PATTERNS, deny=PATTERNS)
LAYERS = st.lists(
    RULES
    | st.builds(GlobalToolsSettings, allow=PATTERNS, by_provider=st.dictionaries(st.sampled_from(["a", "a/*", "b/x"]), RULES)),
    max_size=4,
).map(tuple)


def left(policy: ToolPolicy) -> set[str]:
    return {name for name in NAMES if policy.allows(name)}


@given(LAYERS, RULES, st.sampled_from(["a/x", "b/x", "c/y"]))
def test_no_layer_gives_back_what_another_took(layers: tuple[ToolRules, ...], further: ToolRules, model: str) -> None:
    policy = ToolPolicy(layers)
    assert left(policy.narrowed(further)) == left(policy) & left(ToolPolicy((further,)))
    assert left(policy.under(model)) <= left(policy)


@given(LAYERS)
def test_the_order_of_layers_does_not_matter(layers: tuple[ToolRules, ...]) -> None:
    assert left(ToolPolicy(layers)) == left(ToolPolicy(layers[::-1]))


def test_names_that_other_agents_have_for_a_tool_mean_ours():
    policy = ToolPolicy((ToolRules(deny=("sessions_spawn", "sessions_list")),))
    assert [name for name in ("spawn", "sessions", "message") if policy.allows(name)] == ["message"]


def test_denying_wins_and_groups_stand_for_their_tools() -> None:
    rules = ToolRules(allow=("group:fs", "memory_*"), deny=("write", "EDIT"))
    assert left(ToolPolicy((rules,))) == {"read", "list", "grep", "apply_patch", "memory_search", "memory_get"}
    assert left(ToolPolicy((ToolRules(profile="minimal"),))) == {"memory_search", "memory_get"}
    assert left(ToolPolicy((ToolRules(profile="full"),))) == set(NAMES)
    assert not named("read", ())


def test_a_provider_has_rules_of_its_own() -> None:
    house = GlobalToolsSettings(
        by_provider={"ollama": ToolRules(profile="minimal"), "openai/gpt-5*": ToolRules(deny=("write",))}
    )
    policy = ToolPolicy((house,))
    assert "write" in left(policy.under("anthropic/claude"))
    assert "write" in left(policy.under("openai/o3"))
    assert "write" not in left(policy.under("openai/gpt-5-mini"))
    assert left(policy.under("ollama/qwen")) == {"memory_search", "memory_get"}


def test_a_group_that_is_none_is_an_error() -> None:
    with pytest.raises(ValidationError, match="there is no 'group:files'; there is group:fs"):
        ToolRules(allow=("group:files",))


def test_an_agents_own_entry_narrows_what_the_defaults_and_the_house_leave() -> None:
    settings = Settings.model_validate(
        {
            "tools": {"deny": ["grep"]},
            "agents": {
                "defaults": {"tools": {"allow": ["group:fs"]}},
                "list": [{"id": "a", "tools": {"allow": ["*"]}}, {"id": "b", "tools": {"profile": "messaging"}}],
            },
        }
    )
    assert left(ToolPolicy(settings.agent("a").tools)) == {"read", "write", "edit", "list"}
    assert left(ToolPolicy(settings.agent("b").tools)) == {"read", "write"}


def test_apply_patch_waits_until_it_is_no_longer_denied() -> None:
    assert "apply_patch" not in left(ToolPolicy(Settings().agent("main").tools))
    opened = Settings.model_validate({"agents": {"defaults": {"tools": {"deny": []}}, "list": [{"id": "a", "tools": {}}]}})
    assert "apply_patch" in left(ToolPolicy(opened.agent("a").tools))
    assert ToolsSettings().deny == ("apply_patch",)


def test_the_same_rules_give_the_same_box_and_new_ones_leave_old_boxes_alone(house: House) -> None:
    rack = ToolRegistry([tool for tool in tools_of("main", _Place(house), None) if tool.spec.name in {"read", "write"}])
    before = rack.box("a/b")
    assert rack.box("c/d") is before
    rack.adopt([ToolRules(deny=("write",))])
    assert [spec.name for spec in rack.box().specs] == ["read"]
    assert [spec.name for spec in before.specs] == ["read", "write"]
    assert [spec.name for spec in rack.box("", ToolRules(allow=("write",))).specs] == []


class _Place:
    """As much of a workspace as tools need."""

    def __init__(self, house: House) -> None:
        self.sandbox = house.desk.sandbox
        self.untrusted = house.desk.untrusted
