from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.clock import ManualClock
from memory.audience import OWNER, Audience
from memory.errors import MemoryTrouble
from memory.journal import Author, Journal, _take_back
from memory.settings import MemorySettings
from memory.workspace import WorkspaceMemory

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
AGENT = Author("agent", "main", "telegram:1", "turn-7")


def test_versions_survive_a_restart_and_a_torn_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.record("MEMORY.md", "a\n", at=NOW)
    journal.record("MEMORY.md", "a\nb\n", at=NOW, author=AGENT)
    assert journal.record("MEMORY.md", "a\nb\n", at=NOW) is None
    with (tmp_path / "j/log.jsonl").open("a") as log:
        log.write('{"number": 3, "at"')
    again = Journal(tmp_path / "j")
    third = again.record("MEMORY.md", None, at=NOW)
    assert third is not None
    assert [(v.number, v.author.kind) for v in Journal(tmp_path / "j").versions("MEMORY.md")][-2:] == [
        (2, "agent"),
        (1, "owner"),
    ]
    assert "+b" in again.diff(again.version(2))
    with pytest.raises(MemoryTrouble):
        again.version(99)


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_taking_a_change_back_from_its_own_result_restores_what_was(before: list[str], after: list[str]) -> None:
    assert _take_back(before, after, after) == before


def test_undo_keeps_later_changes_of_other_lines_and_refuses_the_same_ones(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.record("m.md", "one\ntwo\nthree\n", at=NOW)
    changed = journal.record("m.md", "one\nTWO\nthree\n", at=NOW, author=AGENT)
    assert changed is not None
    assert journal.undone(changed, "zero\none\nTWO\nthree\nfour\n") == "zero\none\ntwo\nthree\nfour\n"
    with pytest.raises(MemoryTrouble, match="same lines"):
        journal.undone(changed, "one\n2\nthree\n")


async def test_agents_changes_are_told_from_the_owners_and_can_be_undone(tmp_path: Path) -> None:
    path = tmp_path / "ws/MEMORY.md"
    path.parent.mkdir()
    path.write_text("- tea\n")
    memory = WorkspaceMemory(tmp_path / "ws", tmp_path / "main.sqlite", MemorySettings(), agent="main", clock=ManualClock(NOW))
    await memory.sync()
    path.write_text("- tea\n- by hand\n")
    await memory.writing("MEMORY.md")
    path.write_text("- tea\n- by hand\n- by the agent\n")
    await memory.wrote("MEMORY.md", by=AGENT)
    versions = await memory.history.log(audience=OWNER)
    assert [(v.number, v.author.kind, v.author.session) for v in versions] == [
        (3, "agent", "telegram:1"),
        (2, "owner", ""),
        (1, "owner", ""),
    ]
    assert [v.number for _, v in memory.history.journal.blame("MEMORY.md") if v] == [1, 2, 3]
    assert await memory.history.log(audience=Audience("group", "family")) == []
    await memory.history.undo(3)
    assert path.read_text() == "- tea\n- by hand\n"
    with pytest.raises(MemoryTrouble, match=r"undone already|same lines"):
        await memory.history.undo(3)
    await memory.close()
