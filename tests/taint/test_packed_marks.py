"""The marks of untrusted lines take few bytes in memory, and say the same as a mapping of them would."""

from __future__ import annotations

import gc
import random
import sys
import threading
import tracemalloc
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tools.packed_marks import NAME, WHOLE, PackedMarks
from agent.tools.untrusted_files import UntrustedFiles
from tests.memory.test_path_table import same_hash
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


def changed_at_random(
    packed: PackedMarks, known: dict[str, dict[str, tuple[str, ...]]], dice: random.Random, paths: list[str]
) -> None:
    """Change one file as a mapping would be changed. The order of ``known`` is that of the changes."""
    path = dice.choice(paths)
    former = known.pop(path, {})
    if dice.random() < 0.8:
        added = {f"{dice.randrange(9):016x}": ("web:a",), **({NAME: ("web:b",)} if dice.random() < 0.3 else {})}
        packed.add(path, added)
        known[path] = {**added, **former}
    else:
        gone = dice.sample(sorted(former), min(len(former), 2))
        packed.remove(path, gone)
        known[path] = {key: sources for key, sources in former.items() if key not in gone}


def test_marks_of_very_many_files_are_those_that_were_added_and_not_removed() -> None:
    dice, packed, known = random.Random(7), PackedMarks(), dict[str, dict[str, tuple[str, ...]]]()
    paths = [*same_hash(), "lone \udc80.md", *(f"memory/{number}.md" for number in range(500))]
    for step in range(5_000):
        changed_at_random(packed, known, dice, paths if step % 3 else paths[:60])
        if step % 2_000 == 1_999:
            known = {path: dict.fromkeys(marks, (f"web:{step}",)) for path, marks in known.items()}
            packed.replace(known)
        asked = dice.choice(paths)
        assert packed[asked] == known.get(asked, {})
    assert dict(packed.items()) == known
    assert all(packed[path] == marks for path, marks in known.items())
    assert packed.newest() == [path for path in reversed(known) if known[path].keys() - {NAME}]
    assert packed.newest(named=True) == [path for path in reversed(known) if NAME in known[path]]


def test_no_mark_is_missing_for_a_moment_while_others_are_added() -> None:
    packed, paths = PackedMarks(), [f"memory/{number}.md" for number in range(600)]
    for path in paths:
        packed.add(path, {WHOLE: ("web:a",)})
    done, missing = threading.Event(), list[str]()

    def ask(seed: int) -> None:
        dice = random.Random(seed)
        while not done.is_set():
            path = dice.choice(paths)
            if WHOLE not in packed[path]:
                missing.append(path)
            if dice.random() < 0.02 and len(packed.newest()) < len(paths):
                missing.append("one of all")

    readers = [threading.Thread(target=ask, args=(seed,)) for seed in range(3)]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for reader in readers:
            reader.start()
        dice = random.Random(1)
        for _ in range(2_000):
            packed.add(dice.choice(paths), {f"{dice.randrange(4):016x}": ("web:b",)})
    finally:
        done.set()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(usual)
    assert not missing


def test_marks_of_the_notes_of_months_take_little_memory(tmp_path: Path) -> None:
    record = tmp_path / "untrusted.jsonl"
    files = UntrustedFiles(record)
    notes = [
        PurePosixPath(f"memory/peers/telegram-{5000 + person}/2026-{month:02}-{day:02}.md")
        for month in range(1, 7)
        for day in range(1, 29)
        for person in range(30)
    ]
    files.add(
        (note, files.marks_for(f"{note}\nsays Eve\nin the {note}\nof today", (f"note:{note}", "person:Eve"))) for note in notes
    )
    tracemalloc.start()
    try:
        read = UntrustedFiles(record)
        assert not read.of(PurePosixPath("MEMORY.md"))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 100 * len(notes)
    finally:
        tracemalloc.stop()
    assert read.marks_of(PurePosixPath("MEMORY.md")) == {}
    for note in (notes[0], notes[2500], notes[-1]):
        moved = PurePosixPath(f"notes/{note.name}")
        read.copied(note, moved)
        assert read.trusted(note, "says Eve\nsays Ann\n") == ("says Ann\n", (f"note:{note}", "person:Eve"))
        assert read.of(moved)


def test_a_record_with_lone_surrogates_is_read(tmp_path: Path) -> None:
    record = tmp_path / "untrusted.jsonl"
    record.write_text('{"path":"a.md","lines":["*","\\ud800"],"from":["web:\\udfff"]}\n', encoding="utf-8")
    assert UntrustedFiles(record).of(PurePosixPath("a.md"))
