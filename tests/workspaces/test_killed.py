"""Two machines are killed (SIGKILL) at each step of committing, fetching, joining, writing and pushing, in turn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import programs
from tests.workspaces.test_git_workspace import PLACES

if TYPE_CHECKING:
    from tests.workspaces.clones import Clones

PROGRAM = Path(__file__).with_name("working_program.py")


def kill_again_and_again(clones: Clones, places: list[str]) -> None:
    written: dict[str, set[str]] = {}
    killed = 0
    for number, place in enumerate(places):
        for name in ("one", "two"):
            done = programs.run(
                [sys.executable, PROGRAM, clones.folder, name, f"{number}"],
                env={**os.environ, "HOMEBODY_FAULT": place if name == "one" or number % 2 else ""},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            assert done.returncode in {0, -signal.SIGKILL}, done.stderr
            killed += done.returncode != 0
            for row in done.stdout.splitlines():
                path, _, line = row.partition("\t")
                written.setdefault(path, set()).add(line)
    machines = [clones.clone("one"), clones.clone("two")]
    for one in machines * 2:
        one.sync()
    files = machines[0].files()
    assert files == machines[1].files()
    lines = [line for text in files.values() for line in text.splitlines()]
    for path, wanted in written.items():
        stem = Path(path).stem
        there = {line for name, text in files.items() if Path(name).name.startswith(stem) for line in text.splitlines()}
        assert wanted <= there
    assert lines
    assert killed >= len(places) // 2


def test_machines_that_are_killed_lose_nothing(clones: Clones) -> None:
    kill_again_and_again(clones, ["after-git-write:2", "before-git-advance:3"])


@pytest.mark.long
def test_machines_that_are_killed_at_every_step_lose_nothing(clones: Clones) -> None:
    kill_again_and_again(clones, [f"{place}:{count}" for count in (1, 2, 4) for place in PLACES])
