"""``homebody tools`` says what is there, what it does, and which rule holds."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import gateway
from tests import programs

ROOT = Path(gateway.__file__).parents[1]


@pytest.fixture
def homebody(tmp_path: Path) -> Any:
    def run(*arguments: str, settings: str = "") -> tuple[int, str, str]:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True, mode=0o700)
        (home / "homebody.yaml").write_text(settings)
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HOMEBODY_HOME": str(home), "PYTHONPATH": str(ROOT)}
        ran = programs.run([sys.executable, "-m", "gateway", *arguments], env=env, capture_output=True, text=True, check=False)
        return ran.returncode, ran.stdout, ran.stderr

    return run


def test_each_tool_says_what_it_does_and_where_its_output_comes_from(homebody: Any):
    code, out, _ = homebody("tools", "list", "--json")
    facts = json.loads(out)
    assert code == 0
    tools = {one["name"]: one for one in facts["tools"]}
    assert {"read", "write", "grep", "memory_search"} <= set(tools)
    assert [name for name, one in tools.items() if one["output"] == "unknown"] == []
    assert all(one["tokens"] > 20 for one in tools.values())
    assert facts["tokens"] == sum(one["tokens"] for one in tools.values() if one["available"])
    assert tools["read"]["rule"] == "runs without a question"
    assert "you are asked" in tools["write"]["rule"]
    assert (tools["apply_patch"]["available"], tools["apply_patch"]["excludedBy"]) == (False, "agents.defaults.tools")


def test_it_names_the_setting_that_leaves_a_tool_out(homebody: Any):
    settings = "agents: {list: [{id: main, tools: {deny: [grep]}}, {id: work}]}\ntools: {deny: [list]}\n"
    code, out, _ = homebody("tools", "list", settings=settings)
    assert code == 0
    assert "grep: by agents.list[main].tools" in out
    assert "list: by tools" in out
    _, out, _ = homebody("tools", "list", "--agent", "work", "--json", settings=settings)
    assert {one["name"]: one["excludedBy"] for one in json.loads(out)["tools"]}["grep"] is None


def test_one_tool_is_shown_with_its_arguments(homebody: Any):
    code, out, _ = homebody("tools", "show", "grep")
    assert (code, "Arguments:" in out, '"pattern"' in out) == (0, True, True)
    code, _, err = homebody("tools", "show", "telepathy")
    assert code == 2
    assert "has no tool 'telepathy'" in err
    assert "grep" in err
    code, _, err = homebody("tools", "list", "--agent", "nobody")
    assert (code, "there is no agent 'nobody'" in err) == (2, True)


def test_the_owners_own_rules_are_told_with_the_tool(homebody: Any):
    settings = "approvals: {rules: [{decision: deny, tool: write, origin: group}]}\n"
    _, out, _ = homebody("tools", "list", "--json", settings=settings)
    assert "deny: write for group" in {one["name"]: one["rule"] for one in json.loads(out)["tools"]}["write"]
