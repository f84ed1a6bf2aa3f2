"""What changed in a workspace while a command ran: files by the time of their last change, and folders by where they were before.

A folder that is moved takes all that is below it along, and nothing below it looks changed: neither the times nor the inodes differ. So
the folders are written down before, by device and inode, and a file in a folder that stands elsewhere now has moved with it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final, TypeAlias

from msgspec import Struct

FolderId: TypeAlias = "tuple[int, int]"
"""Device and inode of a folder."""
GIT: Final = ".git"
_ROOT: Final = PurePosixPath()


class Change(Struct, frozen=True):
    """One path that is not as it was. ``kind`` says how.

    "written": it changed itself, or nobody knows where it came from. "moved": it is as it was at ``former``, which is another place.
    "named": a folder that is new or has another name; what is in it is reported by itself.
    """

    path: PurePosixPath
    kind: str
    former: PurePosixPath | None = None


def folders_below(root: Path) -> dict[FolderId, PurePosixPath]:
    """Return the folders of a workspace, itself included. Blocks."""
    return {one: path for path, one, _ in _walk(root)}


def changes(
    root: Path,
    since: int,
    before: Mapping[FolderId, PurePosixPath],
    *,
    complete: bool = True,
    start: PurePosixPath = _ROOT,
) -> Iterator[Change]:
    """Yield what changed at or after ``since`` (nanoseconds), or lies in a folder that is not where it was in ``before``.

    Only folders at or below ``start`` are looked at.

    The time of the last change (ctime) cannot be set back by a program. A ``.git`` that holds something written stands for all in it.
    Not ``complete``: a folder that ``before`` does not have is taken to be where it was. Blocks.
    """
    written: set[PurePosixPath] = set()
    for folder, here, entries in _walk(root, start):
        former = before.get(here, None if complete else folder)
        repository = repository_of(folder)
        if former != folder and folder.parts and (former is None or former.name != folder.name):
            yield Change(folder, "named")
        if repository in written:
            continue
        for entry in entries:
            path = folder / entry.name
            if _changed(entry, since) or (former is None and folder.parts):
                yield Change(repository or path, "written")
                if repository is not None:
                    written.add(repository)
                    break
            elif former is not None and former != folder:
                yield Change(path, "moved", former / entry.name)


def change_of(
    root: Path, path: PurePosixPath, since: int, before: Mapping[FolderId, PurePosixPath], *, complete: bool = True
) -> Change | None:
    """Return what ``changes`` yields of one path outside of a ``.git``, without a walk. What is gone has changed. Blocks."""
    try:
        found = os.lstat(root / path)
        if stat.S_ISDIR(found.st_mode):
            former = before.get((found.st_dev, found.st_ino), None if complete else path)
            renamed = path.parts and former != path and (former is None or former.name != path.name)
            return Change(path, "named") if renamed else None
        folder = os.lstat(root / path.parent)
    except OSError:
        return Change(path, "written")
    former = before.get((folder.st_dev, folder.st_ino), None if complete else path.parent)
    if found.st_ctime_ns >= since or (former is None and path.parent.parts):
        return Change(path, "written")
    return Change(path, "moved", former / path.name) if former is not None and former != path.parent else None


def repository_of(path: PurePosixPath) -> PurePosixPath | None:
    """Return the outermost ``.git`` that a path is or lies in."""
    return PurePosixPath(*path.parts[: path.parts.index(GIT) + 1]) if GIT in path.parts else None


def _walk(root: Path, start: PurePosixPath = _ROOT) -> Iterator[tuple[PurePosixPath, FolderId, list[os.DirEntry[str]]]]:
    """Yield each folder with its id and what is in it that is no folder: files, and links to whatever."""
    waiting = [(start, str(root / start))]
    while waiting:
        inside, folder = waiting.pop()
        try:
            found = os.lstat(folder)
            with os.scandir(folder) as entries:
                listed = list(entries)
        except OSError:  # it is gone meanwhile
            continue
        folders = [entry for entry in listed if entry.is_dir(follow_symlinks=False)]
        yield inside, (found.st_dev, found.st_ino), [entry for entry in listed if not entry.is_dir(follow_symlinks=False)]
        waiting += [(inside / entry.name, entry.path) for entry in folders]


def _changed(entry: os.DirEntry[str], since: int) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_ctime_ns >= since
    except OSError:  # it is gone meanwhile
        return False
