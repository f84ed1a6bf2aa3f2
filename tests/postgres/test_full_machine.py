"""A gateway whose disk is full hands everything over in order, and takes its part again once there is room."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.postgres.machines import Machine, until
from tests.workspaces.clones import git

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.postgres, pytest.mark.long]
ROOMY = "320m"
FILLED = 295 * 1024 * 1024


def mounted(folder: Path, stack: ExitStack) -> None:
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={ROOMY},mode=700", "none", folder], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.decode()}")
    stack.callback(subprocess.run, ["umount", "--lazy", folder], check=True)


def state(asked: Machine, name: str) -> str | None:
    gateways = json.loads(asked.run("cluster", "status", "--json"))["gateways"]
    return next((str(one["state"]) for one in gateways if one["gateway"] == name and one["state"] != "away"), None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_full_disk_hands_over_and_takes_nothing_while_another_gateway_works(url: str, tmp_path: Path) -> None:
    remote = tmp_path / "all.git"
    git("init", "-q", "--bare", remote, at=tmp_path)
    settings: dict[str, Any] = {
        "gateway": {"port": 0},
        "storage": {"url": url},
        "cluster": {"enabled": True, "leaseSeconds": 4},
        "agents": {"defaults": {"workspaceStore": {"type": "git", "remote": str(remote), "pullMinutes": 0.05}}},
    }
    with ExitStack() as stack:
        mounted(tmp_path / "kitchen", stack)
        kitchen, cellar = Machine(tmp_path, "kitchen", settings), Machine(tmp_path, "cellar", settings)
        for one in (kitchen, cellar):
            stack.callback(one.end, signal.SIGKILL)
        kitchen.start()
        until(kitchen.holds)
        cellar.start()
        kitchen.run("agent", "-m", "remember that the first key is under the pot")
        until(lambda: state(cellar, "cellar") == "working")

        fill = tmp_path / "kitchen" / "fill"
        with fill.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, FILLED)
        until(cellar.holds)
        until(lambda: "first key" in cellar.notes())
        assert state(cellar, "kitchen") == "resting"
        assert "pot" in kitchen.run("agent", "-m", "where is the first key?"), "it passes on what it is asked"
        assert "has older notes" not in cellar.log.read_text()

        kitchen.end()
        kitchen.start()
        until(lambda: state(cellar, "kitchen") == "resting")
        assert cellar.holds()
        cellar.end()
        until(kitchen.holds)
        assert state(kitchen, "kitchen") == "paused"
        assert "I accept messages but do not process them" in kitchen.run("status")
        cellar.start()
        until(cellar.holds)

        fill.unlink()
        until(lambda: state(cellar, "kitchen") == "working")
        assert "started again" not in kitchen.log.read_text()
