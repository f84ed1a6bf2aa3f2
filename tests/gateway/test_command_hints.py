"""What the command line says to words that people try because other programs have them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gateway.cli.click_commands import COMMANDS, INSTEAD
from tests import programs

if TYPE_CHECKING:
    from pathlib import Path


def homebody(home: Path, *arguments: str, said: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": os.environ["PATH"], "HOME": str(home), "HOMEBODY_HOME": str(home / "state"), **env}
    return programs.run(
        [sys.executable, "-m", "gateway", *arguments], env=given, input=said, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("word", "hint"), [("restore", "backup restore FILE"), ("version", "--version")])
def test_a_word_of_similar_programs_is_answered_with_what_to_do(tmp_path: Path, word: str, hint: str) -> None:
    done = homebody(tmp_path, word)
    assert done.returncode == 2
    assert hint in done.stderr


def test_no_hint_hides_a_command() -> None:
    assert not set(INSTEAD) & set(COMMANDS)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("agent", "--agent", "nobody", "-m", "hello"), "homebody agents add nobody"),
        (("agents", "remove", "nobody"), "homebody agents list"),
        (("context",), "homebody chat --agent main"),
        (("tools", "list", "--agent", "nobody"), "homebody agents add nobody"),
        (("tools", "show", "nothing"), "homebody tools list"),
        (("config", "set", "agents.list[3].x", "1"), "homebody config page"),
        (("route", "explain", "--channel", "telegram", "--peer", "1"), "homebody setup"),
        (("auth", "remove", "nothing"), "homebody auth list"),
    ],
)
def test_what_does_not_exist_is_answered_with_the_command_that_shows_or_adds_it(
    tmp_path: Path, words: tuple[str, ...], hint: str
) -> None:
    done = homebody(tmp_path, *words)
    assert done.returncode == 2, done.stderr
    assert hint in done.stderr


def test_a_message_without_its_option_is_told_the_option(tmp_path: Path) -> None:
    done = homebody(tmp_path, "agent", "hello")
    assert done.returncode == 2
    assert "agent -m" in done.stderr


def test_a_dash_reads_the_message_from_standard_input(tmp_path: Path) -> None:
    done = homebody(tmp_path, "agent", "-m", "-", said="remember that the spare key is under the blue pot")
    assert "under the blue pot" in done.stdout, done.stderr


def test_a_note_that_could_not_be_written_is_a_failure(tmp_path: Path) -> None:
    homebody(tmp_path, "agent", "-m", "hello")
    memory = tmp_path / "homebody/memory"
    memory.rename(tmp_path / "away")
    memory.write_text("no folder any more")
    done = homebody(tmp_path, "agent", "-m", "remember that the spare key is under the blue pot")
    assert "could not write that down" in done.stderr
    assert done.returncode == 1


def test_moments_are_shown_in_the_owners_zone(tmp_path: Path) -> None:
    homebody(tmp_path, "agent", "-m", "remember that the spare key is under the blue pot")
    there = homebody(tmp_path, "memory", "log", TZ="Pacific/Kiritimati").stdout.split()
    here = homebody(tmp_path, "memory", "log", TZ="Pacific/Pago_Pago").stdout.split()
    assert "+00:00" not in " ".join(there)
    assert there[:3] != here[:3]


def test_a_notice_of_the_start_is_logged_once(tmp_path: Path) -> None:
    state = tmp_path / "state" / "state"
    state.mkdir(parents=True, mode=0o700)
    (state / "ledger.sqlite").write_bytes(b"no database " * 500)
    settings = tmp_path / "state" / "homebody.json"
    settings.write_text('{"gateway": {"port": 0}}')
    settings.chmod(0o600)
    given = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HOMEBODY_HOME": str(tmp_path / "state")}
    command = [sys.executable, "-m", "gateway", "gateway"]
    with programs.start(command, env=given, stderr=subprocess.PIPE, text=True) as gateway:
        assert gateway.stderr is not None
        said = ""
        for line in gateway.stderr:
            said += line
            if "listening" in line:
                gateway.terminate()
    assert said.count("It was set aside as") == 1, said
