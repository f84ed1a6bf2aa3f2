"""Brings a tree of the repository into the folder, file by file, as a checkout does; git itself never sees the folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from agent import fault_injection
from gateway.workspaces.carried_record import Contents
from gateway.workspaces.commit_stream import Entry, Tree
from gateway.workspaces.folder_writer import FolderWriter


class Checkout:
    """``contents`` returns blobs by their names, ``takes`` whether the repository keeps a path. All methods block. Raises GitFailed."""

    def __init__(self, writer: FolderWriter, contents: Contents, takes: Callable[[str], bool]) -> None:
        self._writer = writer
        self._contents = contents
        self._takes = takes

    def switch(self, former: Tree, target: Tree) -> list[str]:
        """Change the folder from the tree that it was made from into another; return the paths that were changed."""
        changed = []
        differing = [path for path in former.keys() | target.keys() if former.get(path) != target.get(path)]
        for batch in _batches(sorted(filter(self._takes, differing), key=lambda path: (path in target, path))):
            entries = {path: (_file(former.get(path)), _file(target.get(path))) for path in batch}
            contents = self._contents(sorted({one.blob for pair in entries.values() for one in pair if one is not None}))
            for path, (before, after) in entries.items():
                old, new = (contents[one.blob] if one is not None else None for one in (before, after))
                if old is None and new is None:
                    continue
                self._writer.write(path, old, new, after.mode if after else "")
                fault_injection.point("after", "git-write")
                changed.append(path)
        return changed

    def retry(self, tree: Tree, unapplied: Mapping[str, tuple[str, str]]) -> None:
        """Try again to write what could not be written."""
        for path, (blob, _) in list(unapplied.items()):
            entry = _file(tree.get(path))
            contents = self._contents([one for one in (blob, entry.blob if entry else "") if one])
            self._writer.write(path, contents.get(blob), contents[entry.blob] if entry else None, entry.mode if entry else "")

    def restore(self, tree: Tree, paths: Collection[str], read: Callable[[str], bytes | None]) -> None:
        """Write files of a tree again; ``read`` returns what is in their place."""
        for batch in _batches(list(paths)):
            contents = self._contents([tree[path].blob for path in batch])
            for path in batch:
                self._writer.write(path, read(path), contents[tree[path].blob], tree[path].mode)


def _file(entry: Entry | None) -> Entry | None:
    return entry if entry is not None and entry.plain else None


def _batches(paths: list[str], size: int = 200) -> Iterator[list[str]]:
    """Yield paths in groups, whose contents are in memory at once."""
    for start in range(0, len(paths), size):
        yield paths[start : start + size]
