"""``homebody memory tidy`` in a terminal: how it is answered, and what becomes of answers when it is broken off."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from memory.notes.sources import NoteSources
from memory.notes.tidying import as_json, proposals_of, shown_lines
from tests.setup.person import Home, answered
from tests.stories.terminal import CTRL_C, Terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

MEMORY = "- The alarm code is 4711\n- The alarm has the code 4711, says Anna\n- Golf for sale\n"
LISTED: tuple[dict[str, Any], ...] = (
    {"kind": "merge", "lines": ["MEMORY.md:1", "MEMORY.md:2"], "text": "The alarm code is 4171", "why": "same"},
    {"kind": "stale", "lines": ["MEMORY.md:3"], "text": "", "why": "sold"},
)


@pytest.fixture
async def window() -> AsyncIterator[Terminal]:
    made = Terminal()
    yield made
    await made.close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home whose proposals for its notes wait for the owner."""
    made = Home(tmp_path / "home", {})
    workspace = made.folder / "homebody"
    workspace.mkdir(parents=True)
    (workspace / "MEMORY.md").write_text(MEMORY)
    shown, _ = shown_lines(NoteSources(workspace), lambda _, text: text.splitlines(), most_chars=9_000)
    kept = {"form": 2, "at": "2026-01-01T00:00:00+00:00", "proposals": as_json(proposals_of(LISTED, shown)), "rejected": []}
    state = made.state / "agents" / "main"
    state.mkdir(parents=True)
    (state / "tidy.json").write_text(json.dumps(kept))
    return made


async def test_yes_and_capitals_are_taken_and_lost_names_and_new_numbers_are_shown(home: Home, window: Terminal) -> None:
    await window.open(home, "memory", "tidy")
    at = await answered(window, "Apply it?", "x")
    assert await window.until("answer with y, n, l or q", since=at)
    assert "Lost: 4711, Anna" in window.shown
    assert "In none of the lines: 4171" in window.shown
    at = await answered(window, "Apply it?", "No", since=at)
    await answered(window, "Apply it?", "YES", since=at)
    assert await window.until("1 applied, 1 dismissed, 0 waiting.")
    assert await window.until_ended(60) == 0
    assert (home.folder / "homebody/MEMORY.md").read_text() == MEMORY.replace("- Golf for sale\n", "")


async def test_breaking_off_after_an_answer_says_that_nothing_was_applied(home: Home, window: Terminal) -> None:
    await window.open(home, "memory", "tidy")
    at = await answered(window, "Apply it?", "y")
    assert await window.until("Apply it?", since=at)
    window.press(CTRL_C)
    assert await window.until("Nothing was applied and nothing dismissed")
    assert await window.until_ended(60) != 0
    assert (home.folder / "homebody/MEMORY.md").read_text() == MEMORY
