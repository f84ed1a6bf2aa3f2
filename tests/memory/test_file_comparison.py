"""What is read again after files changed: the same as by comparing all files with all entries, however they changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory.indexing.file_comparison import FileComparison
from memory.notes.sources import SourceFile, Stamp
from memory.store.generations import Followed, IndexedFile

NAMES = [f"memory/{number:03}.md" for number in range(400)]
CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "edit", "remove", "break", "many", "lost"]), st.integers(0, 399), st.booleans()),
    max_size=12,
)


def is_due(file: SourceFile, known: IndexedFile | None) -> bool:
    return known is None or not known.settled or known.stamp != file.stamp


def changed(disk: dict[str, SourceFile], what: str, name: str, number: int) -> None:
    """Change what is on disk in one way."""
    if what in {"add", "edit"}:
        disk[name] = SourceFile(name, Stamp(number, number, number, number))
    elif what == "remove":
        disk.pop(name, None)
    elif what == "break":
        disk[name] = SourceFile(name, Stamp(0, 0, 0, 0), "it cannot be read")
    elif what == "many":
        start = NAMES.index(name)
        for one in NAMES[start : start + 150]:
            if one in disk and number % 2:
                del disk[one]
            else:
                disk[one] = SourceFile(one, Stamp(number, 1, 1, 1))


@given(st.lists(CHANGES, max_size=6))
def test_each_look_finds_what_comparing_everything_finds(rounds: list[list[tuple[str, int, bool]]]) -> None:
    disk: dict[str, SourceFile] = {}
    entries: dict[str, IndexedFile] = {}
    former: Followed | None = None
    number = 0
    for changes in rounds:
        for what, place, _ in changes:
            number += 1
            changed(disk, what, NAMES[place], number)
            if what == "lost":
                former = None  # as after a restart, or a change by another process
        files = [disk[path] for path in sorted(disk)]
        look = FileComparison(iter(files), former)
        asked = 0
        paths = look.strangers()
        while paths or not look.ended:
            asked += len(paths)
            assert len(paths) <= 256
            paths = look.take({path: entries[path] for path in paths if path in entries}, is_due)
        readable = [file for file in files if not file.trouble]
        assert look.files == len(files)
        assert [file for file, _ in look.due] == [file for file in readable if is_due(file, entries.get(file.path))]
        assert all(known == entries.get(file.path) for file, known in look.due)
        assert look.there == sum(file.path in entries for file in readable)
        assert look.troubles == {f.path: f.trouble for f in files if f.trouble} | {
            file.path: entries[file.path].trouble
            for file in readable
            if file.path in entries and entries[file.path].trouble and not any(file == due for due, _ in look.due)
        } | {file.path: known.trouble for file, known in look.due if known is not None and known.trouble}
        gone = entries.keys() - {file.path for file in readable}
        if look.unchanged:
            assert not look.due
            assert not gone
            assert asked == 0
        former = look.followed()
        for path in gone:
            del entries[path]
        for place, (file, _) in enumerate(look.due):
            settled = changes[place % len(changes)][2] if changes else True
            entries[file.path] = IndexedFile(
                b"", file.stamp, settled=settled, trouble="" if place % 3 else "a letter is not UTF-8"
            )


def test_after_an_edit_only_the_entry_of_the_edited_file_is_asked_for() -> None:
    disk = {name: SourceFile(name, Stamp(1, 1, 1, 1)) for name in NAMES}
    entries = {name: IndexedFile(b"", Stamp(1, 1, 1, 1), settled=True, trouble="") for name in NAMES}

    def look(former: Followed | None) -> tuple[FileComparison, list[str]]:
        comparison = FileComparison(iter(disk.values()), former)
        asked: list[str] = []
        paths = comparison.strangers()
        while paths:
            asked += paths
            paths = comparison.take({path: entries[path] for path in paths}, is_due)
        return comparison, asked

    first, asked = look(None)
    assert asked == NAMES
    again, asked = look(first.followed())
    assert asked == []
    assert again.unchanged
    disk[NAMES[200]] = SourceFile(NAMES[200], Stamp(2, 2, 2, 2))
    for name in NAMES[10:40]:
        del disk[name]
    edited, asked = look(again.followed())
    assert asked == [NAMES[200]]
    assert not edited.unchanged
