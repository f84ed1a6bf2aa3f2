"""Real commands under the rules, in a whole house: what only looks runs, the rest is asked about, and "always" holds."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from agent.messages import ToolCall, ToolMessage, UserMessage
from tests.approvals.house import OWNER_AND_GUEST, Buttons, asked, value
from tests.queueing.conftest import Town, newest

if TYPE_CHECKING:
    from pathlib import Path

    from agent.models.protocol import Request

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="commands run without a question only where they are confined"
)


class Street(Town):
    """``run COMMAND`` in a message makes the model run it; the last line of the result is its answer."""

    def __init__(self, root: Path, settings: dict[str, Any] | None = None) -> None:
        super().__init__(root, settings or {})
        self.answer = self._answer
        self.workspace = root / "workspace"
        self.workspace.mkdir()
        self._calls = 0

    def wire(self) -> Buttons:
        self._lives += 1
        return Buttons(name="wire", account="default", first=1000 * self._lives)

    def _answer(self, request: Request) -> Any:
        last = request.messages[-1]
        if isinstance(last, ToolMessage) or (isinstance(last, UserMessage) and last.runtime):
            return "so: " + " / ".join(last.text.splitlines())
        wanted = newest(request)[-1].partition("run ")[2]
        if not wanted:
            return "Yes?"
        self._calls += 1
        return [ToolCall(id=f"c{self._calls}", name="exec", arguments={"command": wanted})]


async def said(wire: Buttons, text: str, **more: Any) -> str:
    """Say something and return the answer to it."""
    before = len(wire.said())
    await wire.say(text, **more)
    await wire.until(lambda: any(one.startswith("so: ") for one in wire.said()[before:]))
    return next(one for one in wire.said()[before:] if one.startswith("so: "))


async def test_what_only_looks_runs_and_the_rest_waits_for_a_yes(tmp_path: Path) -> None:
    street = Street(tmp_path)
    (street.workspace / "notes.md").write_text("milk\n")
    wire = street.wire()
    async with street.house(wire, policy=OWNER_AND_GUEST):
        assert (await said(wire, "run cat notes.md")).startswith("so: milk / [exit code 0")
        question = await asked(wire, "run mkdir made")
        assert "```\nmkdir made\n```" in question.text
        assert "Why I ask: no rule allows it without a question." in question.text
        assert not (street.workspace / "made").exists()
        answer = await said(wire, value(question, "once"), event="button")
        assert "the owner approved it" in answer
    assert (street.workspace / "made").is_dir()


async def test_always_holds_for_exactly_this_command_also_after_a_restart(tmp_path: Path) -> None:
    street = Street(tmp_path)
    wire = street.wire()
    async with street.house(wire, policy=OWNER_AND_GUEST):
        question = await asked(wire, "run touch made")
        assert "**Always**: from now on without a question: `touch made` in" in question.text
        await said(wire, value(question, "always"), event="button")
        assert (await said(wire, "run touch made")).startswith("so: ")
    (street.workspace / "made").unlink()
    wire = street.wire()
    async with street.house(wire, policy=OWNER_AND_GUEST):
        await said(wire, "run touch made")
        assert (street.workspace / "made").exists()
        assert "touch other" in (await asked(wire, "run touch other")).text
    assert not (street.workspace / "other").exists()


@pytest.mark.sec(26)
async def test_always_allows_nothing_that_changed_since_the_question(tmp_path: Path) -> None:
    street = Street(tmp_path)
    script = street.workspace / "s.py"
    script.write_text("print('shown')")
    wire = street.wire()
    async with street.house(wire, policy=OWNER_AND_GUEST):
        question = await asked(wire, "run python3 s.py")
        script.write_text("open('evil', 'w')")
        before = len(wire.said())
        await wire.say(value(question, "always"), event="button")
        await wire.until(lambda: any("changed after you were asked" in one for one in wire.said()[before:]))
        assert not any(one.startswith("✅") for one in wire.said())
    assert not (street.workspace / "evil").exists()


async def test_shell_syntax_is_asked_about_and_not_offered_for_good(tmp_path: Path) -> None:
    street = Street(tmp_path)
    wire = street.wire()
    async with street.house(wire, policy=OWNER_AND_GUEST):
        question = await asked(wire, "run ls; touch made")
        assert "it uses shell syntax" in question.text
        assert [one.value.rpartition(" ")[2] for one in question.buttons] == ["once", "deny"]
        assert "denied it" in await said(wire, value(question, "deny"), event="button")
    assert not (street.workspace / "made").exists()


async def test_nobody_else_has_commands_run(tmp_path: Path) -> None:
    street = Street(tmp_path)
    (street.workspace / "notes.md").write_text("milk\n")
    wire = street.wire()
    async with street.house(wire, policy=OWNER_AND_GUEST):
        answer = await said(wire, "run cat notes.md", group="family", by="ben", mentioned=True)
    assert "commands run only for the owner in a private chat" in answer
    assert "approvals.rules" in answer
    assert "milk" not in answer


async def test_a_rule_of_the_settings_denies_for_the_owner_too(tmp_path: Path) -> None:
    street = Street(tmp_path, {"approvals": {"rules": [{"decision": "deny", "command": "cat"}]}})
    wire = street.wire()
    async with street.house(wire, policy=OWNER_AND_GUEST):
        assert "a rule in approvals.rules says deny: cat" in await said(wire, "run ls && cat notes.md")
