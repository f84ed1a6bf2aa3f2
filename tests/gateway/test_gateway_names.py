"""Commands with a HOMEBODY_GATEWAY that never ran in the home."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from gateway.base.errors import UsageError
from gateway.base.paths import Paths
from gateway.base.state_lock import Holder, StateLock, boot_id
from gateway.cli import main
from gateway.cli.invocation import Invocation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home in which gateways kitchen and cellar run."""
    held = []
    for name in ("kitchen", "cellar"):
        paths = Paths(tmp_path, gateway=name)
        paths.prepare()
        held.append(StateLock.acquire(paths.lock, Holder(pid=os.getpid(), socket="nowhere")))
    monkeypatch.setenv("HOMEBODY_GATEWAY", "kichen")
    yield tmp_path
    for lock in held:
        lock.release()


@pytest.mark.parametrize(
    "words",
    [
        "stop",
        "restart",
        "cluster drain",
        "logs",
        "agent -m hello",
        "status",
        "agents tree",
        "cron list",
        "backup create",
        "doctor",
    ],
)
def test_a_name_that_never_ran_is_told_with_those_that_run(home: Path, capfd: pytest.CaptureFixture[str], words: str) -> None:
    before = sorted(home.rglob("*"))
    code = main(["--home", str(home), *words.split()])
    told = capfd.readouterr()
    assert "no gateway kichen runs or ran in this home; in it run cellar, kitchen" in told.err
    assert "export HOMEBODY_GATEWAY=kitchen" in told.err
    assert (code, told.out) == (2, "")
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize(("words", "expected"), [("stop", 0), ("status", 1)])
def test_of_one_that_does_not_run_those_that_do_are_told_once(
    home: Path, capfd: pytest.CaptureFixture[str], words: str, expected: int
) -> None:
    paths = Paths(home, gateway="kichen")  # what a start that failed leaves
    paths.prepare()
    StateLock.acquire(paths.lock, Holder(pid=os.getpid())).release()
    code = main(["--home", str(home), *words.split()])
    told = capfd.readouterr()
    assert told.err.count("The gateway kichen does not run; in this home run cellar, kitchen.") == 1
    assert code == expected, told


def test_a_new_gateway_may_have_a_new_name(home: Path) -> None:
    new = Invocation(home, may_be_new=True)
    new.need_name(also_one=True, also_new=True)
    assert new.paths.lock == home / "gateways" / "kichen" / "gateway.lock"
    with pytest.raises(UsageError):
        new.need_name()
    StateLock.acquire(new.paths.lock).release()
    assert Invocation(home).paths.gateway == "kichen", "it ran here, and is stopped"


def test_a_name_says_nothing_of_a_home_in_which_nobody_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOMEBODY_GATEWAY", "kichen")
    assert Invocation(tmp_path).paths.gateway == "kichen"


def test_a_gateway_that_starts_itself_again_is_not_told_to_be_stopped(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    paths = Paths(tmp_path)
    paths.prepare()
    for pid, told in ((os.getpid(), f"is starting itself again (process {os.getpid()})"), (2**22, "No gateway is running")):
        lock = StateLock.acquire(paths.lock)
        lock.write(Holder(pid=pid, boot=boot_id(), restarts=True))
        lock.release()
        assert main(["--home", str(tmp_path), "status"]) == 1
        assert told in capfd.readouterr().out
