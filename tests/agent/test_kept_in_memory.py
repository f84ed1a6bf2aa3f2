"""What a gateway that runs for months keeps in memory of files stays within bounds, and what it forgot is asked for again."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from agent.context.workspace_files import Workspace
from agent.errors import StaleFile
from agent.tools.read_tracker import ReadTracker
from agent.tools.untrusted_files import UntrustedFiles

if TYPE_CHECKING:
    from pathlib import Path

NOTE = PurePosixPath("a.md")


def test_sessions_that_were_shown_nothing_for_long_have_to_read_again() -> None:
    tracker = ReadTracker()
    tracker.shown("first", NOTE, b"text")
    tracker.shown("second", NOTE, b"text")
    for number in range(300):
        tracker.require("first", NOTE, b"text")  # it goes on
        tracker.shown(f"other {number}", NOTE, b"text")
    tracker.require("first", NOTE, b"text")
    with pytest.raises(StaleFile, match="has not been read yet"):
        tracker.require("second", NOTE, b"text")


def test_sessions_that_were_shown_very_many_files_do_not_add_up() -> None:
    tracker = ReadTracker()
    for session in range(8):
        for number in range(500):
            tracker.shown(str(session), PurePosixPath(f"{number}.md"), b"text")
    tracker.require("7", PurePosixPath("0.md"), b"text")
    tracker.require("5", PurePosixPath("499.md"), b"text")
    with pytest.raises(StaleFile, match="has not been read yet"):
        tracker.require("1", PurePosixPath("499.md"), b"text")


def test_asking_for_a_session_that_read_nothing_keeps_nothing_of_it() -> None:
    tracker = ReadTracker()
    tracker.shown("first", NOTE, b"text")
    for number in range(1000):
        with pytest.raises(StaleFile):
            tracker.require(f"other {number}", NOTE, b"text")
    tracker.require("first", NOTE, b"text")


def test_notes_of_very_many_days_are_given_as_they_are(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    paths = [PurePosixPath(f"{number}.md") for number in range(200)]
    for path in paths:
        (tmp_path / path).write_text(f"note {path}", encoding="utf-8")
    for _ in range(2):
        assert [workspace.note(path) for path in paths] == [f"note {path}" for path in paths]
    (tmp_path / "199.md").write_text("another", encoding="utf-8")
    os.utime(tmp_path / "199.md", (1, 1))
    assert workspace.note(paths[199]) == "another"


def test_what_was_recorded_long_ago_is_still_known_to_have_been() -> None:
    files = UntrustedFiles()
    files.add([(PurePosixPath("first.md"), {"line": ("web:a",)})], since=5)
    for number in range(3000):
        files.add([(PurePosixPath(f"{number}.md"), {"line": ("web:a",)})])
    assert files.first_since(0) == 5
    assert files.first_since(2**62) is None
