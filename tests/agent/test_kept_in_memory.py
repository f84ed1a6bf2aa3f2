"""What a gateway that runs for months keeps in memory of files stays within bounds, and what it forgot is asked for again."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context.workspace_files import Workspace
from agent.errors import StaleFile
from agent.messages import Text, UserMessage
from agent.tools.read_tracker import ReadTracker
from agent.tools.untrusted_files import UntrustedFiles
from agent.transcript.entries import Compacted, Entry, Said, encode
from agent.transcript.transcript import Transcript
from agent.transcript.transcript_file import TranscriptFile
from gateway.base.clock import ManualClock
from tests.properties import examples

NOTE = PurePosixPath("a.md")
AT = datetime(2026, 3, 1, tzinfo=UTC)
SAID = Said(message=UserMessage(content=(Text(text="so"),), at=AT))


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


places = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.none() | st.integers(0, 6)), max_size=16)


@settings(max_examples=examples(100))
@given(places)
def test_a_place_of_a_turn_is_written_once_also_where_one_before_it_is_missing(asked: list[tuple[str, int | None]]) -> None:
    async def story(path: Path) -> None:
        transcript = await Transcript.load(TranscriptFile(path), ManualClock(AT))
        ids: list[str] = []
        for turn, n in asked:
            taken = [int(one.partition(":")[2]) for one in ids if one.startswith(turn)]
            place = max(taken, default=-1) + 1 if n is None else n
            if place not in taken:
                ids.append(f"{turn}:{place}")
            assert (await transcript.append(turn, SAID, n=n)).id == f"{turn}:{place}"
            if len(ids) % 3 == 0:
                transcript = await Transcript.load(TranscriptFile(path), ManualClock(AT))
            assert [entry.id for entry in transcript.entries] == ids

    with TemporaryDirectory() as folder:
        asyncio.run(story(Path(folder) / "s.jsonl"))


async def test_a_session_that_is_never_begun_anew_keeps_little_of_each_turn_that_is_summarised(tmp_path: Path) -> None:
    path, turns = tmp_path / "s.jsonl", 2000
    names = [f"job:7f3a9c21d4e8:2026-03-01T{number:08}" for number in range(turns)]
    lines = [encode(Entry(id=f"{name}:{place}", parent=None, at=AT, body=SAID)) for name in names for place in range(3)]
    mark = Compacted(
        summary="so far", first_kept=f"{names[-1]}:2", tokens_before=9, tokens_after=3, model="m", reason="threshold"
    )
    path.write_bytes(b"".join([*lines, encode(Entry(id="end:0", parent=None, at=AT, body=mark))]))
    tracemalloc.start()
    try:
        transcript = await Transcript.load(TranscriptFile(path), ManualClock(AT))
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert transcript.holds(names[0])
    assert kept < 250 * turns


def test_what_is_free_within_the_heap_is_given_back() -> None:
    script = (
        "import linecache, sys\n"
        "from gateway.base.heap import give_back\n"
        "def resident():\n"
        "    with open('/proc/self/statm') as f: return int(f.read().split()[1]) * 4096\n"
        "blocks = [bytes(8000) for _ in range(8000)]\n"
        "blocks = blocks[::40]\n"
        "linecache.getline(linecache.__file__, 1)\n"
        "before = resident()\n"
        "give_back()\n"
        "assert before - resident() > 30_000_000, (before, resident())\n"
        "assert not linecache.cache\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
