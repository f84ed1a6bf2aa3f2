"""Commands in texts are written as they work in the shell of the person who reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.base.errors import as_started, program_name, with_commands_as_started, write_commands_with
from gateway.base.paths import Paths
from gateway.cli import main
from gateway.routing.access import pairing_text
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


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--profile", "work"), "--profile work"),
        (("--profile=work",), "--profile work"),
        (("--home", "{}/else where"), "--home '{}/else where'"),
        (("--home", "{}/.homebody-work", "--profile", "work"), "--profile work"),
        (("--config", "{}/own.yaml"), "--config {}/own.yaml"),
        (("--home", "{}/.homebody"), ""),
        ((), ""),
    ],
)
def test_a_command_that_is_told_is_about_the_home_of_the_one_that_tells_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HOMEBODY_HOME")
    (tmp_path / "own.yaml").touch()
    options = [one.format(tmp_path) for one in given]
    named = " ".join(["homebody", *([told.format(tmp_path)] if told else [])])
    assert main([*options, "status"]) == 1
    assert f"Start it with: {named} start" in capsys.readouterr().out
    assert main([*options, "resume"]) != 0
    assert f"{named} start" in capsys.readouterr().err, "an error, too"
    assert as_started("homebody start", "homebody") == "homebody start", "and later commands of this process are not"


def test_a_command_that_names_a_home_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home, copy, file = tmp_path / "home", tmp_path / "copy", tmp_path / "b.tar.gz"
    assert main(["--home", str(home), "agent", "-m", "Remember that the door is green."]) == 0
    assert main(["--home", str(home), "backup", "create", "--to", str(file)]) == 0
    capsys.readouterr()
    assert main(["--home", str(home), "backup", "restore", str(file), "--into", str(copy)]) == 0
    assert capsys.readouterr().out.rstrip().endswith(f"then start this one: homebody --home {copy} start")


def test_a_gateway_tells_the_shortest_options_that_find_its_home() -> None:
    env = {"HOME": "/people/anna"}
    work = Paths.find(env, home=Path("/people/anna/.homebody-work"), profile="work")
    assert work.options(env) == "--profile work"
    assert work.options(env | {"HOMEBODY_PROFILE": "work"}) == ""
    assert Paths.find(env).options(env | {"HOMEBODY_PROFILE": "work"}) == "--profile default"
    assert Paths.find(env, home=Path("/srv/x"), profile="work").options(env) == "--home /srv/x --profile work"
    assert Paths.find(env, home=Path("/srv/x")).options(env) == "--home /srv/x"


def test_what_a_stranger_is_told_in_the_chat_lets_them_into_the_profile_of_the_bot() -> None:
    write_commands_with(lambda: "--profile work")
    try:
        assert pairing_text("telegram", "ABCD").endswith("`homebody --profile work pairing approve telegram ABCD`")
        assert as_started("homebody --profile play chat", "X") == "X --profile play chat"
        facts = {"text": "say homebody chat", "mend": "homebody start"}
        assert with_commands_as_started(facts) == {"text": "say homebody chat", "mend": "homebody --profile work start"}
    finally:
        write_commands_with(None)
