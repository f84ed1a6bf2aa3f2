"""What is refused while a gateway of the home runs, whatever HOMEBODY_GATEWAY says."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gateway.backup.age_encryption import Keys
from gateway.backup.restoring import Target, restore
from gateway.base.errors import AlreadyRunning, StorageFailed
from gateway.base.home_lock import known_in, lock_of, running_in, whole_home
from gateway.base.paths import Paths
from gateway.base.state_lock import Holder, StateLock, describe
from gateway.cli import main
from gateway.service.uninstall import plan_removal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def running(home: Path, *names: str) -> Iterator[None]:
    """Hold the locks of these gateways, as if they ran here."""
    with ExitStack() as stack:
        for name in names:
            paths = Paths(home, gateway=name)
            paths.prepare()
            stack.callback(StateLock.acquire(paths.lock, Holder(pid=os.getpid(), socket="nowhere")).release)
        yield


def test_a_lock_that_is_a_folder_is_told_with_what_mends_it(tmp_path: Path) -> None:
    lock = tmp_path / "state/gateway.lock"
    lock.mkdir(parents=True)
    for use in (StateLock.acquire, describe):
        with pytest.raises(StorageFailed, match="is a folder") as told:
            use(lock)
        assert told.value.hint == f"Move it away: mv {lock} {lock}.broken"


def backup_in(folder: Path) -> Path:
    """Make a file that is there, and which is refused before anybody opens it."""
    (folder / "backup").touch()
    return folder / "backup"


NAMES = pytest.mark.parametrize("named", ["", "a", "b", "kichen"])


@NAMES
def test_a_restore_is_refused_while_any_gateway_of_the_home_runs(tmp_path: Path, named: str) -> None:
    home = tmp_path / "home"
    target = Target(paths=Paths(home, gateway=named), force=True)
    with running(home, "a", "b"), pytest.raises(AlreadyRunning, match="a, b") as told:
        restore(backup_in(tmp_path), Keys(files=()), target, env={}, now=datetime.now(UTC))
    assert told.value.hint == "Stop each of them first: HOMEBODY_GATEWAY=a homebody stop"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "home"]


@pytest.mark.parametrize("part", ["gateways", "gateways/a", "state/new", "agents"])
def test_nothing_is_restored_into_what_gateways_that_run_use(tmp_path: Path, part: str) -> None:
    home = tmp_path / "home"
    target = Target(paths=Paths(home / part), force=True)
    with running(home, "a", "b"), pytest.raises(AlreadyRunning, match="a, b"):
        restore(backup_in(tmp_path), Keys(files=()), target, env={}, now=datetime.now(UTC))
    assert sorted(path.name for path in home.iterdir()) == sorted(
        {"agents", "gateways", "state"} & {p.name for p in home.iterdir()}
    )


def test_no_gateway_of_a_new_name_starts_while_a_home_is_held(tmp_path: Path) -> None:
    new = Paths(tmp_path, gateway="new")
    new.prepare()
    with running(tmp_path, "a"):
        lock_of(new, Holder(pid=os.getpid())).release()
    with whole_home(Paths(tmp_path)):
        new_one = Paths(tmp_path, gateway="newer")
        new_one.prepare()
        with pytest.raises(AlreadyRunning, match="using this home"):
            lock_of(new_one, Holder(pid=os.getpid()))
    assert running_in(tmp_path) == {}


@NAMES
def test_a_home_is_held_as_a_whole(tmp_path: Path, named: str) -> None:
    with running(tmp_path, "a", "b"):
        assert list(running_in(tmp_path)) == ["a", "b"]
    assert running_in(tmp_path) == {}
    with running(tmp_path, ""), pytest.raises(AlreadyRunning), whole_home(Paths(tmp_path, gateway=named)):
        pass
    with whole_home(Paths(tmp_path, gateway=named)):
        assert list(running_in(tmp_path)) == ["", "a", "b"]
    assert running_in(tmp_path) == {}
    assert known_in(tmp_path) == ["a", "b"]


@pytest.mark.parametrize(
    "words",
    ["storage migrate --to file", "migrate from-openclaw STATE", "sessions repair", "inbox list"],
)
def test_commands_that_need_the_state_for_themselves_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: str
) -> None:
    home, state = tmp_path / "home", tmp_path / "openclaw"
    state.mkdir()
    (state / "openclaw.json").write_text("{}")
    with running(home, "b"):  # it ran before
        pass
    (home / "state" / "ledger.sqlite").touch()
    monkeypatch.setenv("HOMEBODY_GATEWAY", "b")
    with running(home, "a"):
        code = main(["--home", str(home), *words.replace("STATE", str(state)).split()])
    told = capfd.readouterr().err
    assert "gateways run in this home: a" in told
    assert code == 5


def test_uninstalling_stops_every_gateway(tmp_path: Path) -> None:
    with running(tmp_path / "home", "a", "b"):
        plan = plan_removal(Paths(tmp_path / "home", gateway="c"), {"HOME": str(tmp_path)}, [], with_state=True)
    assert list(plan.gateways) == [os.getpid()] * 2
    assert plan.as_text().count("stop   the gateway that runs") == 2
