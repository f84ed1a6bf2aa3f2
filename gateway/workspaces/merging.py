"""Joins two versions of a workspace, path by path. No version is lost: what cannot be joined is kept side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Final, TypeAlias
from unicodedata import normalize

from msgspec import Struct, field

from gateway.workspaces.commit_stream import Entry, Tree

Lines: TypeAlias = "Callable[[bytes, bytes, bytes], bytes | None]"
"""Joins ours and theirs, made from base, line by line; None where both changed the same lines."""
_BESIDE: Final = re.compile(r"\.conflict-\d{4}-\d\d-\d\d(-\d+)?(\.[^./]*)?(/|$)")
_TEXTS: Final = (".md", ".txt")


class Beside(Struct, frozen=True):
    """Their version of ``path``, which is kept as ``kept_as``."""

    path: str
    kept_as: str


class Merged(Struct):
    """The outcome. ``entries``: what differs from our tree, None for gone. ``texts``: joined contents, by path.

    ``stayed``: paths that one side removed and the other one changed; they stay as they were changed.
    """

    entries: dict[str, Entry | None] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    beside: list[Beside] = field(default_factory=list)
    stayed: list[str] = field(default_factory=list)


class Merge:
    """One merge of their tree into ours. ``content`` reads a content by its name; ``templates`` are those that nobody wrote.

    ``older`` are contents that their side had before: where there is no base, ours gives way if it is one of them, as after a restore.
    """

    def __init__(
        self,
        base: Tree,
        ours: Tree,
        theirs: Tree,
        *,
        content: Callable[[str], bytes],
        lines: Lines,
        day: date,
        templates: frozenset[str] = frozenset(),
        older: frozenset[str] = frozenset(),
    ) -> None:
        self._base, self._ours, self._theirs = base, ours, theirs
        self._content = content
        self._lines = lines
        self._day = day
        self._templates = templates
        self._older = older | templates
        self._tree = dict(ours)
        self._twins = {_alike(path): path for path in ours}
        self._folders: dict[str, int] = {}
        for path in ours:
            self._count(path, 1)
        self.merged = Merged()

    def run(self) -> Merged:
        """Return what becomes of our tree."""
        changed = {path for path in self._base.keys() | self._theirs.keys() if self._base.get(path) != self._theirs.get(path)}
        removed = sorted(path for path in changed if path not in self._theirs)
        for path in removed:
            self._remove(path)
        for path in sorted(changed.difference(removed)):
            self._take(path, self._theirs[path])
        return self.merged

    def _remove(self, path: str) -> None:
        ours, base = self._ours.get(path), self._base.get(path)
        if ours is None:
            return
        if _like(ours, base) or ours.blob in self._templates:
            self._put(path, None)
        else:
            self.merged.stayed.append(path)

    def _take(self, path: str, theirs: Entry) -> None:
        ours, base = self._ours.get(path), self._base.get(path)
        if ours is not None and _like(ours, theirs):
            return
        if ours is None:
            if base is not None:
                self.merged.stayed.append(path)
            if path in self._tree or not self._fits(path):
                self._keep_beside(path, theirs)
            else:
                self._put(path, theirs)
        elif _like(ours, base) or (base is None and ours.blob in self._older):
            self._put(path, theirs)
        elif base is None and theirs.blob in self._templates:
            return
        elif not (ours.plain and theirs.plain):
            self._keep_beside(path, theirs)
        elif ours.blob == theirs.blob or (base is not None and base.blob == theirs.blob):  # only the mode was changed
            self._put(path, Entry(theirs.mode if base is None or ours.mode == base.mode else ours.mode, ours.blob, ours.size))
        elif (text := self._joined(path, base, ours, theirs)) is not None:
            self.merged.texts[path] = text
            self._put(path, Entry(ours.mode, "", len(text)))
        else:
            self._keep_beside(path, theirs)

    def _joined(self, path: str, base: Entry | None, ours: Entry, theirs: Entry) -> bytes | None:
        former = self._content(base.blob) if base is not None and base.plain else b""
        one, two = self._content(ours.blob), self._content(theirs.blob)
        if b"\0" in one or b"\0" in two or b"\0" in former:
            return None
        if base is not None and path.endswith(_TEXTS) and (added := both_additions(former, one, two)) is not None:
            return added
        return self._lines(former, one, two) if base is not None else None

    def _keep_beside(self, path: str, theirs: Entry) -> None:
        taken, rest = self._obstacle(path)
        for name in (f"{one}{rest}" for one in beside_names(taken, self._day)):
            there = self._tree.get(name)
            if there is not None and there.blob == theirs.blob:
                return  # it was kept before
            if there is None and self._fits(name):
                self._put(name, theirs)
                self.merged.beside.append(Beside(path, name))
                return

    def _obstacle(self, path: str) -> tuple[str, str]:
        """Return the part of a path that another name is needed for, and what follows it: a file may stand where a folder is needed."""
        parts = path.split("/")
        for count in range(1, len(parts)):
            if (above := "/".join(parts[:count])) in self._tree:
                return above, path[len(above) :]
        return path, ""

    def _fits(self, path: str) -> bool:
        """Whether a path can be made: no file stands where it needs a folder, no folder in its place, and none of its name but for case."""
        above = path.split("/")
        return (
            path not in self._folders
            and self._twins.get(_alike(path), path) == path
            and not any("/".join(above[:count]) in self._tree for count in range(1, len(above)))
        )

    def _put(self, path: str, entry: Entry | None) -> None:
        had = path in self._tree
        if entry is None:
            self._tree.pop(path, None)
            if self._twins.get(_alike(path)) == path:
                del self._twins[_alike(path)]
        else:
            self._tree[path] = entry
            self._twins[_alike(path)] = path
        self._count(path, (entry is not None) - had)
        self.merged.entries[path] = entry

    def _count(self, path: str, by: int) -> None:
        parts = path.split("/")
        for count in range(1, len(parts)):
            folder = "/".join(parts[:count])
            self._folders[folder] = self._folders.get(folder, 0) + by
            if not self._folders[folder]:
                del self._folders[folder]


def both_additions(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return a text to which both sides only added at the end, with both additions; None where that is not what happened."""
    if not (ours.startswith(base) and theirs.startswith(base)) or (base and not base.endswith(b"\n")):
        return None
    one, two = ours[len(base) :], theirs[len(base) :]
    if _holds(one, two):
        return ours
    if _holds(two, one):
        return theirs
    return ours + (b"" if ours.endswith(b"\n") else b"\n") + two


def _holds(text: bytes, lines: bytes) -> bool:
    """Whether whole lines stand in a text, one after another."""
    return not lines or b"\n" + lines.rstrip(b"\n") + b"\n" in b"\n" + text + b"\n"


def beside_names(path: str, day: date) -> Iterator[str]:
    """Yield names for another version of a file, beside it: ``MEMORY.conflict-2026-11-26.md``."""
    folder, slash, name = path.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    if not stem:
        stem, dot, ending = name, "", ""
    stem = stem.encode("utf-8", "surrogateescape")[:200].decode("utf-8", "ignore") or "file"
    yield f"{folder}{slash}{stem}.conflict-{day.isoformat()}{dot}{ending}"
    number = 2
    while True:
        yield f"{folder}{slash}{stem}.conflict-{day.isoformat()}-{number}{dot}{ending}"
        number += 1


def is_beside(path: str) -> bool:
    """Whether a path is one that ``beside_names`` gives."""
    return _BESIDE.search(path) is not None


def _like(one: Entry | None, two: Entry | None) -> bool:
    return one is not None and two is not None and (one.mode, one.blob) == (two.mode, two.blob)


def _alike(path: str) -> str:
    return normalize("NFC", path).casefold()


def names_of(paths: Iterable[str], most: int = 3) -> str:
    """Return some paths in words."""
    listed = sorted(paths)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
