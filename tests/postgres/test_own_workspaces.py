"""Gateways of a cluster with a home each: the notes go along through a repository, and nothing of a killed gateway is lost."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from agent.tools.untrusted_files import UntrustedFiles
from gateway.workspaces.carried_record import LOST
from gateway.workspaces.change_journal import ChangeJournal
from memory.protocol import Author
from tests.postgres.machines import Machine, until
from tests.workspaces.clones import git

pytestmark = [pytest.mark.postgres, pytest.mark.long]


def test_notes_go_along_and_what_a_killed_gateway_had_not_pushed_is_joined_when_it_is_back(url: str, tmp_path: Path) -> None:
    remote = tmp_path / "all.git"
    git("init", "-q", "--bare", remote, at=tmp_path)
    settings: dict[str, Any] = {
        "gateway": {"port": 0},
        "storage": {"url": url},
        "cluster": {"enabled": True, "leaseSeconds": 4},
        "agents": {"defaults": {"workspaceStore": {"type": "git", "remote": str(remote), "pullMinutes": 0.05}}},
    }
    kitchen, cellar = Machine(tmp_path, "kitchen", settings), Machine(tmp_path, "cellar", settings)
    alone = Machine(tmp_path, "alone", {**settings, "agents": {}})
    with ExitStack() as stack:
        for one in (kitchen, cellar, alone):
            stack.callback(one.end, signal.SIGKILL)
        kitchen.start()
        until(kitchen.holds)
        cellar.start()
        kitchen.run("agent", "-m", "remember that the first key is under the pot")
        until(lambda: "first key" in git("log", "-p", "--all", at=remote))
        remote = remote.rename(tmp_path / "away.git")
        kitchen.run("agent", "-m", "remember that the second key is in the shed")
        kitchen.end(signal.SIGKILL)
        ChangeJournal(kitchen.home / "gateways" / "kitchen" / "agents" / "main" / "workspace").command(
            "a1b2", Author("agent", "main")
        )
        (kitchen.workspace / "made.md").write_text("by a command whose end nobody saw\n")
        remote.rename(tmp_path / "all.git")

        until(lambda: "first key" in cellar.notes())
        until(cellar.holds)
        assert "second key" not in cellar.notes()
        cellar.run("agent", "-m", "remember that the third key is lost")
        alone.start()
        assert alone.process is not None
        assert alone.process.wait() != 0
        assert "has another home than this gateway" in alone.log.read_text()
        assert "kitchen ended before its last changes to the workspace of main had arrived" in cellar.log.read_text()

        kitchen.start()
        until(lambda: "second key" in cellar.notes() and (cellar.workspace / "made.md").exists())
        assert "third key" in cellar.notes()
        record = UntrustedFiles(cellar.home / "agents" / "main" / "untrusted.jsonl")
        assert LOST in record.of(PurePosixPath("made.md"))
        assert cellar.holds()

        cellar.run("cluster", "move", "main", "--to", "kitchen")
        until(kitchen.holds)
        until(lambda: "third key" in kitchen.notes())
        answer = kitchen.run("agent", "-m", "where is the third key?")
        assert "lost" in answer
