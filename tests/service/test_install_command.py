"""Installing the service as a person does it: not root, on a machine that systemd runs (both by a user namespace)."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from gateway.base.state_lock import describe
from tests.service.conftest import HOMEBODY

if TYPE_CHECKING:
    from tests.service.conftest import Machine

BOOTED = ["bwrap", "--unshare-user", "--uid", "1000", "--gid", "1000", "--bind", "/", "/", "--dev-bind", "/dev", "/dev"]
SYSTEMD = ["--tmpfs", "/run", "--dir", "/run/systemd/system"]


def as_person(machine: Machine, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [*BOOTED, *SYSTEMD, "--", str(HOMEBODY), *arguments]
    done = subprocess.run(command, env=machine.env, cwd=machine.home, capture_output=True, text=True, check=False)
    if "bwrap:" in done.stderr:
        pytest.skip(f"bubblewrap cannot work here: {done.stderr.strip()}")
    assert done.returncode == code, (arguments, done.returncode, done.stdout, done.stderr)
    return done


@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
def test_setup_installs_the_service_and_stops_what_runs_in_the_background(machine: Machine) -> None:
    background = json.loads(machine.run("start", "--json").stdout)["pid"]
    told = as_person(machine, "setup", "service", "--yes").stdout
    assert "systemctl --user enable homebody.service" in told
    holder = machine.holder()
    assert holder.pid != background
    status = json.loads(as_person(machine, "service", "status", "--json").stdout)
    assert (status["active"], status["pid"], status["outdated"]) == ("active", holder.pid, False)
    again = as_person(machine, "service", "install").stdout
    assert "is installed and started (systemd (user))" in again
    as_person(machine, "service", "remove")
    assert describe(machine.paths.state / "gateway.lock") is None


@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
def test_a_service_of_that_name_for_another_home_is_not_replaced(machine: Machine) -> None:
    as_person(machine, "service", "install")
    other = dataclasses.replace(machine, env={**machine.env, "HOMEBODY_HOME": str(machine.home / "other")})
    told = as_person(other, "service", "install", code=2).stderr
    assert "exists already, for another folder" in told
    assert "--profile NAME service install" in told
    as_person(machine, "service", "remove")


@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
def test_a_system_service_is_for_root_and_the_command_is_named(machine: Machine) -> None:
    told = as_person(machine, "service", "install", "--system", code=2).stderr
    assert "sudo" in told
    assert "service install --system" in told


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone")
def test_root_and_machines_without_a_manager_are_told_what_to_do(machine: Machine) -> None:
    told = machine.run("service", "install", code=None).stderr
    assert "homebody service install --system" in told or "homebody start" in told
