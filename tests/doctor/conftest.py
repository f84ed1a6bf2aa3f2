"""A healthy installation, made by the product itself, which each test may damage."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import gateway
from gateway.base.paths import Paths
from gateway.doctor.checked_installation import Installation
from gateway.doctor.examination import examine, examine_and_mend
from tests import programs
from tests.patience import PATIENCE

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from gateway.doctor.examination import Mended
    from gateway.doctor.finding import Check, Finding

ROOT = Path(gateway.__file__).resolve().parents[1]


def program(*arguments: str, home: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run `homebody` for the person with this home folder."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT)} | more.pop("env", {})
    command = [sys.executable, "-W", "ignore", "-m", "gateway", *arguments]
    run = programs.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=home, **more)
    assert "Traceback" not in run.stderr, run.stderr
    return run


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture(scope="session")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home folder of somebody who has talked to the agent once."""
    home = tmp_path_factory.mktemp("lived-in")
    run = program("agent", "-m", "Remember that the spare key is under the blue pot.", home=home)
    assert run.returncode == 0, run.stderr
    assert program("memory", "index", home=home).returncode == 0
    return home


class House:
    """A copy of it."""

    def __init__(self, person: Path) -> None:
        self.person = person
        self.home = person / ".homebody"
        self.state = self.home / "state"
        self.workspace = person / "homebody"
        self.env: dict[str, str] = {"PATH": os.environ["PATH"], "HOME": str(person)}
        self.cwd = person
        self.given: dict[str, Any] = {}
        self.set(gateway={"port": free_port()}, agents={"defaults": {"userTimezone": "Europe/Berlin"}})

    def set(self, **sections: Any) -> None:
        """Write the settings, these sections among them."""
        self.given |= sections
        file = self.home / "homebody.yaml"
        file.write_text(yaml.safe_dump(self.given))
        file.chmod(0o600)

    @property
    def transcript(self) -> Path:
        return next((self.home / "agents" / "main" / "sessions").glob("*.jsonl"))

    def installation(self, *, offline: bool = True) -> Installation:
        return Installation(paths=Paths(self.home), env=self.env, cwd=self.cwd, offline=offline)

    async def found(self, *checks: Check, offline: bool = True) -> list[Finding]:
        return await examine(self.installation(offline=offline), checks)

    async def wrong(self, *checks: Check, offline: bool = True) -> list[Finding]:
        """What is found that is more than a note."""
        return [one for one in await self.found(*checks, offline=offline) if one.level in {"warning", "error"}]

    async def mended(self, *checks: Check) -> tuple[list[Finding], list[Mended]]:
        return await examine_and_mend(self.installation(), checks, lambda _: None)

    def doctor(self, *options: str, **more: Any) -> tuple[int, dict[str, Any]]:
        """Run `homebody doctor --json` as a program."""
        run = program("doctor", "--json", *options, home=self.person, **more)
        return run.returncode, json.loads(run.stdout)


@pytest.fixture
def house(lived_in: Path, home_of_the_test: Path) -> House:
    shutil.copytree(lived_in, home_of_the_test, dirs_exist_ok=True, symlinks=True)
    return House(home_of_the_test)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody can enter, as pytest's own are closed."""
    made = Path(tempfile.mkdtemp(prefix="open-", dir="/tmp"))
    made.chmod(0o755)
    (made / "notes").mkdir(mode=0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def house_in_the_open(lived_in: Path, open_folder: Path) -> House:
    """A copy in a folder that other users can reach."""
    person = open_folder / "person"
    shutil.copytree(lived_in, person, symlinks=True)
    return House(person)


def said(findings: list[Finding]) -> str:
    """All words of the findings."""
    return "\n".join(f"{one.level}|{one.check}|{one.where}|{one.what}|{one.why}|{one.mend}" for one in findings)
