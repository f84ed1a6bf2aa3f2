"""``homebody approvals``: with a gateway and without one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import gateway
from gateway.api.handlers.approval_requests import ApprovalHandlers
from gateway.base.clock import TickingClock
from gateway.base.errors import UsageError
from tests import programs
from tests.approvals.house import Farm, asked, open_questions

if TYPE_CHECKING:
    from gateway.app.gateway import Gateway

ROOT = Path(gateway.__file__).parents[1]


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    made = Farm(tmp_path)
    made.clock = TickingClock(datetime.now(UTC))  # the command line goes by the time of the machine
    return made


async def homebody(home: Path, *arguments: str) -> tuple[int, str, str]:
    env = {"PATH": os.environ["PATH"], "HOME": f"{home}-person", "HOMEBODY_HOME": str(home), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "gateway", "approvals", *arguments]
    ran = await asyncio.to_thread(programs.run, command, env=env, capture_output=True, text=True)
    return ran.returncode, ran.stdout, ran.stderr


def calls_of(house: Gateway) -> dict[str, Any]:
    return ApprovalHandlers(
        house.ledger, house.approvals.decisions, settings=lambda: house.settings.current, stored=house.rules.stored
    ).calls()


def home_of(farm: Farm) -> Path:
    return farm.root / "home"


async def test_a_question_is_listed_shown_and_approved_in_a_running_gateway(farm: Farm) -> None:
    wire = farm.wire()
    async with farm.house(wire) as house:
        await asked(wire, "plough field")
        calls = calls_of(house)
        (one,) = (await calls["approvals.list"]())["approvals"]
        assert (one["state"], one["agent"], one["command"], one["origin"]) == ("pending", "main", "field", "owner")
        shown = await calls["approvals.show"](name=f"#{one['name'].upper()}")
        assert (shown["argv"], shown["network"], shown["taint"]) == (["field"], False, [])
        decided = await calls["approvals.decide"](name=one["name"], choice="once")
        assert decided["told"].startswith(f"✅ Approved #{one['name']}")
        await wire.until(lambda: any(text.startswith("so: ") for text in wire.said()))
        assert (await calls["approvals.list"]())["approvals"] == []
        (over,) = (await calls["approvals.list"](everything=True))["approvals"]
        assert over["state"] == "approved"
        again = await calls["approvals.decide"](name=one["name"], choice="deny")
        assert "was approved already" in again["told"]
        with pytest.raises(UsageError, match="there is no question"):
            await calls["approvals.show"](name="nosuch")
        with pytest.raises(UsageError, match="no decision"):
            await calls["approvals.decide"](name=one["name"], choice="maybe")
    assert farm.tool.done == ["field"]


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_what_is_decided_without_a_gateway_holds_when_one_starts(farm: Farm, decision: str) -> None:
    first, second = farm.wire(), farm.wire()
    async with farm.house(first) as house:
        await asked(first, "plough field")
        (question,) = await open_questions(house)
    home = home_of(farm)
    code, out, err = await homebody(home, "list")
    assert (code, question.id in out, "run `field`" in out) == (0, True, True), err
    code, out, _ = await homebody(home, "show", question.id)
    assert (code, "State: pending" in out, "Words: [field]" in out) == (0, True, True)
    code, out, err = await homebody(home, decision, question.id, "--json")
    assert (code, json.loads(out)["approval"]["state"]) == (0, {"approve": "approved", "deny": "denied"}[decision]), err
    async with farm.house(second):
        await second.until(lambda: any(text.startswith("so: ") for text in second.said()))
    assert farm.tool.done == (["field"] if decision == "approve" else [])


async def test_an_unknown_question_names_the_command_that_lists_them(tmp_path: Path) -> None:
    code, out, _ = await homebody(tmp_path, "list")
    assert (code, out.strip()) == (0, "No question is open.")
    code, _, err = await homebody(tmp_path, "approve", "nosuch")
    assert (code, "homebody approvals list" in err) == (2, True)


async def test_rules_are_listed_forgotten_and_restored(tmp_path: Path) -> None:
    rule = "{decision: allow, command: git fetch *, network: true}"
    (tmp_path / "homebody.yaml").write_text(f"approvals: {{rules: [{rule}, {{decision: deny, command: rm}}]}}\n")
    (tmp_path / "state").mkdir(mode=0o700)
    stored = {
        "agent": "main",
        "program": "/usr/bin/git",
        "argv": ["git", "push"],
        "cwd": "/home/a\x1b[2J",
        "network": True,
        "files": {},
        "made": "2026-03-01T12:00:00Z",
    }
    (tmp_path / "state/approvals.json").write_text(json.dumps({"version": 1, "rules": [stored], "off": []}))
    code, out, err = await homebody(tmp_path, "rules")
    assert code == 0, err
    assert "allow git fetch *  (agent *; for owner; with the network)" in out
    assert "deny  rm  (agent *; for any)" in out
    assert "git push  (agent main, in /home/a" in out
    assert "\x1b" not in out
    assert " grep," in out
    _, out, _ = await homebody(tmp_path, "rules", "--json")
    facts = json.loads(out)
    assert {"id": "builtin:grep", "on": True, "commands": "grep with options that only look", "ofOptions": True} in facts[
        "builtIn"
    ]
    (made,) = facts["stored"]
    code, out, _ = await homebody(tmp_path, "forget", made["id"])
    assert (code, made["id"] in out) == (0, True)
    code, out, _ = await homebody(tmp_path, "forget", "builtin:grep")
    assert (code, "homebody approvals restore builtin:grep" in out) == (0, True)
    _, out, _ = await homebody(tmp_path, "rules")
    assert "Switched off: builtin:grep" in out
    assert "git push" not in out
    code, _, _ = await homebody(tmp_path, "restore", "builtin:grep")
    assert code == 0
    for wrong in (["forget", made["id"]], ["forget", "builtin:nosuch"], ["restore", "grep2"]):
        code, _, err = await homebody(tmp_path, *wrong)
        assert (code, "homebody approvals rules" in err) == (2, True)


async def test_a_damaged_file_of_rules_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state/approvals.json").write_text("{")
    code, out, _ = await homebody(tmp_path, "rules")
    assert (code, "nothing is allowed without a question" in out) == (0, True)
    code, _, err = await homebody(tmp_path, "forget", "builtin:ls")
    assert (code, "approvals.json" in err) == (6, True)


async def test_a_program_that_safe_bins_name_in_vain_is_told(tmp_path: Path) -> None:
    (tmp_path / "homebody.yaml").write_text("tools: {exec: {safeBins: [jq, ffmpeg]}}\n")
    code, out, err = await homebody(tmp_path, "rules")
    assert code == 0, err
    assert "tools.exec.safeBins names what is not known here: ffmpeg" in out
    assert "  jq\n" in out
