"""A gateway whose system clock is set, forward and back: by libfaketime, because the machine's own clock is everybody's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.state_lock import Holder, describe
from tests import programs
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
pytestmark = pytest.mark.skipif(
    LIBRARY is None and not os.environ.get("CI"), reason="libfaketime is not installed (Debian's package: faketime)"
)


class SetClocks:
    """A gateway and its command line, whose wall clock is ahead of the machine's by what a file says. The monotonic one goes as ever."""

    def __init__(self, root: Path) -> None:
        self.clock = root / "clock"
        self.home = root / "home"
        self.home.mkdir()
        (self.home / "homebody.yaml").write_text("gateway: {port: 0}\n")
        self.set("+0")
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "HOMEBODY_HOME": str(self.home),
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self.clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        self.process: subprocess.Popen[bytes]

    def set(self, ahead: str) -> None:
        new = self.clock.with_suffix(".new")
        new.write_text(f"{ahead}\n")
        new.replace(self.clock)

    def start(self) -> None:
        command = [sys.executable, "-m", "gateway", "gateway"]
        self.process = subprocess.Popen(command, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.until(lambda: (holder := describe(self.home / "state" / "gateway.lock")) is not None and self.listens(holder))

    def listens(self, holder: Holder) -> bool:
        return holder.http_port is not None and holder.pid == self.process.pid  # not the one before

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(PATIENCE) == 0

    def cron(self, *arguments: str) -> Any:
        """Have the gateway do it; the clock of who asks is of no matter."""
        env = {name: value for name, value in self.env.items() if name != "LD_PRELOAD"}
        done = programs.run(
            [sys.executable, "-m", "gateway", "cron", *arguments, "--json"], env=env, check=True, capture_output=True
        )
        return json.loads(done.stdout)

    def runs(self, job: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.cron("log", job)["runs"]
        return found

    def due(self, job: str) -> datetime | None:
        (at,) = (found["nextAt"] for found in self.cron("list") if found["name"] == job)
        return None if at is None else datetime.fromisoformat(at)

    def until(self, wanted: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not wanted():
            assert self.process.poll() is None, "the gateway ended"
            assert time.monotonic() < end
            time.sleep(0.3)  # a look is a program of its own


@pytest.fixture
def clocks(tmp_path: Path) -> Iterator[SetClocks]:
    found = SetClocks(tmp_path)
    found.start()
    yield found
    found.stop()


def test_what_is_due_after_the_clock_was_set_forward_fires_and_once_also_when_it_is_set_back(clocks: SetClocks) -> None:
    clocks.cron("add", "in 2 hours", "tea", "--name", "tea")
    clocks.cron("add", "every 30 minutes", "stretch", "--name", "stretch")
    assert clocks.runs("tea") == []
    clocks.set("+3h")
    clocks.until(lambda: clocks.runs("tea") and clocks.runs("stretch"))
    (tea,) = clocks.runs("tea")
    assert tea["state"] == "fired"
    before = clocks.runs("stretch")
    assert [run["state"] for run in before].count("fired") == 1, "of several missed times the last one is made up"
    clocks.set("+150m")
    clocks.cron("add", "in 3 seconds", "now", "--name", "now")
    clocks.until(lambda: clocks.runs("now"))
    assert len(clocks.runs("tea")) == 1, "an instant that has fired does not fire again"
    fired = [run["instant"] for run in clocks.runs("stretch") if run["state"] == "fired"]
    assert len(fired) == len(set(fired))


@pytest.mark.long
def test_starts_with_the_clock_ahead_and_back_stop_no_job(clocks: SetClocks) -> None:
    clocks.cron("add", "every 30 minutes", "what is due?", "--name", "stretch", "--task", "--to", "none")
    clocks.cron("add", "in 2 hours", "tea", "--name", "tea")
    for wrong in ("+40d", "-400d", "-20000d", "+0"):
        clocks.stop()
        clocks.set(wrong)
        clocks.start()
        if wrong == "+40d":
            clocks.until(lambda: clocks.runs("stretch"))
    now = datetime.now(UTC)
    clocks.until(lambda: (due := clocks.due("stretch")) is not None and abs(due - now) < timedelta(hours=1))  # it has looked
    fired = {run["instant"] for run in clocks.runs("stretch") if run["state"] == "fired"}
    clocks.set("+121m")
    clocks.until(lambda: any(run["state"] == "fired" and run["instant"] not in fired for run in clocks.runs("stretch")))
    clocks.until(lambda: any(run["state"] == "fired" for run in clocks.runs("tea")))
    instants = [run["instant"] for run in clocks.runs("stretch") if run["state"] == "fired"]
    assert len(instants) == len(set(instants))
