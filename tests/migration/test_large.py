"""Large states: what they cost in memory, and the order of lines that are read backwards."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.migration.foreign_transcript import MOST_TEXT, lines_backwards, read_branch
from tests.migration.large_state import make
from tests.migration.test_migration import HOMEBODY, homebody, message
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

MEASURED = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
print(json.dumps([done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, done.stdout, done.stderr]))
"""


def measured(home: Path, *arguments: str) -> tuple[int, dict[str, object]]:
    """Run a command; return the most memory that it held, in MB, and what it printed."""
    env = {**os.environ, "HOME": str(home), "HOMEBODY_HOME": str(home / ".homebody")}
    command = [sys.executable, "-c", MEASURED, str(HOMEBODY), *arguments]
    out = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    code, megabytes, said, wrong = json.loads(out)
    assert code == 0, wrong
    return megabytes, json.loads(said)


@pytest.mark.parametrize("most", [40, pytest.param(120, marks=pytest.mark.long)])
def test_the_memory_does_not_grow_with_the_sessions(tmp_path: Path, most: int) -> None:
    costs = []
    for megabytes in (8, most):
        home = tmp_path / str(megabytes)
        home.mkdir()
        make(home / ".clawdbot", megabytes, 4)
        cost, facts = measured(home, "migrate", "from-clawdbot", str(home), "--dry-run", "--json")
        assert "what is older than these" in json.dumps(facts) or megabytes < 100
        costs.append(cost)
    assert costs[1] < costs[0] + most / 2, f"{costs} MB"


def test_broken_lines_do_not_end_a_conversation_and_the_latest_are_kept(tmp_path: Path) -> None:
    make(tmp_path / ".clawdbot", 3, 2)
    found = json.loads(homebody(tmp_path, "migrate", "from-clawdbot", str(tmp_path), "--json").stdout)
    told = {one["name"]: one["told"] for one in found["lines"] if one["kind"] == "sessions"}
    written = (tmp_path / ".clawdbot/agents/main/sessions/large-0.jsonl").read_bytes().count(b"\n")
    whole, broken = (
        int(word) for word in (told["agent:main:main"].split()[0], told["agent:main:main"].split("left out: ")[1].split()[0])
    )
    assert broken >= 3
    assert whole == written - broken


def test_a_terminal_is_shown_how_far_it_is(tmp_path: Path) -> None:
    make(tmp_path / ".clawdbot", 2, 3)
    ours, theirs = pty.openpty()
    env = {**os.environ, "HOME": str(tmp_path), "HOMEBODY_HOME": str(tmp_path / ".homebody")}
    command = [HOMEBODY, "migrate", "from-clawdbot", str(tmp_path), "--dry-run"]
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=theirs, timeout=PATIENCE, check=True)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # Linux ends a terminal whose other side is closed like this
        pass
    os.close(ours)
    assert b"Conversations of main: 2 of 3, 1 MB of 2 MB" in shown


@given(
    lines=st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=12),
    piece=st.integers(1, 9),
    end=st.booleans(),
)
def test_lines_read_backwards_are_the_lines(lines: list[bytes], piece: int, end: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if end else b"")
    assert list(lines_backwards(io.BytesIO(data), piece)) == [line for line in reversed(data.split(b"\n")) if line.strip()]


def test_no_more_text_is_kept_than_a_session_may_hold() -> None:
    text = "x" * (MOST_TEXT // 3)
    rows = [message(str(number), str(number - 1) if number else None, text) for number in range(6)]
    found = read_branch(row.encode() for row in reversed(rows))
    assert found.cut
    assert len(found.messages) == 3
