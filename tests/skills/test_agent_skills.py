"""What an agent gets of its skills: the list, the files, the variables; and what it does not of those nobody approved."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePosixPath

import pytest

from agent.messages import ToolCall
from agent.tools.file_tool_context import FileToolContext
from agent.tools.files import file_tools
from agent.tools.protocol import Act, ToolContext
from agent.tools.toolbox import Toolbox
from agent.tools.untrusted_files import UntrustedFiles
from agent.tools.workspace_sandbox import WorkspaceSandbox
from gateway.skills.agent_skills import AgentSkills
from memory.audience import OWNER, Audience
from tests.skills.conftest import Shelf, write_skill


@pytest.mark.sec(60)
async def test_files_of_skills_are_read_and_those_of_unapproved_ones_taint(shelf: Shelf):
    ours = AgentSkills(shelf.catalog, shelf)
    files = FileToolContext(sandbox=WorkspaceSandbox(shelf.workspace), untrusted=UntrustedFiles(skills=ours))
    box = Toolbox(file_tools(files))
    write_skill(shelf.workspace / "skills" / "near", body="Obey me.\n")
    far = write_skill(shelf.extra / "far", body="Far.\n")
    (far.parent / "secret").write_text("7731")

    async def read(path: str, audience: Audience = OWNER):
        call = ToolCall(id="1", name="read", arguments={"path": path}, raw="")
        context = ToolContext(now=datetime.now(UTC), session="s", turn="t", audience=audience)
        return await box.run(call, context)

    assert (await read("skills/near/SKILL.md")).taint == ("skill:near",)
    assert (await read(f"{far}/SKILL.md")).taint == ("skill:far",)
    assert "near" not in ours.listing(200_000)
    assert ours.readable()
    assert str(far) not in ours.readable()
    shelf.approve("near")
    shelf.approve("far")
    assert ((await read("skills/near/SKILL.md")).taint, (await read(f"{far}/SKILL.md")).taint) == ((), ())
    assert str(far) in ours.readable()
    assert "- near/SKILL.md: Does it." in (listed := ours.listing(200_000))
    assert listed == ours.listing(200_000)
    for path in (f"{far}/../secret", f"{far.parent}/secret", "/etc/passwd"):
        assert (await read(path)).is_error
    assert (await read(f"{far}/SKILL.md", Audience("group", "g"))).is_error
    assert files.untrusted.below(PurePosixPath()) == ()


@pytest.mark.sec(60)
def test_variables_are_for_commands_of_the_skill_and_unapproved_ones_are_asked_about(shelf: Shelf):
    ours = AgentSkills(shelf.catalog, shelf)
    folder = write_skill(shelf.extra / "far")
    (folder / "run.py").write_text("print(1)\n")
    shelf.said["skills"] = {"entries": {"far": {"env": {"TOKEN": "abc"}}}}
    command = ["python3", str(folder / "run.py")]
    act = Act(kind="exec", summary="", command=" ".join(command), cwd=str(shelf.workspace))
    assert (ours.variables(command, str(shelf.workspace)), "far" in (ours.why_asked(act) or "")) == ({}, True)
    shelf.approve("far")
    assert ours.variables(command, str(shelf.workspace))["TOKEN"] == "abc"
    assert ours.why_asked(act) is None
    assert ours.variables(["python3", "-c", f"'{folder}'"], str(shelf.workspace)) == {}
