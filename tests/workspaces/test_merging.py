"""Two versions of a workspace are joined path by path, and no version is lost."""

from __future__ import annotations

import itertools
from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.workspaces.commit_stream import FILE, Entry, Tree, blob_of
from gateway.workspaces.merging import Merge, Merged, both_additions, is_beside
from tests.properties import examples

DAY = date(2026, 11, 26)
PATHS = ("MEMORY.md", "memory.md", "memory/a.md", "memory/b.md", "memory/b.md/c.txt", "memory", "data.bin", "x/y/z.md", "x/y")


class Store:
    """Contents by their names."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}

    def entry(self, text: bytes) -> Entry:
        self.texts[blob_of(text)] = text
        return Entry(FILE, blob_of(text), len(text))

    def merge(self, base: Tree, ours: Tree, theirs: Tree, templates: frozenset[str] = frozenset()) -> tuple[Tree, Merged]:
        merged = Merge(
            base, ours, theirs, content=self.texts.__getitem__, lines=lambda *_: None, day=DAY, templates=templates
        ).run()
        tree = dict(ours)
        for path, entry in merged.entries.items():
            if entry is None:
                tree.pop(path, None)
            else:
                tree[path] = self.entry(merged.texts[path]) if path in merged.texts else entry
        return tree, merged

    def lines(self, tree: Tree) -> set[bytes]:
        return {line for entry in tree.values() for line in self.texts[entry.blob].splitlines()}


def consistent(tree: Tree) -> bool:
    """Whether a folder can hold these files."""
    return not any(parent in tree for path in tree for parent in parents(path))


def parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


class House:
    """Machines that change files and meet in one repository."""

    def __init__(self, machines: int) -> None:
        self.store = Store()
        self.all: Tree = {}
        self.base: list[Tree] = [{} for _ in range(machines)]
        self.ours: list[Tree] = [{} for _ in range(machines)]
        self.written: set[bytes] = set()
        self.given_up: set[bytes] = set()
        self.count = itertools.count()

    def put(self, machine: int, path: str, how: str) -> None:
        tree = self.ours[machine]
        if any(parent in tree for parent in parents(path)) or any(path in parents(one) for one in tree):
            return
        former = self.store.texts[tree[path].blob] if path in tree else b""
        line = b"words %d of %d\n" % (next(self.count), machine)
        text = former + line if how == "append" else line
        self.written.add(line.strip())
        self.given_up |= set(former.splitlines()) - set(text.splitlines())
        tree[path] = self.store.entry(text)

    def remove(self, machine: int, path: str) -> None:
        if (entry := self.ours[machine].pop(path, None)) is not None:
            self.given_up |= set(self.store.texts[entry.blob].splitlines())

    def sync(self, machine: int) -> None:
        tree, _ = self.store.merge(self.base[machine], self.ours[machine], self.all)
        assert consistent(tree)
        self.ours[machine], self.base[machine], self.all = tree, dict(tree), dict(tree)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2), st.sampled_from(PATHS), st.sampled_from(("append", "append", "write", "remove", "sync", "sync"))
    ),
    max_size=40,
)


@given(steps=STEPS)
@settings(max_examples=examples(400))
def test_machines_that_meet_in_any_order_hold_the_same_files_in_the_end_and_nothing_that_nobody_gave_up_is_lost(
    steps: list[tuple[int, str, str]],
) -> None:
    house = House(3)
    for machine, path, what in steps:
        if what == "sync":
            house.sync(machine)
        elif what == "remove":
            house.remove(machine, path)
        else:
            house.put(machine, path, what)
    for machine in (0, 1, 2) * 4:  # names that differ in case alone take more than one round
        house.sync(machine)
    assert house.ours[0] == house.ours[1] == house.ours[2] == house.all
    assert house.written - house.given_up <= house.store.lines(house.all)


@given(base=st.binary(max_size=20), one=st.binary(max_size=20), two=st.binary(max_size=20))
@settings(max_examples=examples(300))
def test_additions_on_both_sides_stand_one_after_the_other(base: bytes, one: bytes, two: bytes) -> None:
    base = base and base + b"\n"
    joined = both_additions(base, base + one, base + two)
    assert joined is not None
    assert joined.startswith(base + one)
    rest = joined[len(base) :]
    assert set(two.split(b"\n")) <= set(rest.split(b"\n")) | {b""}


def test_an_addition_that_only_looks_like_a_part_of_the_other_is_kept() -> None:
    assert both_additions(b"", b"a book\n", b"book\n") == b"a book\nbook\n"
    assert both_additions(b"x\n", b"x\nbook\nand\n", b"x\nbook\n") == b"x\nbook\nand\n"


def test_a_change_on_both_sides_is_kept_side_by_side_and_found_by_its_name() -> None:
    store = Store()
    base, ours, theirs = ({"MEMORY.md": store.entry(text)} for text in (b"a\n", b"b\n", b"c\n"))
    tree, merged = store.merge(base, ours, theirs)
    assert [(one.path, one.kept_as) for one in merged.beside] == [("MEMORY.md", "MEMORY.conflict-2026-11-26.md")]
    assert tree["MEMORY.md"] == ours["MEMORY.md"]
    assert tree["MEMORY.conflict-2026-11-26.md"] == theirs["MEMORY.md"]
    assert is_beside("MEMORY.conflict-2026-11-26.md")
    assert is_beside("x/y.conflict-2026-11-26-2/z.md")
    assert not is_beside("memory/conflict-2026-11-26.md")


def test_what_one_side_removed_and_the_other_changed_stays() -> None:
    store = Store()
    base = {"a.md": store.entry(b"a\n"), "b.md": store.entry(b"b\n")}
    tree, merged = store.merge(base, {"a.md": store.entry(b"new\n")}, {"b.md": store.entry(b"new b\n")})
    assert merged.stayed == ["a.md", "b.md"]
    assert store.lines(tree) == {b"new", b"new b"}


def test_a_template_that_nobody_wrote_in_gives_way() -> None:
    store = Store()
    template, written = store.entry(b"# Memory\n"), store.entry(b"# Memory\n- a cat\n")
    templates = frozenset({template.blob})
    for ours, theirs in ((template, written), (written, template)):
        tree, merged = store.merge({}, {"MEMORY.md": ours}, {"MEMORY.md": theirs}, templates)
        assert tree == {"MEMORY.md": written}
        assert not merged.beside
