from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.clock import ManualClock
from memory.audience import OWNER, Audience
from memory.errors import MemoryTrouble
from memory.notes.version_store import VersionStore, revert_change
from memory.protocol import Author
from memory.settings import MemorySettings
from memory.workspace_memory import WorkspaceMemory
from tests.patience import PATIENCE

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
AGENT = Author("agent", "main", "telegram:1", "turn-7")


def test_versions_survive_a_restart_and_a_torn_line(tmp_path: Path) -> None:
    journal = VersionStore(tmp_path / "j")
    journal.record("MEMORY.md", "a\n", at=NOW)
    journal.record("MEMORY.md", "a\nb\n", at=NOW, author=AGENT)
    assert journal.record("MEMORY.md", "a\nb\n", at=NOW) is None
    with (tmp_path / "j/log.jsonl").open("a") as log:
        log.write('{"number": 3, "at"')
    again = VersionStore(tmp_path / "j")
    third = again.record("MEMORY.md", None, at=NOW)
    assert third is not None
    assert [(v.number, v.author.kind) for v in VersionStore(tmp_path / "j").versions("MEMORY.md")][-2:] == [
        (2, "agent"),
        (1, "owner"),
    ]
    assert "+b" in again.diff(again.version(2))
    with pytest.raises(MemoryTrouble):
        again.version(99)


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_taking_a_change_back_from_its_own_result_restores_what_was(before: list[str], after: list[str]) -> None:
    assert revert_change(before, after, after) == before


def test_undo_keeps_later_changes_of_other_lines_and_refuses_the_same_ones(tmp_path: Path) -> None:
    journal = VersionStore(tmp_path / "j")
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
    assert [v.number for _, v in memory.history.versions.blame("MEMORY.md") if v] == [1, 2, 3]
    assert await memory.history.log(audience=Audience("group", "family")) == []
    await memory.history.undo(3)
    assert path.read_text() == "- tea\n- by hand\n"
    with pytest.raises(MemoryTrouble, match="was undone already, by version 4"):
        await memory.history.undo(3)
    await memory.close()


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abc"), st.sampled_from(["", "x\n", "y\n", None])), max_size=25))
def test_several_processes_number_changes_as_one_would(acts: list[tuple[int, str, str | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journals = [VersionStore(Path(folder)) for _ in range(3)]
        for journal in journals:
            journal.versions()
        held: dict[str, str | None] = {}
        made = []
        for which, path, text in acts:
            version = journals[which].record(path, text, at=NOW)
            assert (version is None) == (held.get(path) == text)
            made += [version] if version else []
            held[path] = text
        assert [version.number for version in made] == list(range(1, len(made) + 1))
        for journal in journals:
            assert journal.versions() == made[::-1]


_WRITES = """
    import sys
    from datetime import UTC, datetime
    from pathlib import Path
    from memory.notes.version_store import Author, VersionStore

    journal = VersionStore(Path(sys.argv[1]))
    sys.stdin.readline()
    for number in range(40):
        journal.record("MEMORY.md" if number % 2 else f"memory/{sys.argv[2]}.md", f"{sys.argv[2]} {number}\\n",
                       at=datetime.now(UTC), author=Author("agent", sys.argv[2]))
"""


def test_no_number_is_given_twice_when_processes_write_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", textwrap.dedent(_WRITES), str(tmp_path / "j")]
    writers = [subprocess.Popen([*command, str(n)], stdin=subprocess.PIPE, env=environment) for n in range(3)]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"\n")
        writer.stdin.close()
    assert [writer.wait(PATIENCE) for writer in writers] == [0, 0, 0]
    journal = VersionStore(tmp_path / "j")
    assert [version.name for version in journal.versions()] == [str(n) for n in range(120, 0, -1)]
    for path in ("MEMORY.md", "memory/0.md", "memory/1.md", "memory/2.md"):
        chain = journal.versions(path)[::-1]
        assert [version.before for version in chain] == [None, *(version.after for version in chain[:-1])]


def test_a_number_of_two_changes_is_refused_with_their_names(tmp_path: Path) -> None:
    journal = VersionStore(tmp_path / "j")
    journal.record("MEMORY.md", "kept\n", at=NOW)
    journal.record("memory/agents.md", "by the agent\n", at=NOW, author=AGENT)
    journal.record("memory/owners.md", "by the owner\n", at=NOW)
    log = tmp_path / "j/log.jsonl"
    log.write_text(log.read_text().replace('"number": 3', '"number": 2'))  # as two processes left it
    journal = VersionStore(tmp_path / "j")
    assert [version.name for version in journal.versions()] == ["2.2", "2.1", "1"]
    with pytest.raises(
        MemoryTrouble, match=r"2\.1 by the agent in memory/agents\.md .*; 2\.2 by the owner in memory/owners\.md"
    ):
        journal.version(2)
    assert journal.version("2.1").path == "memory/agents.md"
    assert journal.version("2.2").path == "memory/owners.md"
    for wrong in ("2.3", "1.1", "3", "x", "2.x", "-1", ""):
        with pytest.raises(MemoryTrouble):
            journal.version(wrong)
    made = journal.record("MEMORY.md", "more\n", at=NOW)
    assert made is not None
    assert made.name == "3"


def test_a_journal_that_was_put_back_from_a_backup_is_read_anew(tmp_path: Path) -> None:
    journal = VersionStore(tmp_path / "j")
    journal.record("MEMORY.md", "one\n", at=NOW)
    backup = (tmp_path / "j/log.jsonl").read_bytes()
    journal.record("MEMORY.md", "two\n", at=NOW)
    (tmp_path / "j/new").write_bytes(backup)
    (tmp_path / "j/new").replace(tmp_path / "j/log.jsonl")
    assert [version.number for version in journal.versions()] == [1]
    again = journal.record("MEMORY.md", "two\n", at=NOW)
    assert again is not None
    assert (again.number, again.before) == (2, journal.version(1).after)
