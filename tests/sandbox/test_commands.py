"""Commands run confined, each as the runner would start it: what works, what does not, and where they may be."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from gateway.sandbox import restrict
from gateway.sandbox.bubblewrap import Bubblewrap
from gateway.sandbox.places import Places
from gateway.sandbox.protocol import CannotConfine, Limits, Request
from tests.sampling import parametrize_some
from tests.sandbox.conftest import NOBODY, python_for_others
from tests.sandbox.running import Confining, in_terminal, run

pytestmark = [pytest.mark.usefixtures("confining"), pytest.mark.cpu_seconds(60)]
MEANS = ("bwrap", "landlock")


def confining(place: Path, means: str, settings: dict | None = None, **exec_settings: object) -> Confining:
    said = {"tools": {"exec": {"sandbox": means, **exec_settings}}} | (settings or {})
    return Confining(place, {"agents": {"defaults": {"workspace": str(place / "workspace")}}} | said)


@pytest.mark.parametrize("means", MEANS)
async def test_ordinary_work_is_done(tmp_path: Path, means: str) -> None:
    house = confining(tmp_path, means)
    done = await house.run(
        "set -e; git init -q . && echo one > note && git add note && git -c user.name=a -c user.email=a@b commit -qm one && git log "
        "--oneline | wc -l; python3 -c 'import ssl; print(ssl.create_default_context().cert_store_stats()[\"x509_ca\"] > 0)'; "
        "du -s . >/dev/null; tar cf all.tar note && tar tf all.tar; cp -p note other; chmod +x other; "
        "date >/dev/null; mktemp >/dev/null; echo $HOME | xargs test -d; whoami"
    )
    assert done.stderr == ""
    assert done.stdout.split()[:3] == ["1", "True", "note"]
    assert (house.workspace / "note").read_text() == "one\n"
    assert done.returncode == 0


@pytest.mark.parametrize("means", MEANS)
async def test_sec_53_the_environment_is_made_from_nothing(tmp_path: Path, means: str) -> None:
    house = confining(tmp_path, means, pathPrepend=["/opt/none"])
    done = await house.run("env", "-0", env={"GREETING": "hello\nyou", "PATH": "/opt/none:/usr/bin:/bin"})
    said = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
    assert said.keys() - {"PWD", "SHLVL", "_", "OLDPWD"} == {
        *("PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "GIT_CONFIG_NOSYSTEM", "GREETING")
    }
    assert said["GREETING"] == "hello\nyou"
    assert "sk-canary" not in done.stdout


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize(("command", "code"), [("exit 7", 7), ("no-such-program", 127), ("kill -9 $$", 137)])
async def test_how_a_command_ends_is_told(tmp_path: Path, means: str, command: str, code: int) -> None:
    done = await confining(tmp_path, means).run(command)
    assert done.returncode in (code, code - 128 - 18)  # bubblewrap says 137, others end by the signal


@pytest.mark.parametrize("means", MEANS)
async def test_a_program_that_is_not_there_ends_with_127(tmp_path: Path, means: str) -> None:
    house = confining(tmp_path, means)
    assert (await house.run("no-such-program", "--x")).returncode == 127
    assert (await house.run(str(house.workspace), "--x")).returncode == 126


@pytest.mark.parametrize("means", MEANS)
@parametrize_some(3, "name", ["with space", "new\nline", "quote'\"$(x)", "-dash", "ümläut", "home/me/work"])
async def test_a_workspace_may_have_any_name(tmp_path: Path, means: str, name: str) -> None:
    place = tmp_path / name
    (place / "workspace" / "deep").mkdir(parents=True)
    house = confining(place, means)
    done = await house.run("pwd; echo x > made; ls ..", cwd=str(house.workspace / "deep"))
    assert done.stdout.startswith(f"{house.workspace / 'deep'}\n")
    assert (house.workspace / "deep/made").read_text() == "x\n"


@pytest.mark.parametrize("means", MEANS)
async def test_a_workspace_may_be_reached_by_a_link(tmp_path: Path, means: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "workspace").symlink_to(tmp_path / "real")
    done = await confining(tmp_path, means).run("echo x > made; cat */made")
    assert (tmp_path / "real/made").read_text() == "x\n"
    assert done.returncode in (0, 1)


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a file system")
@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("options", ["rw", "ro"])
async def test_a_workspace_may_lie_on_another_disk_and_on_a_read_only_one(tmp_path: Path, means: str, options: str) -> None:
    house = confining(tmp_path, means)
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(house.workspace)]
    if await asyncio.to_thread(subprocess.call, mount):
        pytest.skip("file systems cannot be mounted here")
    try:
        done = await house.run("echo x > made && cat made || echo refused")
    finally:
        await asyncio.to_thread(subprocess.check_call, ["umount", str(house.workspace)])
    assert done.stdout == ("x\n" if options == "rw" else "refused\n")


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("access", ["rw", "ro", "none"])
async def test_sec_54_the_workspace_is_as_accessible_as_the_settings_say(tmp_path: Path, means: str, access: str) -> None:
    house = confining(tmp_path, means)
    (house.workspace / "note").write_text("n")
    done = await house.run(
        f"cat {house.workspace}/note; echo x > {house.workspace}/made; echo y > $TMPDIR/made && echo tmp", access=access
    )
    assert done.stdout == {"rw": "ntmp\n", "ro": "ntmp\n", "none": "tmp\n"}[access]
    assert (house.workspace / "made").exists() == (access == "rw")


async def test_sec_54_what_is_hidden_stays_hidden_in_a_folder_that_is_shown(tmp_path: Path) -> None:
    """State, the settings file and another agent's workspace, all of them in folders that commands may read."""
    workspace = tmp_path / "workspace"
    (workspace / "nested").mkdir(parents=True)
    (workspace / "nested/note").write_text("another agent's")
    agents = {"list": [{"id": "main", "workspace": str(workspace)}, {"id": "work", "workspace": str(workspace / "nested")}]}
    house = Confining(tmp_path, {"agents": agents, "tools": {"exec": {"sandbox": "bwrap"}}})
    done = await house.run("cat nested/note; ls -A nested; echo x > nested/y; ls -A ..")
    assert "another" not in done.stdout
    assert done.stdout.split() == ["workspace"]
    assert not (workspace / "nested/y").exists()
    own = await house.run("cat note", agent="work", cwd=str(workspace / "nested"), workspace=str(workspace / "nested"))
    assert own.stdout == "another agent's"


async def test_sec_54_landlock_refuses_what_it_cannot_hide(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "nested").mkdir(parents=True)
    agents = {"list": [{"id": "main", "workspace": str(workspace)}, {"id": "work", "workspace": str(workspace / "nested")}]}
    house = Confining(tmp_path, {"agents": agents, "tools": {"exec": {"sandbox": "landlock"}}})
    with pytest.raises(CannotConfine, match="lies in"):
        await house.plan("true")


@pytest.mark.parametrize("means", MEANS)
async def test_with_the_network_names_and_servers_are_found_and_without_it_nothing(tmp_path: Path, means: str) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    ask = (
        "python3 - <<'E'\nimport socket\ntry:\n    print(socket.gethostbyname('localhost'))\n"
        f"    socket.create_connection(('127.0.0.1', {port}), 5)\n    print('connected')\nexcept OSError:\n    print('refused')\nE\n"
        "grep -c . /etc/resolv.conf /etc/hosts /etc/nsswitch.conf >/dev/null && echo readable"
    )
    with server:
        house = confining(tmp_path, means)
        assert (await house.run(ask, network=True)).stdout.split() == ["127.0.0.1", "connected", "readable"]
        assert (await house.run(ask)).stdout.split()[-1] == "refused"


@pytest.mark.parametrize("means", MEANS)
async def test_further_folders_are_readable_and_no_more(tmp_path: Path, means: str) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "greet").write_text("#!/bin/sh\necho greetings\n")
    (tools / "greet").chmod(0o755)
    house = confining(tmp_path, means, readPaths=[str(tools), str(tmp_path / "none")])
    done = await house.run(f"{tools}/greet; echo x > {tools}/made; ls {tmp_path}/.homebody")
    assert done.stdout == "greetings\n"
    assert sorted(path.name for path in tools.iterdir()) == ["greet"]


@pytest.mark.parametrize("means", MEANS)
async def test_sec_55_a_setting_cannot_give_away_what_is_secret(tmp_path: Path, means: str) -> None:
    wanted = ["/", "/proc", "~", "~/.ssh", str(tmp_path), str(tmp_path / ".homebody"), "relative"]
    house = confining(tmp_path, means, readPaths=wanted)
    done = await house.run(f"cat {tmp_path}/.homebody/secret; cat {tmp_path}/*/secret; ls {Path.home()}/.ssh /root")
    assert done.stdout == ""
    refused = (await house.sandbox.explain("main"))["refusedPaths"]
    assert refused.keys() == {path.replace("~", str(Path.home())) for path in wanted}


@pytest.mark.parametrize("means", MEANS)
async def test_sec_55_a_command_cannot_lead_a_readable_folder_elsewhere(tmp_path: Path, means: str) -> None:
    """A folder of the settings that lies in the workspace, or is reached through it, can be replaced by a link."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private/diary").write_text("dear diary")
    (tmp_path / "way").symlink_to(tmp_path / "workspace/bin")
    (tmp_path / "there").symlink_to("way")
    house = confining(tmp_path, means, readPaths=[str(tmp_path / "there")], pathPrepend=[str(tmp_path / "workspace/bin")])
    await house.run("ln -s ../private bin")
    done = await house.run(f"cat bin/diary {tmp_path}/private/diary {tmp_path}/there/diary")
    assert done.stdout == ""
    refused = (await house.sandbox.explain("main"))["refusedPaths"]
    assert set(refused) == {str(tmp_path / "there"), str(tmp_path / "workspace/bin")}
    assert all("leads through" in reason for reason in refused.values())


@pytest.mark.parametrize("means", MEANS)
async def test_a_command_starts_in_its_workspace_alone(tmp_path: Path, means: str) -> None:
    house = confining(tmp_path, means)
    for folder in (str(tmp_path), "/", str(house.workspace / ".." / ".homebody"), str(house.workspace / "none")):
        with pytest.raises(CannotConfine):
            await house.plan("true", cwd=folder)
    (house.workspace / "out").symlink_to(tmp_path / ".homebody")
    with pytest.raises(CannotConfine):
        await house.plan("true", cwd=str(house.workspace / "out"))
    with pytest.raises(CannotConfine):
        await house.plan("true", workspace="/proc", cwd="/proc")


@pytest.mark.parametrize("means", MEANS)
async def test_a_terminal_has_a_size_and_ctrl_c_reaches_the_command(tmp_path: Path, means: str) -> None:
    plan = await confining(tmp_path, means).plan(
        "stty size; trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done", pty=True
    )
    code, shown = in_terminal(plan, b"\x03", b"ready\r\n")
    assert shown.startswith(b"30 100\r\n")
    assert b"caught" in shown
    assert code == 3


@pytest.mark.parametrize("means", MEANS)
async def test_files_memory_and_temporary_files_have_limits(tmp_path: Path, means: str) -> None:
    limits = Limits(memory_bytes=256 << 20, file_bytes=1 << 20, tmp_bytes=4 << 20, processes=64)
    done = await confining(tmp_path, means).run(
        "head -c 3000000 /dev/zero > big; wc -c < big; python3 -c 'x = bytearray(400 << 20)' 2>&1 | tail -1; "
        "for i in 1 2 3 4 5 6 7 8; do head -c 1000000 /dev/zero > /tmp/$i; done 2>/dev/null; cat /tmp/? 2>/dev/null | wc -c",
        limits=limits,
    )
    size, memory, tmp = done.stdout.split("\n")[:3]
    assert int(size) == 1 << 20
    assert memory == "MemoryError"
    assert int(tmp) <= 4 << 20


@pytest.mark.skipif(os.getuid() != 0, reason="runs a command as another user")
def test_a_user_cannot_start_processes_without_end(tmp_path: Path) -> None:
    """Root is exempt from the kernel's limit; for root the runner counts."""
    python = python_for_others()
    if python is None:
        pytest.skip("no Python here that another user can start")
    place = Path("/tmp") / f"homebody-test-{os.getpid()}"  # noqa: S108
    place.mkdir()
    try:
        os.chown(place, NOBODY, NOBODY)
        request = Request(
            argv=("sh", "-c", "i=0; while [ $i -lt 60 ]; do sleep 20 & i=$((i+1)); done; echo all"),
            cwd=str(place),
            workspace=str(place),
            agent="main",
        )
        made = Bubblewrap(program=shutil.which("bwrap") or "", version=(0, 8, 0))
        plan = made.confine(request, Places(), Limits(processes=30))
        shutil.copy(restrict.__file__, place)
        (place / "restrict.py").chmod(0o644)
        program = (python, "-I", "-S", str(place / "restrict.py"))
        done = run(plan, program=program, user=NOBODY, group=NOBODY, extra_groups=[])
        assert "all" not in done.stdout
    finally:
        shutil.rmtree(place)
