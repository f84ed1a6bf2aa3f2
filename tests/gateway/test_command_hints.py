"""What the command line says to words that people try because other programs have them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from gateway.cli import COMMANDS, INSTEAD

if TYPE_CHECKING:
    from pathlib import Path


def homebody(home: Path, *arguments: str, said: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": os.environ["PATH"], "HOME": str(home), "HOMEBODY_HOME": str(home / "state"), **env}
    return subprocess.run(
        [sys.executable, "-m", "gateway", *arguments], env=given, input=said, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("word", "hint"), [("start", "homebody gateway"), ("stop", "Ctrl-C"), ("logs", "homebody.jsonl"), ("doctor", "probe")]
)
def test_a_word_of_similar_programs_is_answered_with_what_to_do(tmp_path: Path, word: str, hint: str) -> None:
    done = homebody(tmp_path, word)
    assert done.returncode == 2
    assert hint in done.stderr


def test_no_hint_hides_a_command() -> None:
    assert not set(INSTEAD) & set(COMMANDS)


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
