"""A path table gives the numbers that were put for a path, and at most a few others, of which its owner finds out."""

from __future__ import annotations

import gc
import tracemalloc
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from memory.notes.version_store import VersionStore
from memory.path_table import PathTable

if TYPE_CHECKING:
    from pathlib import Path

AT = datetime(2026, 3, 1, tzinfo=UTC)


def same_hash() -> tuple[str, str]:
    """Return two paths whose hashes have the same low half, which is what a table knows a path by."""
    seen: dict[int, str] = {}
    for number in range(10**6):
        path = f"memory/same-{number}.md"
        if (other := seen.setdefault(hash(path) & 0xFFFFFFFF, path)) != path:
            return other, path
    raise AssertionError("there are none")


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 2**40), st.booleans()), max_size=600))
def test_numbers_are_found_by_path_and_replaced(put: list[tuple[int, int, bool]]) -> None:
    table, known = PathTable(), defaultdict[str, list[int]](list)
    for name, number, instead in put:
        path = f"{name}.md"
        if instead and known[path]:
            table.put(path, number, known[path].pop())
        else:
            table.put(path, number)
        known[path].append(number)
    for path, numbers in known.items():
        assert sorted(table.find(path)) == sorted(numbers)
    assert table.find("another.md") == []


def test_paths_of_the_same_hash_have_the_history_of_each(tmp_path: Path) -> None:
    first, second = same_hash()
    store = VersionStore(tmp_path)
    for path, text in ((first, "a"), (second, "b"), (first, "a2"), (second, None), (second, "b")):
        assert store.record(path, text, at=AT) is not None
        assert VersionStore(tmp_path).record(path, text, at=AT) is None
    assert store.record(first, "a2", at=AT) is None
    assert [one.path for one in store.versions()] == [second, second, first, second, first]
    assert [(one.before is None, one.after is None) for one in store.versions(second)] == [
        (True, False),
        (False, True),
        (True, False),
    ]


def test_the_history_of_thousands_of_notes_takes_little_memory(tmp_path: Path) -> None:
    store = VersionStore(tmp_path)
    for number in range(5_000):
        store.record(f"memory/peers/telegram-5001/2026-03-{number}.md", "the same", at=AT)
    tracemalloc.start()
    try:
        store = VersionStore(tmp_path)
        assert store.record("memory/peers/telegram-5001/2026-03-7.md", "the same", at=AT) is None
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 40 * 5_000
    finally:
        tracemalloc.stop()
