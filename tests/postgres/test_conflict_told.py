"""What a killed gateway and the one that took over both wrote is kept side by side, and its owner is told of it in the chat."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.peers.telegram import TelegramPeer
from tests.postgres.machines import Machine, until
from tests.workspaces.clones import git

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.postgres, pytest.mark.long]

OWNER = 4711


async def test_a_line_that_two_gateways_changed_is_kept_twice_and_told_in_the_chat(url: str, tmp_path: Path) -> None:
    remote = tmp_path / "all.git"
    git("init", "-q", "--bare", remote, at=tmp_path)
    async with AsyncExitStack() as stack:
        bot = await stack.enter_async_context(TelegramPeer(checked=False))
        account = {"botToken": bot.token, "apiRoot": bot.root, "allowFrom": [str(OWNER)], "pollTimeoutSeconds": 1}
        settings: dict[str, Any] = {
            "gateway": {"port": 0},
            "storage": {"url": url},
            "cluster": {"enabled": True, "leaseSeconds": 4},
            "agents": {"defaults": {"workspaceStore": {"type": "git", "remote": str(remote), "pullMinutes": 0.05}}},
            "channels": {"telegram": account},
        }
        kitchen, cellar = Machine(tmp_path, "kitchen", settings), Machine(tmp_path, "cellar", settings)
        for one in (kitchen, cellar):
            stack.callback(one.end, signal.SIGKILL)

        def told() -> str:
            return "\n".join(text for who, text in bot.transcript(OWNER) if who == "bot")

        async def comes_true(true: Any) -> None:
            await asyncio.to_thread(until, true)

        kitchen.start()
        await comes_true(kitchen.holds)
        await bot.say(OWNER, "remember that the key is under the pot")
        await comes_true(lambda: "under the pot" in kitchen.notes() and told())
        note = kitchen.workspace / "COLOURS.md"
        note.write_text("# Colours\n\nThe door is green.\n")
        await comes_true(lambda: "door is green" in git("log", "-p", "--all", at=remote))
        cellar.start()
        await comes_true(lambda: "cellar" in kitchen.run("cluster", "status"))

        away = remote.rename(tmp_path / "away.git")
        note.write_text("# Colours\n\nThe door is red.\n")
        await comes_true(lambda: "door is red" in git("log", "-p", "--all", at=repository(kitchen)))
        kitchen.end(signal.SIGKILL)
        away.rename(remote)
        await comes_true(cellar.holds)
        other = cellar.workspace / "COLOURS.md"
        await comes_true(other.exists)
        other.write_text("# Colours\n\nThe door is blue.\n")
        await comes_true(lambda: "door is blue" in git("log", "-p", "--all", at=remote))
        assert "conflict" not in told()

        kitchen.start()
        await comes_true(lambda: "COLOURS.conflict-" in told())

        def kept() -> str:
            return "\n".join(path.read_text() for path in cellar.workspace.glob("COLOURS*.md"))

        await comes_true(lambda: "blue" in kept() and "red" in kept())
        assert told().count("COLOURS.conflict-") == 1, "once, though both gateways see it"


def repository(machine: Machine) -> Path:
    return machine.home / "gateways" / machine.name / "agents" / "main" / "workspace" / "repository.git"
