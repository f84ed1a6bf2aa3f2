"""Commands in texts are written as they work in the shell of the person who reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.base.errors import as_started, program_name, with_commands_as_started
from tests import programs

HOMEBODY = Path(sys.executable).with_name("homebody")


def test_a_program_on_the_path_is_called_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/homebody"
    program.touch(mode=0o755)
    link = tmp_path / "homebody"
    link.symlink_to(program)
    assert program_name(str(program), path=str(tmp_path / "bin"), cwd=tmp_path) == "homebody"
    assert program_name(str(link), path=str(tmp_path / "bin"), cwd=tmp_path) == "homebody"


def test_a_program_elsewhere_is_called_by_its_path(tmp_path: Path) -> None:
    program = tmp_path / "clone/.venv/bin/homebody"
    assert program_name(str(program), path="/nowhere", cwd=tmp_path / "clone") == ".venv/bin/homebody"
    assert program_name(str(program), path="/nowhere", cwd=tmp_path / "other") == str(program)
    assert program_name("/x/gateway/__main__.py", path="/nowhere") == "homebody"


def test_another_homebody_on_the_path_is_not_this_one(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "homebody").touch(mode=0o755)
    assert program_name(str(tmp_path / "one/homebody"), path=str(tmp_path / "other"), cwd=tmp_path) == "one/homebody"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Look at `homebody outbox list`.", "Look at `X outbox list`."),
        ("homebody -v gateway", "X -v gateway"),
        ("Begin with: homebody config set a b", "Begin with: X config set a b"),
        ("~/homebody chat", "~/homebody chat"),
        ("~/.homebody/homebody.yaml", "~/.homebody/homebody.yaml"),
        ("another Homebody process is using this folder", "another Homebody process is using this folder"),
        ("homebody: there is no such key", "homebody: there is no such key"),
        ("Talk to it with homebody chat, or stop it first.", "Talk to it with X chat, or stop it first."),
        ("docker compose exec homebody homebody chat", "docker compose exec homebody X chat"),
    ],
)
def test_only_commands_are_rewritten(text: str, expected: str) -> None:
    assert as_started(text, "X") == expected
    assert as_started(text, "homebody") == text


def test_json_has_commands_as_texts_have_them_and_what_others_wrote_as_it_is() -> None:
    facts = {
        "text": "Say homebody chat to me",
        "rows": [{"why": "look at homebody channels status", "mend": None, "count": 3}],
        "raise": ["homebody config set a b"],
    }
    assert with_commands_as_started(facts, name="X") == {
        "text": "Say homebody chat to me",
        "rows": [{"why": "look at X channels status", "mend": None, "count": 3}],
        "raise": ["X config set a b"],
    }
    assert with_commands_as_started(facts, name="homebody") == facts


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor", "--only", "keys", "--offline", "--json"),
        ("config", "set", "agents.defaults.model", "nowhere/x", "--json"),
        ("models", "status", "--json"),
        ("status", "--json"),
    ],
)
def test_json_of_a_program_that_is_not_on_the_path_names_no_command_by_its_bare_name(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HOMEBODY_HOME": str(tmp_path / "state")}
    done = programs.run([HOMEBODY, *arguments], env=env, capture_output=True, text=True, cwd=tmp_path, check=False)
    told = json.dumps(json.loads(done.stdout)).replace(str(HOMEBODY), "PATH")
    assert as_started(told, "X") == told, told
    assert "PATH " in told or arguments[0] in {"models", "status"}, told


def test_an_error_names_a_command_that_can_be_typed(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HOMEBODY_HOME": str(tmp_path / "state")}
    for arguments in (["config", "set", "gateway.prot", "1"], ["chatt"], ["agents", "remove", "nobody"]):
        done = subprocess.run(
            [HOMEBODY, *arguments], env=env, capture_output=True, text=True, cwd=HOMEBODY.parents[2], check=False
        )
        assert done.returncode == 2, done.stderr
        assert "homebody " not in done.stderr.replace(".venv/bin/homebody ", ""), done.stderr
    as_json = subprocess.run([HOMEBODY, "chatt", "--json"], env=env, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert str(HOMEBODY) in json.loads(as_json.stderr)["mend"]
    linked = tmp_path / "bin"
    linked.mkdir()
    (linked / "homebody").symlink_to(HOMEBODY)
    env["PATH"] = os.pathsep.join([str(linked), env["PATH"]])
    done = subprocess.run(["homebody", "chatt"], env=env, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "`homebody chat`" in done.stderr


def test_what_a_failed_turn_says_names_a_command_that_can_be_typed(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HOMEBODY_HOME": str(tmp_path / "state")}
    for arguments, said in (
        (["agent", "--model", "nowhere/none", "-m", "hello"], ""),
        (["chat", "--model", "nowhere/none"], "hello\n"),
    ):
        done = subprocess.run(
            [HOMEBODY, *arguments], env=env, input=said, capture_output=True, text=True, cwd=HOMEBODY.parents[2], check=False
        )
        told = done.stdout + done.stderr
        assert ".venv/bin/homebody " in told, told
        assert "homebody " not in told.replace(".venv/bin/homebody ", "").replace("homebody: ", ""), told
