"""The owner is asked about a change of a lasting file with what would be written, and the yes holds for exactly that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from agent.messages import ToolCall, UserMessage
from agent.tools.protocol import Act
from gateway.approvals.fingerprint import fingerprint
from gateway.approvals.record import AskedAct
from tests.approvals.house import Buttons, asked, question, value
from tests.approvals.test_commands import homebody
from tests.queueing.conftest import Town

if TYPE_CHECKING:
    from pathlib import Path

    from agent.models.protocol import Request

CALLS: dict[str, dict[str, Any]] = {
    "edit": {"path": "TOOLS.md", "old": "two", "new": "2\u202e"},
    "write": {"path": "TOOLS.md", "content": "one\n2\u202e\n", "mode": "overwrite"},
    "apply_patch": {"patch": "*** Begin Patch\n*** Update File: TOOLS.md\n@@\n-two\n+2\u202e\n*** End Patch"},
}
SHOWN = "```\n--- TOOLS.md\n+++ TOOLS.md\n@@ -1,2 +1,2 @@\n one\n-two\n+2⟨U+202E⟩\n```"
KEY = "sk-ant-api03-Zq8vT1mXw0bNcR5yKdLs7Hf2"


class Office(Town):
    """A model that reads TOOLS.md and then changes it with one tool when it is told to; the message holds text from outside."""

    def __init__(self, root: Path, tool: str, arguments: dict[str, Any]) -> None:
        super().__init__(root, {"agents": {"defaults": {"tools": {"deny": []}}}})
        self.file = root / "workspace" / "TOOLS.md"
        self.file.parent.mkdir(parents=True)
        self.file.write_text("one\ntwo\n")
        self.answer = lambda request: self._next(request, ToolCall(id="c2", name=tool, arguments=arguments))

    def wire(self, name: str = "wire", account: str = "default") -> Buttons:
        self._lives += 1
        return Buttons(name=name, account=account, first=1000 * self._lives)

    def _next(self, request: Request, change: ToolCall) -> Any:
        last = request.messages[-1]
        if isinstance(last, UserMessage) and last.runtime:
            return f"so: {last.text.splitlines()[0]}"
        if isinstance(last, UserMessage):
            return [ToolCall(id="c1", name="read", arguments={"path": "TOOLS.md"})]
        return [change]


WORDS = "[forwarded from Mal]\nchange it"


@pytest.mark.sec(51)
@pytest.mark.parametrize("tool", CALLS)
async def test_the_question_shows_the_change_and_a_yes_after_a_restart_makes_it(tmp_path: Path, tool: str) -> None:
    office = Office(tmp_path, tool, CALLS[tool])
    first, second = office.wire(), office.wire()
    async with office.house(first):
        ask = await asked(first, WORDS)
        assert "main wants to change TOOLS.md:" in ask.text
        assert SHOWN in ask.text
    async with office.house(second) as house:
        await second.say(value(ask, "once"), event="button")
        await second.until(lambda: any(text.startswith("so: ") for text in second.said()))
        await house.lanes.quiet()
    assert office.file.read_text() == "one\n2\u202e\n"


@pytest.mark.parametrize("tool", CALLS)
async def test_a_file_that_changed_meanwhile_is_asked_about_again_with_the_change_of_now(tmp_path: Path, tool: str) -> None:
    office = Office(tmp_path, tool, CALLS[tool])
    wire = office.wire()
    async with office.house(wire) as house:
        ask = await asked(wire, WORDS)
        office.file.write_text("zero\ntwo\n")
        before = len(wire.sent)
        await wire.say(value(ask, "once"), event="button")
        await wire.until(lambda: any(one.buttons for one in wire.sent[before:]))
        again = question(wire)
        assert "the file that it would change changed after you were asked" in again.text
        assert "zero" in again.text
        assert office.file.read_text() == "zero\ntwo\n"
        await wire.say(value(again, "once"), event="button")
        await wire.until(lambda: any(text.startswith("so: ") for text in wire.said()))
        await house.lanes.quiet()
    assert office.file.read_text() == ("one\n2\u202e\n" if tool == "write" else "zero\n2\u202e\n")


async def test_a_long_change_is_shortened_in_the_question_without_secrets_and_shown_whole_by_a_command(tmp_path: Path) -> None:
    text = f"first\n{KEY}\n" + "li\u200bne\n" * 2000 + "last\n"
    office = Office(tmp_path, "write", {"path": "SOUL.md", "content": text, "mode": "append"})
    office.outgoing.learn([KEY])
    wire = office.wire()
    async with office.house(wire) as house:
        ask = await asked(wire, WORDS)
        assert "main wants to add to SOUL.md:\n```\nfirst\n" in ask.text
        assert KEY not in ask.text
        (found,) = await house.ledger.approvals.latest(["pending"])
        assert f"homebody approvals show {found.id}" in ask.text
    code, out, err = await homebody(tmp_path / "home", "show", found.id)
    assert (code, out.count("li⟨U+200B⟩ne\n")) == (0, 2000), err
    code, out, err = await homebody(tmp_path / "home", "show", found.id, "--json")
    assert (code, json.loads(out)["details"]) == (0, text), err


def test_a_record_without_details_is_read_and_its_yes_holds() -> None:
    act = Act(kind="exec", summary="run ls", command="ls", argv=("ls",))
    written = json.loads(AskedAct(call=ToolCall(id="c", name="exec", arguments={}), act=act, origin="owner").encoded())
    del written["act"]["details"]
    assert AskedAct.decoded(json.dumps(written)).act == act
    assert fingerprint(Act(kind="url", summary="s")) != fingerprint(Act(kind="url", summary="s", details="x"))
