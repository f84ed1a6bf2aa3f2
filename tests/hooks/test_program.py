"""The real program: the commands, and a gateway that is killed while it takes a call."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from gateway.base.state_lock import describe
from tests import programs
from tests.patience import PATIENCE
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Iterator

HOMEBODY = Path(__file__).resolve().parents[2] / ".venv/bin/homebody"
KEY = {"Idempotency-Key": "delivery 1"}


class House:
    """A home whose gateway is started and killed."""

    def __init__(self, home: Path) -> None:
        self.state = home / "settings/state"
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "HOMEBODY_HOME": str(home / "settings"),
            "HOMEBODY_GATEWAY_PORT": "0",
        }

    def run(self, *arguments: str, code: int = 0) -> Any:
        """Run a command with --json; return what it prints."""
        done = programs.run([HOMEBODY, *arguments, "--json"], env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout if code == 0 else done.stderr)

    @contextlib.contextmanager
    def gateway(self, fault: str = "") -> Iterator[str]:
        """Run the gateway, which dies at ``fault``; yield the address of its hooks."""
        with programs.start(
            [HOMEBODY, "gateway"],
            env=self.env | {"HOMEBODY_FAULT": fault},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                yield f"http://127.0.0.1:{self._port(process)}/hooks/in"
                if fault:
                    assert process.wait(PATIENCE) == -signal.SIGKILL
            finally:
                process.kill()

    def _port(self, process: programs.Program) -> int:
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            holder = describe(self.state / "gateway.lock")
            if holder is not None and holder.http_port and holder.pid == process.pid:  # not one that was killed just before
                return holder.http_port
            assert process.poll() is None, "the gateway did not start"
            time.sleep(0.05)
        raise AssertionError("the gateway does not listen")

    def ended(self, name: str) -> dict[str, Any]:
        """Wait until the only call of a hook has ended; return it."""
        began = time.monotonic()
        while time.monotonic() - began < PATIENCE:
            (call,) = self.run("hooks", "show", name)["calls"]
            if call["state"] not in {"waiting", "claimed"}:
                return dict(call)
            time.sleep(0.2)
        raise AssertionError("it is not answered")


def post(url: str, token: str) -> httpx.Response:
    return httpx.post(
        url, headers={"Authorization": f"Bearer {token}", **KEY}, json={"title": "x"}, timeout=60, trust_env=False
    )


@pytest.mark.cpu_seconds(240)
@parametrize_some(
    2,
    ("kind", "fault", "status", "state"),
    [
        ("prompt", "after-accept:1", 200, "answered"),
        ("prompt", "before-accept:1", 202, "answered"),
        ("message", "after-announce:1", 200, "ready"),
        ("message", "before-announce:1", 202, "ready"),
    ],
)
def test_a_call_whose_answer_was_lost_in_a_crash_is_taken_once(
    tmp_path: Path, kind: str, fault: str, status: int, state: str
) -> None:
    house = House(tmp_path)
    words = ["--instruction", "Say it.", "--deliver", "none"] if kind == "prompt" else ["--message", "{title}"]
    token = house.run("hooks", "add", "alarm", *words)["token"]
    with house.gateway(fault) as address, pytest.raises(httpx.TransportError):
        post(f"{address}/alarm", token)
    with house.gateway() as address:
        answer = post(f"{address}/alarm", token)
        assert answer.status_code == status
        assert post(f"{address}/alarm", token).status_code == 200
        call = house.ended("alarm")
        assert (call["id"], call["state"]) == (answer.json()["id"], state)


@pytest.mark.cpu_seconds(240)
def test_the_commands_on_a_gateway_that_runs(tmp_path: Path) -> None:
    house = House(tmp_path)
    assert "no gateway is running" in house.run("hooks", "test", "alarm", code=1)["error"]
    with house.gateway() as address:
        made = house.run("hooks", "add", "alarm", "--instruction", "Say it.", "--deliver", "none")
        assert made["url"] == f"{address}/alarm"
        assert post(made["url"], made["token"]).status_code == 202
        tried = house.run("hooks", "test", "alarm", "--data", '{"a": 1}')
        assert (tried["status"], tried["state"]) == (202, "answered")
        fresh = house.run("hooks", "rotate", "alarm")["token"]
        assert post(made["url"], made["token"]).status_code == 401
        assert post(made["url"], fresh).status_code == 200, "it is the same call"
        house.run("hooks", "pause", "alarm")
        assert post(made["url"], fresh).status_code == 403
        assert "paused" in house.run("hooks", "test", "alarm", code=1)["error"]
        house.run("hooks", "resume", "alarm")
        (listed,) = house.run("hooks", "list")
        assert (listed["name"], listed["state"]) == ("alarm", "active")
        assert "token" not in listed
        signed = house.run("hooks", "add", "repo", "--signed", "--instruction", "Say it.", "--deliver", "none")
        assert len(signed["secret"]) > 40
        assert house.run("hooks", "test", "repo")["state"] == "answered"
        house.run("hooks", "remove", "alarm")
        assert post(made["url"], fresh).status_code == 401
        assert "repo" in house.run("hooks", "show", "rep", code=2)["mend"]
