"""``homebody skills`` shows, installs, approves and removes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import gateway
from tests import programs
from tests.skills.conftest import write_skill

ROOT = Path(gateway.__file__).parents[1]


@pytest.fixture
def homebody(tmp_path: Path) -> Any:
    def run(*arguments: str, said: str = "") -> tuple[int, str, str]:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "HOMEBODY_HOME": str(tmp_path / "home"),
            "PYTHONPATH": str(ROOT),
        }
        command = [sys.executable, "-m", "gateway", "skills", *arguments]
        ran = programs.run(command, env=env, capture_output=True, text=True, check=False, input=said)
        return ran.returncode, ran.stdout, ran.stderr

    return run


def states(homebody: Any) -> dict[str, str]:
    return {one["name"]: one["state"] for one in json.loads(homebody("list", "--json")[1])["skills"]}


def test_a_skill_is_installed_after_a_yes_and_removed_again(homebody: Any, tmp_path: Path):
    source = write_skill(tmp_path / "down" / "bread", description="Bakes bread.")
    (source / "scripts").mkdir()
    (source / "scripts" / "bake.sh").write_text("#!/bin/sh\necho baked\n")
    (source / "scripts" / "bake.sh").chmod(0o755)
    (source / ".git").mkdir()
    (source / ".git" / "config").write_text("[core]\n")
    code, out, _ = homebody("install", str(source), said="n\n")
    assert (code, "scripts/bake.sh" in out, "Bakes bread." in out) == (130, True, True)
    assert "bread" not in states(homebody)
    code, out, _ = homebody("install", str(source), said="y\n")
    assert (code, states(homebody)["bread"]) == (0, "ready")
    installed = tmp_path / "home" / "skills" / "bread"
    assert os.access(installed / "scripts" / "bake.sh", os.X_OK)
    assert not (installed / ".git").exists()
    assert [one.name for one in installed.parent.iterdir()] == ["bread"]
    (installed / "SKILL.md").write_text("---\nname: bread\ndescription: Other.\n---\n")
    assert states(homebody)["bread"] == "changed"
    assert "changed since you approved it" in homebody("check")[1]
    code, _, err = homebody("install", str(source), said="")
    assert (code, "Add --yes" in err) == (2, True)
    assert homebody("install", str(source), "--yes")[0] == 0
    assert states(homebody)["bread"] == "ready"
    code, out, _ = homebody("remove", "bread", "--yes")
    assert (code, "bread" in states(homebody), installed.exists()) == (0, False, False)


def test_a_skill_of_the_workspace_is_approved_as_it_was_shown(homebody: Any, tmp_path: Path):
    folder = write_skill(tmp_path / "homebody" / "skills" / "bread")
    shown = json.loads(homebody("show", "bread", "--json")[1])
    assert shown["state"] == "unapproved"
    (folder / "more.md").write_text("more")
    code, _, err = homebody("approve", "bread", "--digest", shown["digest"], "--yes")
    assert (code, "not the one with the digest" in err) == (2, True)
    assert homebody("approve", "bread", "--json")[0] == 2
    assert homebody("approve", "bread", said="y\n")[0] == 0
    assert states(homebody)["bread"] == "ready"
    code, out, _ = homebody("remove", "bread", "--yes")
    assert (code, states(homebody)["bread"], "was not deleted" in out) == (0, "unapproved", True)


def test_errors_name_what_to_do(homebody: Any, tmp_path: Path):
    (tmp_path / "no").mkdir()
    bad = write_skill(tmp_path / "bad", name="other")
    (bad / "x").symlink_to("/etc/passwd")
    for arguments, said in (
        (("show", "day-plann"), "Did you mean day-plan?"),
        (("install", str(tmp_path / "no")), "no folder with a SKILL.md"),
        (("install", str(bad)), "is a link"),
        (("remove", "day-plan"), "skills.entries.day-plan.enabled false"),
        (("install", str(write_skill(tmp_path / "fine")), "--json"), "--yes"),
    ):
        code, _, err = homebody(*arguments)
        assert (code, said in err) == (2, True), err


def test_check_says_what_each_one_lacks(homebody: Any):
    code, out, _ = homebody("check")
    assert (code, "the setting mail.accounts is not made" in out) == (0, True)
    assert "docs/mail.md shows how to add a mail account" in out
    left = {one["name"] for one in json.loads(homebody("check", "--json")[1])["left"]}
    assert left == {"mail-triage", "day-plan"}
