"""Gateways with a home, a workspace and a repository of their own, as on machines of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import programs
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

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
