"""An agent changes neither its settings nor its rules nor the record of what it may trust, whatever rules allow and whoever asks."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from agent.messages import ToolCall, ToolMessage
from tests.peers.phone import Village

if TYPE_CHECKING:
    from pathlib import Path

OWN = (
    "homebody.yaml",
    "state/approvals.json",
    "state/gateway.token",
    "agents/main/untrusted.jsonl",
    "agents/main/sessions/hooks.js",
)
EVERYTHING = {
    "tools": {"exec": {"security": "full"}},
    "approvals": {"rules": [{"decision": "allow", "tool": tool} for tool in ("write", "edit", "apply_patch")]},
}


def calls(name: str) -> list[ToolCall]:
    made: list[tuple[str, dict[str, Any]]] = []
    for path in (f"../home/{name}", f"link/{name}", f"./notes/../../home/{name}", "hard"):
        patch = f"*** Begin Patch\n*** Add File: {path}\n+owned\n*** End Patch"
        made += [
            ("write", {"path": path, "content": "owned", "mode": "append"}),
            ("write", {"path": path, "content": "owned", "mode": "overwrite"}),
            ("edit", {"path": path, "old": "mine", "new": "owned"}), ("apply_patch", {"patch": patch}), ("read", {"path": path}),
        ]  # fmt: skip
    made += [("exec", {"command": f"echo owned >> {path}"}) for path in (f"../home/{name}", f"link/{name}")]
    return [ToolCall(id=f"c{number}", name=tool, arguments=arguments) for number, (tool, arguments) in enumerate(made)]


@pytest.mark.sec(59)
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="commands run without a question only where they are confined")
@pytest.mark.parametrize("name", OWN)
async def test_sec_59_an_agent_does_not_change_its_own_rights(tmp_path: Path, name: str) -> None:
    v = Village(tmp_path, **EVERYTHING)
    v.model.then(*[[one] for one in calls(name)], "Done.")
    v.model.reply_with(lambda _: "Done.")
    home = tmp_path / "home"
    async with v.house() as (house, phone):
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine\n")
        (v.workspace / "link").symlink_to(home)
        os.link(file, v.workspace / "hard")
        await phone.say("go on")
        await phone.until(lambda: "Done." in phone.texts() or any(one.buttons for one in phone.sent))
        await house.lanes.quiet()
        assert file.read_text() == "mine\n"
        results = [
            message for request in v.model.requests[-1:] for message in request.messages if isinstance(message, ToolMessage)
        ]
        assert len(results) >= len(calls(name)) - 2
        assert all("mine" not in message.text for message in results if message.name == "read")
