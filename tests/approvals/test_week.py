"""A normal week of an owner: few questions with the defaults, and each can be understood alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.questions import WEEK, run

if TYPE_CHECKING:
    from pathlib import Path


def test_an_owner_is_asked_at_most_five_times_a_day(tmp_path: Path):
    result = run(tmp_path)
    assert (result.tasks, result.refused) == (40, [])
    assert result.commands >= 40
    assert max(map(len, result.asked.values())) <= 5
    assert 10 <= sum(map(len, result.asked.values())) <= 25, "few questions, but the week must not be one without any"


def test_each_question_of_the_week_is_understandable_alone(tmp_path: Path):
    commands = [one.command for tasks in WEEK for task in tasks for one in task.runs]
    for text in (text for asked in run(tmp_path).asked.values() for text in asked):
        assert any(f"```\n{command}\n```" in text for command in commands)
        assert "in the folder `~/homebody" in text
        assert "Why I ask: " in text
        assert all(f"**{word}**" in text for word in ("Once", "Always", "Deny"))
