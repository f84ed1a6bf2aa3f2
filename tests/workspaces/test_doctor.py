"""What the doctor says of workspaces that are kept in repositories."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.paths import Paths
from gateway.cli.workspace import lines_of
from gateway.config.load import check
from gateway.doctor.checked_installation import Installation
from gateway.doctor.file_access import PERMISSIONS
from gateway.doctor.workspace_check import WORKSPACES, findings_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workspaces.clones import Clones

IN_STEP: dict[str, Any] = {
    "agent": "main",
    "remote": "/mnt/nas/main.git",
    "branch": "main",
    "workspace": "/home/ann/homebody",
    "ahead": 0,
    "lastPull": "2026-11-26T10:00:00+00:00",
    "trouble": None,
    "gone": [],
    "goneCount": 0,
}
AWAY = {"kind": "away", "text": "no answer", "mend": "It is tried again.", "since": "2026-11-26T10:00:00+00:00"}


def test_a_workspace_in_step_is_fine() -> None:
    assert [one.level for one in findings_of(IN_STEP)] == ["ok"]
    assert lines_of(IN_STEP, str) == [
        "main: /home/ann/homebody, kept in /mnt/nas/main.git (main): in step.",
        "  last looked at: 2026-11-26T10:00:00+00:00",
    ]


@pytest.mark.parametrize(
    ("facts", "level", "words"),
    [
        ({"trouble": AWAY, "ahead": 3}, "warning", "not in step with its repository since 2026-11-26T10:00"),
        ({"trouble": {**AWAY, "kind": "refused"}}, "error", "not in step"),
        ({"gone": ["a.md"], "goneCount": 12}, "error", "12 files of the workspace of main are gone or templates again"),
        ({"sideBySide": ["MEMORY.conflict-2026-11-26.md"]}, "note", "both versions are there: MEMORY.conflict-2026-11-26.md"),
        ({"unapplied": {"a.md": "no space left"}}, "warning", "a.md could not be written: no space left"),
        ({"leftOut": {"a.md": "holds a secret of this machine"}, "leftOutCount": 1}, "warning", "a.md holds a secret"),
        ({"damaged": "/state/damaged-2026-11-26.git"}, "note", "was damaged"),
    ],
)
def test_what_keeps_a_workspace_out_of_step_is_found_with_what_mends_it(facts: dict[str, Any], level: str, words: str) -> None:
    found = next(iter(findings_of(IN_STEP | facts)))
    assert (found.level, words in found.what) == (level, True)
    assert found.mend
    told = "\n".join(lines_of(IN_STEP | facts, str))
    assert len(told.splitlines()) > 2 or "wait to be pushed" in told


def test_objects_of_git_that_are_read_only_are_no_fault(clones: Clones, tmp_path: Path) -> None:
    from gateway.base.paths import Paths
    from gateway.doctor.checked_installation import Installation

    home = tmp_path / "home"
    paths = Paths(home)
    paths.prepare()
    one = clones.clone("one")
    one.write("a.md", "a\n")
    one.sync()
    one.kept.close()
    paths.agent("main").mkdir(mode=0o700)
    one.state.rename(paths.agent("main") / "workspace")
    found = list(PERMISSIONS.examine(Installation(paths=paths, env={}, cwd=tmp_path)))  # type: ignore[arg-type]
    assert [one.what for one in found if one.level == "error"] == []


async def test_a_git_that_is_too_old_is_found_without_a_gateway(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin" / "git"
    old.write_text("#!/bin/sh\necho git version 2.20.1\n")
    old.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    store = {"type": "git", "remote": str(tmp_path / "all.git")}
    (home / "homebody.json").write_text(json.dumps({"agents": {"defaults": {"workspaceStore": store}}}))
    env = {"PATH": str(old.parent), "HOME": str(tmp_path)}
    found = await WORKSPACES.examine(Installation(paths=Paths(home=home), env=env, cwd=tmp_path))
    assert [(one.level, "2.20.1 is too old" in one.what, one.mend) for one in found] == [
        ("error", True, "sudo apt install git")
    ]


def test_a_repository_without_an_address_is_an_error_of_the_settings(tmp_path: Path) -> None:
    source = tmp_path / "homebody.json"
    for agents, key in (
        ({"defaults": {"workspaceStore": {"type": "git"}}}, "agents.defaults.workspaceStore.remote"),
        ({"list": [{"id": "a", "workspaceStore": {"type": "git"}}]}, "agents.list.0.workspaceStore.remote"),
    ):
        [problem] = check(json.dumps({"agents": agents}), source, {"HOME": str(tmp_path)}).problems
        assert "git needs the address" in problem.message
        assert f"config set {key} " in problem.hint
