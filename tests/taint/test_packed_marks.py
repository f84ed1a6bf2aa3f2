"""The marks of untrusted lines take few bytes in memory, and say the same as a mapping of them would."""

from __future__ import annotations

import tracemalloc
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tools.packed_marks import NAME, WHOLE, PackedMarks
from agent.tools.untrusted_files import UntrustedFiles
from tests.properties import examples

if TYPE_CHECKING:
    from pathlib import Path

keys = st.sampled_from([NAME, WHOLE, "odd", "0x", "00000000000000AB", "00000000000000ab", *(f"{n:016x}" for n in range(6))])
kinds = st.sampled_from([("web:a",), ("web:a", "person:Eve"), ("file:ä",)])
marks = st.dictionaries(keys, kinds, max_size=8)
paths = st.sampled_from(["a.md", "b.md", "c.md"])
steps = st.tuples(paths, st.one_of(marks, st.sets(keys, max_size=8)))


@settings(max_examples=examples(300))
@given(st.lists(steps, max_size=12))
def test_packed_marks_are_those_that_were_added_and_not_removed(
    done: list[tuple[str, dict[str, tuple[str, ...]] | set[str]]],
) -> None:
    packed, plain, order = PackedMarks(), dict[str, dict[str, tuple[str, ...]]](), list[str]()
    for path, change in done:
        order = [path, *(one for one in order if one != path)]
        known = plain.setdefault(path, {})
        if isinstance(change, dict):
            packed.add(path, change)
            plain[path] = {**change, **known}
        else:
            packed.remove(path, change)
            plain[path] = {key: sources for key, sources in known.items() if key not in change}
        assert packed[path] == plain[path]
    assert dict(packed.items()) == plain
    assert packed.newest() == [path for path in order if plain[path].keys() - {NAME}]
    assert packed.newest(named=True) == [path for path in order if NAME in plain[path]]
    renamed = {path: dict.fromkeys(known, ("web:b",)) for path, known in plain.items()}
    packed.replace(renamed)
    assert dict(packed.items()) == renamed
    assert packed.newest(named=True) == [path for path in order if NAME in plain[path]]


def test_marks_of_the_notes_of_months_take_little_memory(tmp_path: Path) -> None:
    record = tmp_path / "untrusted.jsonl"
    files = UntrustedFiles(record)
    notes = [PurePosixPath(f"memory/projects/{person}/2026-03-{day:02}.md") for person in range(50) for day in range(20)]
    files.add(
        (note, files.marks_for(f"{note}\nsays Eve\nin the {note}\nof today", (f"note:{note}", "person:Eve"))) for note in notes
    )
    tracemalloc.start()
    try:
        read = UntrustedFiles(record)
        assert read.of(notes[0])
        assert tracemalloc.get_traced_memory()[0] < 500 * len(notes)
    finally:
        tracemalloc.stop()
    assert read.of(notes[7], "says Eve") == (f"note:{notes[7]}", *sorted((f"note:{notes[7]}", "person:Eve")))


def test_a_record_with_lone_surrogates_is_read(tmp_path: Path) -> None:
    record = tmp_path / "untrusted.jsonl"
    record.write_text('{"path":"a.md","lines":["*","\\ud800"],"from":["web:\\udfff"]}\n', encoding="utf-8")
    assert UntrustedFiles(record).of(PurePosixPath("a.md"))
