"""start, stop, restart: in the background, and by the service that is installed."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from gateway.base.errors import HomebodyError
from gateway.base.state_lock import Holder, StateLock, describe
from gateway.service import background
from gateway.service.actions import carry_out, run_command
from gateway.service.service_selection import installed, user_service
from tests.service.conftest import Machine


def ignored(_text: str) -> None:
    """Take what is told on the way."""


def test_a_gateway_is_started_in_the_background_found_restarted_and_stopped(machine: Machine) -> None:
    first = json.loads(machine.run("start", "--json").stdout)
    assert first["already"] is False
    holder = machine.holder()
    assert holder.pid == first["pid"]
    assert os.getsid(first["pid"]) == first["pid"], "it would end with the terminal"
    assert json.loads(machine.run("start", "--json").stdout) == first | {"already": True}
    assert f"stop   the gateway that runs (process {first['pid']})" in machine.run("uninstall", "--dry-run").stdout
    second = json.loads(machine.run("restart", "--json").stdout)
    assert second["pid"] not in {0, first["pid"]}
    stopping = machine.run("stop")
    assert f"The gateway was stopped (process {second['pid']})" in stopping.stdout
    assert "running turns may finish" in stopping.stderr
    assert describe(machine.paths.state / "gateway.lock") is None
    assert "No gateway is running." in machine.run("stop").stdout


def test_who_starts_a_home_with_the_workspace_of_another_is_told_so(machine: Machine) -> None:
    assert "warning" not in machine.run("start").stderr
    machine.run("--profile", "fam", "config", "set", "agents.defaults.workspace", "~/homebody")
    told = machine.run("restart").stderr
    assert f"{machine.home / 'homebody'}, the workspace of the agent main, is that of main of the profile fam, too" in told
    logged = (machine.paths.logs / "homebody.jsonl").read_text()
    assert "is that of main of the profile fam, too" in logged
    machine.run("stop")


def test_a_gateway_that_ends_at_once_says_why(machine: Machine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        machine.run("config", "set", "gateway.port", str(port))
        told = machine.run("start", code=1).stderr
    assert f"port {port} on 127.0.0.1 is taken" in told
    assert "homebody start" in told
    assert describe(machine.paths.state / "gateway.lock") is None


def test_invalid_settings_are_told_and_nothing_is_started(machine: Machine) -> None:
    (machine.paths.home / "homebody.yaml").write_text("gateway:\n  port: many\n")
    told = machine.run("start", code=3).stderr
    assert "gateway.port" in told
    assert not (machine.paths.logs / background.CONSOLE).exists()


def test_a_process_of_another_machine_or_container_is_not_killed(machine: Machine) -> None:
    lock = StateLock.acquire(machine.paths.state / "gateway.lock", Holder(pid=os.getpid(), boot="another", socket="x"))
    try:
        with pytest.raises(HomebodyError, match="not visible from here"):
            background.stop(machine.paths, ignored)
    finally:
        lock.release()


def test_a_process_that_lets_go_of_its_lock_while_it_ends_has_nothing_to_be_stopped(machine: Machine) -> None:
    lock = StateLock.acquire(machine.paths.state / "gateway.lock", Holder(pid=os.getpid(), boot="another", socket="x"))
    ending = threading.Timer(0.3, lock.release)
    ending.start()
    assert background.stop(machine.paths, ignored) is None
    ending.join()


def test_a_conversation_in_a_terminal_is_not_stopped(machine: Machine) -> None:
    lock = StateLock.acquire(machine.paths.state / "gateway.lock", Holder(pid=os.getpid()))
    try:
        for command in ("start", "stop"):
            assert "a conversation in a terminal" in machine.run(command, code=5).stderr
    finally:
        lock.release()


def test_a_gateway_that_does_not_end_is_told_with_the_next_step(machine: Machine) -> None:
    pid = json.loads(machine.run("start", "--json").stdout)["pid"]
    os.kill(pid, signal.SIGSTOP)
    told: list[str] = []
    with pytest.raises(HomebodyError, match="has not ended") as failed:
        background.stop(machine.paths, told.append, longest=0.5)
    assert f"kill -9 {pid}" in failed.value.hint
    os.kill(pid, signal.SIGCONT)


def test_the_service_is_installed_started_stopped_renewed_and_removed(machine: Machine) -> None:
    """With the manager of tests/peers, which starts the unit's program and waits for it to say that it is ready."""
    service = user_service(machine.paths, machine.env)
    assert "No service is installed" in machine.run("service", "status").stdout
    carry_out(service.install(), run_command, ignored)
    found = installed(machine.paths, machine.env)
    assert found is not None
    assert found.file == service.file
    holder = machine.holder()
    state = json.loads(machine.run("service", "status", "--json").stdout)
    assert state["pid"] == holder.pid
    assert (state["active"], state["startsWithMachine"]) == ("active", True)
    heard = (Path(machine.env["XDG_RUNTIME_DIR"]) / "homebody.service.heard").read_text()
    assert "WATCHDOG=1" in heard
    assert "STATUS=Serving terminal:default" in heard
    again = json.loads(machine.run("restart", "--json").stdout)
    assert again["service"] == "systemd (user)"
    assert again["pid"] != holder.pid
    assert json.loads(machine.run("start", "--json").stdout)["already"] is True
    assert json.loads(machine.run("stop", "--json").stdout)["pid"] == again["pid"]
    assert describe(machine.paths.state / "gateway.lock") is None
    assert json.loads(machine.run("service", "status", "--json").stdout)["active"] == "inactive"
    service.file.write_text(service.file.read_text().replace("RestartSec=5", "RestartSec=1"))
    assert "homebody service install" in machine.run("service", "status").stdout
    machine.run("service", "remove")
    assert not service.file.exists()
    assert installed(machine.paths, machine.env) is None
    assert machine.paths.home.exists()


def test_a_service_of_another_home_is_left_alone(machine: Machine, tmp_path: Path) -> None:
    carry_out(user_service(machine.paths, machine.env).install()[:1], run_command, ignored)
    other = {**machine.env, "HOMEBODY_HOME": str(tmp_path / "other")}
    told = Machine(machine.home, other).run("service", "remove", code=2).stderr
    assert "no service of this gateway is installed" in told
    assert "No gateway is running." in Machine(machine.home, other).run("stop").stdout


def test_nothing_is_changed_by_a_dry_run(machine: Machine) -> None:
    told = machine.run("service", "install", "--dry-run").stdout
    file = user_service(machine.paths, machine.env).file
    assert f"write {file}" in told
    assert "Type=notify" in told
    assert not file.exists()


def test_uninstall_removes_the_service_the_completion_and_the_state_and_never_the_notes(machine: Machine) -> None:
    service = user_service(machine.paths, machine.env)
    carry_out(service.install(), run_command, ignored)
    machine.run("completion", "bash", "--install")
    notes = machine.home / "homebody" / "MEMORY.md"
    assert notes.exists()
    planned = json.loads(machine.run("uninstall", "--state", "--dry-run", "--json").stdout)
    assert planned["state"] == [str(machine.paths.home)]
    assert planned["kept"] == [str(notes.parent)]
    assert service.file.exists()
    machine.run("uninstall", given="n\n", code=130)
    assert service.file.exists()
    machine.run("uninstall", "--state", "--yes")
    assert not service.file.exists()
    assert not machine.paths.home.exists()
    assert not (machine.home / ".local/share/bash-completion/completions/homebody").exists()
    assert notes.exists()


def test_a_workspace_inside_the_state_folder_survives_its_deletion(machine: Machine) -> None:
    from gateway.service.uninstall import plan_removal

    inside = machine.paths.home / "agents" / "main" / "notes"
    inside.mkdir(parents=True)
    (inside / "MEMORY.md").touch()
    plan_removal(machine.paths, machine.env, [inside], with_state=True).delete_state()
    left = {path.relative_to(machine.paths.home) for path in machine.paths.home.rglob("*")}
    assert left == {Path("agents"), Path("agents/main"), Path("agents/main/notes"), Path("agents/main/notes/MEMORY.md")}
