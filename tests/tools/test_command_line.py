"""A command counts as plain words only where a shell would make the same words of it."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.command_line import plain_words

NOT_PLAIN = [
    "",
    " ",
    "a;b",
    "a && b",
    "a | b",
    "a & b",
    "a &",
    "a\nb",
    "git status\r\nrm x",
    "git status\rrm x",
    "a\tb",
    "a\0b",
    "a $HOME",
    "a $(b)",
    "a `b`",
    'a "b"',
    "a $'b'",
    "a {b,c}",
    "a *",
    "a ?",
    "a [b]",
    "a ~",
    "a > b",
    "a < b",
    "a <<b",
    "a #b",
    "a !b",
    "a \\\nb",
    "a\\ b",
    "a (b)",
    "a 'b",
    "a 'b\nc'",
    "a 'bé'",
    "a\u00a0b",
    "LD_PRELOAD=x a",
    "PATH=/tmp ls",
    "''",
    "'' a",
    "'A=b' c",
    "cd notes",
    "time ls",
    "coproc rm x",
    "eval ls",
    ". file",
    "command ls",
    "exec ls",
]


@pytest.mark.parametrize("command", NOT_PLAIN)
def test_what_a_shell_would_read_otherwise_is_not_plain(command: str) -> None:
    assert plain_words(command) is None


def test_plain_commands_come_apart_into_their_words() -> None:
    assert plain_words("git log --since=2026-01-01 -n 5") == ("git", "log", "--since=2026-01-01", "-n", "5")
    assert plain_words("  du -sh  notes ") == ("du", "-sh", "notes")
    assert plain_words("grep -e 'a $(b); \"c\" \\' x.md") == ("grep", "-e", 'a $(b); "c" \\', "x.md")
    assert plain_words("./run.sh 'a''b'c") == ("./run.sh", "abc")


@given(st.text(alphabet="ab=/.-_%' \t\n;$`\"\\*~#&|<>(){}[]!?é\r\0", max_size=20).map(lambda text: f"x {text}"))
def test_any_plain_command_means_the_same_to_a_shell(command: str) -> None:
    words = plain_words(command)
    if words is not None:
        shell = f"x() {{ printf '%s\\0' \"$@\"; }}\n{command}"
        told = subprocess.run([shutil.which("bash") or "sh", "-c", shell], capture_output=True, check=True).stdout
        assert [one.decode() for one in told.split(b"\0")[:-1]] == (list(words[1:]) or [""])
