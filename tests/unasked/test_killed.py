"""The process is killed at every durable step of a night of held messages: each arrives once, in order."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests import programs
from tests.sampling import parametrize_some
from tests.unasked.night import MESSAGES, lines

ROOT = Path(__file__).parents[2]
STEPS = (
    ("night", "enqueue:2"),
    ("night", "release"),
    *(("morning", step) for step in ("release", "sending:2", "sent:2", "send")),
)


def life(folder: Path, part: str, fault: str = "") -> int:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOMEBODY_FAULT": fault}
    command = [sys.executable, "-m", "tests.unasked.night", part, str(folder)]
    return programs.run(command, env=env, cwd=ROOT, check=False).returncode


@pytest.mark.parametrize("moment", ["before", "after"])
@parametrize_some(3, ("part", "step"), STEPS)
def test_each_message_arrives_once_whatever_step_is_cut_off(tmp_path: Path, part: str, step: str, moment: str) -> None:
    if part == "morning":
        assert life(tmp_path, "night") == 0
    assert life(tmp_path, part, f"{moment}-{step}") == -signal.SIGKILL, "the step is taken"
    for rest in ("night", "morning")[part == "morning" :]:
        assert life(tmp_path, rest) == 0
    assert sorted(lines(tmp_path)) == [str(number) for number in range(MESSAGES)]
    assert lines(tmp_path)[:3] == ["0", "1", "2"], "the number of a day comes first, in order"
