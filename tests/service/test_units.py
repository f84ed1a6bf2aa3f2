"""The files that service managers read: valid, hardened, and right about paths that need care."""

from __future__ import annotations

import plistlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.errors import UsageError
from gateway.service import service_selection
from gateway.service.launchd import LaunchdService
from gateway.service.systemd import OWN_HOME, Account, SystemdService
from gateway.supervision.watchdog import HOPELESS

ROOT = Path(__file__).resolve().parents[2]
OWN = Account(name="homebody", group="homebody", home=OWN_HOME)
COMMAND = ["/opt/homebody/.venv/bin/homebody", "--home", "/var/lib/homebody/.homebody", "gateway", "--restart-on-stall"]
EXAMPLE = ROOT / "docs/examples/homebody.service"


def system(folder: Path, account: Account = OWN) -> SystemdService:
    return SystemdService(
        name="homebody",
        folder=folder,
        command=COMMAND,
        home=account.home / ".homebody",
        workspaces=() if account.dedicated else (account.home / "homebody",),
        account=account,
    )


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
@pytest.mark.parametrize("account", [OWN, Account(name="games", group="games", home=Path("/home/a b"))])
def test_the_system_unit_is_exposed_by_3_0_at_most(tmp_path: Path, account: Account) -> None:
    unit = system(tmp_path, account)
    unit.file.write_text(unit.text())
    told = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(unit.file)], capture_output=True, text=True, check=False
    )
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", told.stdout)
    assert found, told.stderr
    assert float(found[1]) <= 3.0


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_finds_no_mistake_in_the_units(tmp_path: Path) -> None:
    unit = system(tmp_path)
    text = unit.text().replace(COMMAND[0], "/bin/true")
    unit.file.write_text(text)
    told = subprocess.run(["systemd-analyze", "verify", str(unit.file)], capture_output=True, text=True, check=False)
    assert unit.file.name not in told.stderr, told.stderr
    unit.file.write_text(text + "ExecStart\nProtectHum=yes\n")
    told = subprocess.run(["systemd-analyze", "verify", str(unit.file)], capture_output=True, text=True, check=False)
    assert "ProtectHum" in told.stderr, "a mistake would not be seen"


def test_nothing_that_bubblewrap_needs_is_forbidden(tmp_path: Path) -> None:
    for unit in (system(tmp_path), system(tmp_path, Account(name="games", group="games", home=Path("/home/games")))):
        keys = {line.partition("=")[0] for line in unit.text().splitlines() if not line.startswith("#")}
        assert not keys & {"ProtectKernelTunables", "ProtectKernelLogs", "ProcSubset", "RestrictNamespaces", "PrivateUsers"}
        assert "@mount" in unit.text()


def test_the_example_is_what_is_installed(tmp_path: Path) -> None:
    assert EXAMPLE.read_text() == system(tmp_path).text()


def test_systemd_waits_longer_than_the_gateway_needs(tmp_path: Path) -> None:
    facts = dict(line.split("=", 1) for line in system(tmp_path).text().splitlines() if "=" in line and line[0] != "#")
    assert float(facts["WatchdogSec"]) > HOPELESS
    assert facts["KillMode"] == "mixed"


words = st.text(st.characters(codec="ascii", exclude_categories=("Cc", "Cs")), min_size=1, max_size=20).map(
    lambda text: "/" + text.replace("'", "")
)


@given(words, words)
def test_every_path_comes_through_a_unit_as_it_was(home: str, program: str) -> None:
    """Read back by the rules of systemd.syntax(7): quotes as in a shell, then %% and, in commands, $$."""
    unit = SystemdService(name="h", folder=Path("/u"), command=[program, "gateway"], home=Path(home))
    lines = dict(line.split("=", 1) for line in unit.text().splitlines() if line.startswith(("ExecStart=", "Environment=")))

    def read(text: str) -> list[str]:
        found = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', text)
        return [re.sub(r"\\(.)", r"\1", quoted) if quoted else plain for quoted, plain in found]

    [setting] = read(lines["Environment"])
    assert setting.replace("%%", "%") == f"HOMEBODY_HOME={Path(home)}"
    assert [word.replace("%%", "%").replace("$$", "$") for word in read(lines["ExecStart"])] == [program, "gateway"]


def test_a_unit_knows_the_home_that_it_serves(tmp_path: Path) -> None:
    home = tmp_path / 'a "b" 50% $x'
    unit = SystemdService(name="h", folder=tmp_path, command=["/x"], home=home)
    unit.file.write_text(unit.text())
    assert unit.serves(home)
    assert not unit.serves(tmp_path)


def test_the_property_list_of_launchd_holds_what_it_must(tmp_path: Path) -> None:
    agent = LaunchdService(
        name="homebody",
        folder=tmp_path,
        command=COMMAND,
        home=Path("/Users/a/.homebody"),
        logs=Path("/Users/a/.homebody/logs"),
        uid=501,
    )
    facts = plistlib.loads(agent.text().encode())
    assert facts["ProgramArguments"] == COMMAND
    assert facts["KeepAlive"] == {"SuccessfulExit": False}
    assert facts["RunAtLoad"] is True
    agent.file.write_text(agent.text())
    assert agent.serves(Path("/Users/a/.homebody"))
    assert not agent.serves(Path("/Users/b/.homebody"))
    assert [str(action) for action in agent.remove()][-1] == f"delete {agent.file}"


def test_a_program_in_a_home_folder_is_not_given_to_another_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from gateway.base.paths import Paths

    monkeypatch.setattr("sys.prefix", "/home/alice/homebody/.venv")
    monkeypatch.setattr("sys.executable", "/home/alice/homebody/.venv/bin/python")
    with pytest.raises(UsageError, match="lies in a home folder") as refused:
        service_selection.system_service(Paths(tmp_path), {})
    assert "/opt/homebody" in refused.value.hint


def test_root_is_no_user_of_the_service() -> None:
    with pytest.raises(UsageError, match="does not run as root"):
        service_selection.account_of("root")
    with pytest.raises(UsageError, match="has no user"):
        service_selection.account_of("nobody-of-this-name")
