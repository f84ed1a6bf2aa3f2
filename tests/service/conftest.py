"""A machine of its own for each test: a home, a PATH with the user manager of tests/peers, and the command line."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.base.paths import Paths
from gateway.base.state_lock import Holder, describe
from tests import programs
from tests.patience import PATIENCE

if TYPE_CHECKING:
    import subprocess

ROOT = Path(__file__).resolve().parents[2]
HOMEBODY = Path(sys.executable).with_name("homebody")


@dataclass(frozen=True)
class Machine:
    home: Path
    env: dict[str, str]

    @property
    def paths(self) -> Paths:
        return Paths(self.home / ".homebody")

    def holder(self) -> Holder:
        """Return the gateway that runs, once it has written down who it is."""
        ends = time.monotonic() + PATIENCE
        while not (found := describe(self.paths.state / "gateway.lock")) or not found.pid:
            assert time.monotonic() < ends, "no gateway runs"
            time.sleep(0.02)
        return found

    def run(self, *arguments: str, code: int | None = 0, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command; its exit code must be ``code``."""
        done = programs.run(
            [str(HOMEBODY), *arguments], env=self.env, cwd=self.home, capture_output=True, text=True, input=given, check=False
        )
        assert code is None or done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
        return done


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home, programs, state = tmp_path / "home", tmp_path / "programs", tmp_path / "manager"
    for folder in (home, programs, state):
        folder.mkdir()
    for name in ("systemctl", "loginctl"):
        told = (
            f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/tests/peers/systemctl.py" "$@"\n'
            if name == "systemctl"
            else "#!/bin/sh\n"
        )
        (programs / name).write_text(told)
        (programs / name).chmod(0o755)
    env = {
        **os.environ,
        "HOME": str(home),
        "HOMEBODY_HOME": str(home / ".homebody"),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_RUNTIME_DIR": str(state),
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    made = Machine(home, env)
    made.run("config", "set", "gateway.port", "0")
    yield made
    holder = describe(made.paths.state / "gateway.lock")
    if holder is not None and holder.pid:
        os.kill(holder.pid, signal.SIGKILL)
