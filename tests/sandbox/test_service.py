"""Which means confines whose commands: by the settings, and by what works when the whole recipe is tried."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gateway.cli import main
from gateway.sandbox.probe import why_forbidden
from gateway.sandbox.protocol import CannotConfine
from tests.descriptors import free_descriptors, open_descriptors
from tests.sandbox.running import Confining, run

if TYPE_CHECKING:
    from gateway.sandbox.protocol import Standing

pytestmark = [pytest.mark.usefixtures("confining"), pytest.mark.cpu_seconds(60)]


def tools(path: Path, monkeypatch: pytest.MonkeyPatch, bwrap: str | None = None) -> None:
    """Make a PATH that has no bwrap, or this one."""
    path.mkdir()
    if bwrap is not None:
        (path / "bwrap").write_text(f"#!/bin/sh\n{bwrap}\n")
        (path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(path))


async def standing(place: Path, main: bool = True, **settings: object) -> Standing:
    sandbox = settings.pop("mode", None)
    agents = {"defaults": {"workspace": str(place / "workspace"), **({"sandbox": {"mode": sandbox}} if sandbox else {})}}
    return await Confining(place, {"agents": agents, "tools": {"exec": settings}}).sandbox.standing("main", main=main)


async def test_bubblewrap_is_taken_where_it_works(tmp_path: Path) -> None:
    found = await standing(tmp_path)
    assert (found.rung, found.reason, found.usable) == ("bwrap", "", True)


@pytest.mark.parametrize("free", [0, 8, 16])
async def test_a_trial_that_found_no_descriptors_says_nothing_lasting(tmp_path: Path, free: int) -> None:
    sandbox = Confining(tmp_path, {"agents": {"defaults": {"workspace": str(tmp_path / "workspace")}}}).sandbox
    before = open_descriptors()
    with free_descriptors(free):
        found = await sandbox.standing("main")
    assert (found.rung, sandbox.known_standing("main")) == ("off", None)
    assert "Too many open files" in found.reason
    assert open_descriptors() <= before
    found = await sandbox.standing("main")
    assert (found.rung, found.reason) == ("bwrap", "")
    assert sandbox.known_standing("main") == found


async def test_without_bubblewrap_landlock_is_taken_and_the_mend_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools(tmp_path / "bin", monkeypatch)
    found = await standing(tmp_path)
    assert (found.rung, found.usable) == ("landlock", True)
    assert found.reason == "bubblewrap is not installed"
    assert "install bubblewrap" in found.hint


async def test_a_means_that_is_asked_for_and_does_not_work_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools(tmp_path / "bin", monkeypatch)
    house = Confining(tmp_path, {"tools": {"exec": {"sandbox": "bwrap"}}})
    found = await house.sandbox.standing("main")
    assert (found.rung, found.usable) == ("off", False)
    with pytest.raises(CannotConfine, match="not installed"):
        await house.plan("true")


async def test_a_bubblewrap_that_is_forbidden_namespaces_is_not_relied_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "echo 'bwrap: Creating new namespace failed: Operation not permitted' >&2; exit 1"
    tools(tmp_path / "bin", monkeypatch, f'[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit; {said}')
    found = await standing(tmp_path)
    assert found.rung == "landlock"
    assert "Creating new namespace failed" in found.reason
    assert found.hint


async def test_a_bubblewrap_that_cannot_be_run_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools(tmp_path / "bin", monkeypatch, "")
    (tmp_path / "bin" / "bwrap").write_bytes(b"\x7fELF, of another machine")
    found = await standing(tmp_path)
    assert found.rung == "landlock"
    assert "trying it failed" in found.reason


async def test_a_bubblewrap_that_does_not_confine_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers, exits with 0 and runs the command, without any confinement."""
    lying = '[ "$1" = --version ] && echo bubblewrap 0.8.0 && exit; while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
    tools(tmp_path / "bin", monkeypatch, lying)
    found = await standing(tmp_path, sandbox="bwrap")
    assert not found.usable
    assert "a command could reach" in found.reason


async def test_a_means_that_lacks_one_thing_is_used_without_it_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container, which hides parts of /proc: namespaces may be made, and /proc cannot be mounted in them."""
    real = shutil.which("bwrap")
    picky = f"""import os, sys
if "--version" not in sys.argv and b"--proc" in open("/dev/fd/3", "rb").read().split(b"\\0"):
    sys.exit("bwrap: Can't mount proc on /newroot/proc: Operation not permitted")
os.execv({real!r}, [{real!r}, *sys.argv[1:]])
"""
    tools(tmp_path / "bin", monkeypatch, "")
    (tmp_path / "bin/bwrap").write_text(f"#!{sys.executable}\n{picky}")
    house = Confining(tmp_path)
    found = await house.sandbox.standing("main")
    assert (found.rung, found.usable) == ("bwrap", True)
    assert "have no /proc" in found.reason
    assert "mount proc" in found.reason
    assert (await house.run("ls /proc; echo works")).stdout == "works\n"


@pytest.mark.parametrize(
    ("settings", "main_rung", "other_rung"),
    [
        ({}, "bwrap", "bwrap"),
        ({"mode": "all"}, "bwrap", "bwrap"),
        ({"mode": "off"}, "off", "off"),
        ({"mode": "non-main"}, "off", "bwrap"),
        ({"sandbox": "off"}, "off", "off"),
        ({"sandbox": "landlock"}, "landlock", "landlock"),
        ({"sandbox": "landlock", "mode": "off"}, "landlock", "landlock"),
        ({"sandbox": "off", "mode": "all"}, "off", "off"),
    ],
)
async def test_the_settings_of_the_documents_and_ours_agree(
    tmp_path: Path, settings: dict, main_rung: str, other_rung: str
) -> None:
    assert (await standing(tmp_path, **settings)).rung == main_rung
    assert (await standing(tmp_path, main=False, **settings)).rung == other_rung


async def test_each_agent_has_its_own_choice(tmp_path: Path) -> None:
    listed = [
        {"id": "main", "workspace": str(tmp_path / "workspace")},
        {"id": "open", "workspace": str(tmp_path / "open"), "tools": {"exec": {"sandbox": "off"}}},
    ]
    house = Confining(tmp_path, {"agents": {"list": listed}})
    assert (await house.sandbox.standing("main")).rung == "bwrap"
    assert (await house.sandbox.standing("open")).rung == "off"


async def test_nothing_is_known_before_it_was_tried(tmp_path: Path) -> None:
    house = Confining(tmp_path)
    assert house.sandbox.known_standing("main") is None
    assert house.sandbox.known_standing("nobody") is None
    found = await house.sandbox.standing("main")
    assert house.sandbox.known_standing("main") == found


async def test_sec_53_an_unconfined_command_has_no_key_of_the_gateway_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-canary")
    done = run(await Confining(tmp_path, {"tools": {"exec": {"sandbox": "off"}}}).plan("env; cat /proc/$$/environ"))
    assert done.returncode == 0
    assert "sk-canary" not in done.stdout


async def test_what_can_be_reached_is_explained_for_each_origin(tmp_path: Path) -> None:
    house = Confining(tmp_path, {"agents": {"defaults": {"workspace": str(tmp_path / "w"), "sandbox": {"mode": "non-main"}}}})
    facts = await house.sandbox.explain("main")
    assert facts["origins"]["owner"]["rung"] == "off"
    assert {said["rung"] for origin, said in facts["origins"].items() if origin != "owner"} == {"bwrap"}
    assert facts["limits"]["processes"] == 256
    json.dumps(facts)


def test_the_commands_explain_and_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = ["--home", str(tmp_path / ".homebody")]
    assert main([*home, "sandbox", "explain", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["origins"]["guest"]["rung"] == "bwrap"
    assert main([*home, "sandbox", "explain"]) == 0
    assert "they are confined by bubblewrap" in capsys.readouterr().out
    assert main([*home, "sandbox", "check"]) == 0
    assert capsys.readouterr().out.endswith("It holds.\n")
    assert main([*home, "sandbox", "explain", "--agent", "nobody"]) == 2


def test_the_check_of_what_is_not_confined_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".homebody").mkdir()
    (tmp_path / ".homebody/homebody.yaml").write_text("tools: {exec: {sandbox: off}}\n")
    assert main(["--home", str(tmp_path / ".homebody"), "sandbox", "check", "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert not facts["holds"]
    assert facts["canaries"]["home"]["confined"] is None
    assert facts["canaries"]["home"]["unconfined"]


@pytest.mark.parametrize(
    ("file", "value", "hint"),
    [
        ("proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        ("proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
        ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "bwrap-userns-restrict"),
        (".dockerenv", "", "security_opt"),
        ("run/.containerenv", "", "security_opt"),
        ("nothing", "", "docs/confinement.md"),
    ],
)
def test_what_forbids_namespaces_is_said_with_its_mend(tmp_path: Path, file: str, value: str, hint: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(f"{value}\n")
    assert hint in why_forbidden("bwrap: Creating new namespace failed: Operation not permitted", str(tmp_path))


def test_a_systemd_unit_is_suspected_where_systemd_started_this(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INVOCATION_ID", "1")
    assert "RestrictNamespaces" in why_forbidden("bwrap: setting up uid map: Permission denied", str(tmp_path))


def test_the_page_that_hints_name_is_there() -> None:
    assert (Path(__file__).parents[2] / "docs/confinement.md").is_file()
    assert os.environ["PATH"]
