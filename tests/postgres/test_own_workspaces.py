"""Gateways of a cluster with a home each: the notes go along through a repository, and nothing of a killed gateway is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

from agent.tools.untrusted_files import UntrustedFiles
from gateway.workspaces.carried_record import LOST
from gateway.workspaces.change_journal import ChangeJournal
from memory.protocol import Author
from tests import programs
from tests.patience import PATIENCE
from tests.workspaces.clones import git

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.postgres, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]


def until(true: Callable[[], Any]) -> None:
    ends = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < ends, "it did not come true"
        time.sleep(0.1)


class Machine:
    """A gateway with a home and a workspace of its own."""

    def __init__(self, folder: Path, name: str, settings: dict[str, Any]) -> None:
        self.name, self.person = name, folder / name
        self.home, self.workspace = self.person / ".homebody", self.person / "homebody"
        (self.home / "state").mkdir(mode=0o700, parents=True)
        self.home.chmod(0o700)
        (self.home / "state" / "cluster-home").write_text("0123456789abcdef\n")
        (self.home / "homebody.json").write_text(json.dumps(settings))
        (self.home / "homebody.json").chmod(0o600)
        self.log = folder / f"{name}.log"
        self.process: programs.Program | None = None

    @property
    def env(self) -> dict[str, str]:
        given = {"PATH": os.environ["PATH"], "HOME": str(self.person), "HOMEBODY_GATEWAY": self.name, "TZ": "UTC"}
        return given | {"PYTHONPATH": str(ROOT)}

    def start(self) -> None:
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "gateway", "gateway"]
            self.process = programs.start(command, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()
            self.process = None

    def run(self, *words: str) -> str:
        command = [sys.executable, "-m", "gateway", *words]
        done = programs.run(command, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    def holds(self) -> bool:
        command = [sys.executable, "-m", "gateway", "cluster", "status", "--json"]
        done = programs.run(command, env=self.env, capture_output=True, text=True)
        held = json.loads(done.stdout)["held"] if done.returncode == 0 else []
        return any(one["token"] == "agent:main" and one["gateway"] == self.name for one in held)

    def notes(self) -> str:
        return "".join(path.read_text() for path in sorted(self.workspace.glob("memory/*.md")))


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
