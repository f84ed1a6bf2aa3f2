"""Finds the Markdown files of memory, and decides their names and who may see them."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from msgspec import Struct

from memory.audience import INBOX, Audience

Source = Literal["memory", "sessions"]

LONG_TERM = ("MEMORY.md", "memory.md")
TODO = ("TODO.md", "todo.md")
FOLDER = "memory"
NOTES = (*LONG_TERM, *TODO, FOLDER)
_SUFFIX = ".md"
_TEMPLATE = "template-"
_NAME = attrgetter("name")
_FOLDERS_OF = {"groups": "group", "peers": "peer"}
EVERYBODY = "shared"
"""The audience of files that every group and guest may see."""
_ANYBODY = Audience("peer", "anybody")


class Stamp(NamedTuple):
    """File metadata that shows changes. Equal stamps mean equal content, unless the file was just written."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


_NO_STAMP = Stamp(0, 0, 0, 0)
UNREADABLE = "cannot be read"
"""Part of the message for each file or folder that cannot be read."""
UNREADABLE_FOLDER = f"the folder {UNREADABLE}"
HARD_LINK = "it has a second name (a hard link) and is not read; copy it to a new file"
LINK = "a symbolic link is not followed; name its target in memorySearch.extraPaths"
_MOST_NAMED = 3
NOT_A_FILE = "it is no file, though its name ends like that of a note; rename or remove it"
NOT_UTF8 = "its name is not UTF-8, so it is not indexed; rename it"


class SourceFile(NamedTuple):
    """A file of memory, or an entry that cannot be read (``trouble`` says why)."""

    path: str
    stamp: Stamp
    trouble: str = ""


class Root(Struct, frozen=True):
    """A folder with notes. ``label`` is the prefix of its file names; "" for the workspace itself."""

    folder: Path
    label: str
    only: tuple[str, ...] = ()


class NoteSources:
    """The notes of the workspace, of ``memorySearch.extraPaths`` and of the files and folders in ``shared``.

    ``shared`` is what the owner opened to everybody (``sharedPaths``): its Markdown files are notes, too, unless it is the whole
    workspace (``"."``), a symbolic link, or a part of memory.

    File names are relative to the workspace. Files of an extra path outside of it are named ``@folder/...`` after the last part
    of the path. Symbolic links below a root are never followed. ``own`` names what of the workspace belongs to them.
    """

    def __init__(
        self,
        workspace: Path,
        extra_paths: Sequence[str] = (),
        *,
        shared: Sequence[str] = (),
        own: Sequence[str] = NOTES,
    ) -> None:
        self.workspace = Path(os.path.realpath(workspace.expanduser()))
        self.shared = tuple(shared)
        self.roots: list[Root] = []
        if own:
            self.roots = [Root(self.workspace, "", tuple(own)), *self._extra_roots(extra_paths), *self._shared_roots()]
        self._overlap = bool(extra_paths)

    def walk(self) -> list[SourceFile]:
        """Return every note once, and every entry that was rejected or cannot be read."""
        return list(self.each())

    def each(self) -> Iterator[SourceFile]:
        """Yield what ``walk`` returns, for those who need not have all of it in memory. In the same order while nothing changes."""
        if not self._overlap:
            for root in self.roots:
                yield from self._in_root(root)
            return
        seen: set[str] = set()
        for root in self.roots:
            for found in self._in_root(root):
                if found.path not in seen:
                    seen.add(found.path)
                    yield found

    def audience_of(self, path: str) -> str:
        """Return who besides the owner may see a note: as ``audience_of``, or ``EVERYBODY``."""
        own = audience_of(path)
        if own or path.startswith("@") or not _ANYBODY.may_see(PurePosixPath(path), self.shared):
            return own
        return EVERYBODY

    def may_see(self, audience: Audience, path: str) -> bool:
        """Return whether an audience may read a note, by its path and what is shared now."""
        key = audience_key(audience)
        belongs = key is None or self.audience_of(path) in {key, EVERYBODY}
        return belongs and audience.may_see(PurePosixPath(path), self.shared)

    def place(self, path: str) -> tuple[Path, PurePosixPath] | None:
        """Return the root folder of a note and its path below, or None if the name is not that of a note."""
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts or not pure.parts or "\x00" in path or not is_note(pure.name):
            return None
        if not is_unicode(path):
            return None
        for root in self.roots:
            label = PurePosixPath(root.label)
            if root.label and pure.parts[: len(label.parts)] != label.parts:
                continue
            below = PurePosixPath(*pure.parts[len(label.parts) :])
            if below.parts and (not root.only or _within(below, root.only)) and not _is_apart(label.parts, below.parts):
                return root.folder, below
        return None

    def stamp(self, path: str) -> Stamp | None:
        """Return the stamp of a note, or None if it does not exist, is a link, or is not a file.

        The stamp of a file that cannot be read is all zeros.
        """
        placed = self.place(path)
        if placed is None:
            return None
        try:
            with open_beneath(*placed) as fd:
                return stamp_of(os.fstat(fd))
        except PermissionError:
            return _NO_STAMP
        except OSError:
            return None

    def watched(self) -> list[Path]:
        """The folders to watch. The whole workspace is included, since a folder of notes may be created later."""
        return [root.folder for root in self.roots]

    def may_hold_notes(self, place: str) -> bool:
        """Return whether notes below a path on disk, which may be gone, are among these if it is that of a folder."""
        for root in self.roots:
            if place == str(root.folder):
                return True
            below = place.removeprefix(f"{root.folder}/").split("/")
            inside = place.startswith(f"{root.folder}/") and (not root.only or below[0] in root.only)
            if inside and not _is_apart(PurePosixPath(root.label).parts, below):
                return True
        return False

    def places(self) -> list[tuple[int, int] | None]:
        """Return which folders these are now, by device and inode: another one may have been put in the place of each. Blocks."""
        return [_place_of(root.folder) for root in self.roots]

    def _extra_roots(self, extra_paths: Sequence[str]) -> Iterator[Root]:
        taken: set[str] = set()
        for extra in extra_paths:
            target = Path(os.path.realpath(self.workspace / Path(extra).expanduser()))
            if target.is_relative_to(self.workspace):
                yield self._inside(target)
                continue
            target, only = _folder_of(target)
            label = base = "@" + (printable_name(target.name) or "root")
            number = 2
            while label in taken:
                label, number = f"{base}-{number}", number + 1
            taken.add(label)
            yield Root(target, label, only)

    def _shared_roots(self) -> Iterator[Root]:
        paths = {PurePosixPath(one) for one in self.shared}
        for path in paths:
            place = self.workspace / path
            within_another = any(other in paths for other in path.parents[:-1])
            if path.parts and not within_another and path.parts[0] != FOLDER and Path(os.path.realpath(place)) == place:
                yield self._inside(place)

    def _inside(self, target: Path) -> Root:
        target, only = _folder_of(target)
        inside = printable_name(target.relative_to(self.workspace).as_posix())
        return Root(target, "" if inside == "." else inside, only)

    def _in_root(self, root: Root) -> Iterator[SourceFile]:
        """Yield the notes of a root folder, and what cannot be read. Without recursion: of 20,000 files each step is felt."""
        folders, only = [(str(root.folder), root.label)], root.only
        while folders:
            folder, label = folders.pop()
            if not only and is_received(label.split("/")):
                continue
            try:
                here = (entry for entry in os.scandir(folder) if (entry.name in only if only else entry.name[0] != "."))
                entries = sorted(here, key=_NAME, reverse=True)
            except FileNotFoundError:
                continue
            except OSError as error:
                yield SourceFile(label or ".", _NO_STAMP, f"{UNREADABLE_FOLDER}: {error.strerror}")
                continue
            before = f"{label}/" if label else ""
            while entries:
                entry = entries.pop()  # each keeps all that was asked of it
                if (found := _at(entry, before + entry.name, folders)) is not None:
                    yield found
            only = ()


@contextmanager
def open_beneath(folder: Path, below: PurePosixPath) -> Iterator[int]:
    """Open a regular file below ``folder`` part by part without following links, and yield its descriptor.

    A file with a second name (a hard link) is rejected: the other name may lie outside, or belong to another audience.

    Raises:
        OSError: it does not exist, is a link or no regular file, or cannot be read.
    """
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in below.parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = inner
        fd = os.open(below.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(below))
        if status.st_nlink > 1:
            raise OSError(errno.EMLINK, HARD_LINK, str(below))
        yield fd
    finally:
        os.close(fd)


def named(paths: Sequence[str]) -> str:
    """Name the first of some files."""
    return ", ".join(paths[:_MOST_NAMED]) + ", …" * (len(paths) > _MOST_NAMED)


def own_files_again(workspace: Path) -> str:
    """Return the command that makes files of their own of the notes of a workspace that have a second name."""
    copying = """'cp -p "$1" "$1.new" && mv "$1.new" "$1"'"""
    return f"find {shlex.quote(printable_name(str(workspace)))} -name '*.md' -links +1 -exec sh -c {copying} _ {{}} ';'"


def is_note(name: str) -> bool:
    """Return whether a file name is that of a note: Markdown, neither hidden nor a template."""
    lowered = name.lower()
    return lowered.endswith(_SUFFIX) and not lowered.startswith((_TEMPLATE, "."))


def is_unicode(name: str) -> bool:
    """Return whether a file name is valid UTF-8. Other names cannot be stored, printed or sent."""
    try:
        return name.isascii() or bool(name.encode())
    except UnicodeEncodeError:
        return False


def printable_name(name: str) -> str:
    """Return a file name that can be printed: bytes that are not UTF-8 are written in hexadecimal."""
    return name if is_unicode(name) else os.fsencode(name).decode("utf-8", "backslashreplace")


def is_received(parts: Sequence[str]) -> bool:
    """Return whether a path is in the inbox of a group or guest, which is not memory."""
    return len(parts) > 3 and parts[0] == FOLDER and parts[1] in _FOLDERS_OF and parts[3] == INBOX  # noqa: PLR2004 - memory/groups/<key>/inbox


def audience_of(path: str) -> str:
    """Return who besides the owner may see a file of memory: ``group:<key>``, ``peer:<key>``, or "" for nobody."""
    parts = PurePosixPath(path).parts
    if len(parts) > 3 and parts[0] == FOLDER and parts[1] in _FOLDERS_OF:  # noqa: PLR2004 - memory/groups/<key>/<note>
        return f"{_FOLDERS_OF[parts[1]]}:{parts[2]}"
    return ""


def audience_key(audience: Audience) -> str | None:
    """Return the value of ``audience_of`` for the files of this audience, which sees those of ``EVERYBODY``, too; None means all files."""
    return None if audience.kind == "owner" else f"{audience.kind}:{audience.key}"


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp in a stat result."""
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _folder_of(target: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the folder of notes that a path names, and which of its files alone if it names one; what is not there yet is a folder."""
    if not target.is_dir() and (target.exists() or is_note(target.name)):
        return target.parent, (target.name,)
    return target, ()


def _is_apart(label: Sequence[str], below: Sequence[str]) -> bool:
    """Return whether a path below a root with a label is hidden, or in the inbox of a group or guest."""
    return any(part.startswith(".") for part in below) or is_received([*label, *below])


def _place_of(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _within(below: PurePosixPath, only: tuple[str, ...]) -> bool:
    if below.parts[0] == FOLDER and FOLDER in only:
        return len(below.parts) > 1
    return len(below.parts) == 1 and below.name in only


def _at(entry: os.DirEntry[str], path: str, folders: list[tuple[str, str]]) -> SourceFile | None:
    """Return an entry that is a note, or is told as one that is not read; a folder to look into is added to ``folders``."""
    name = entry.name
    try:
        if not is_unicode(name):
            told = is_note(name) or entry.is_dir(follow_symlinks=False)
            return SourceFile(printable_name(path), _NO_STAMP, NOT_UTF8) if told else None
        if entry.is_symlink():
            told = is_note(name) or entry.is_dir()
            return SourceFile(path, _NO_STAMP, LINK) if told else None
        if entry.is_dir(follow_symlinks=False):
            folders.append((entry.path, path))
        return _named_like_a_note(entry, path) if is_note(name) else None
    except FileNotFoundError:
        return None
    except OSError as error:
        return SourceFile(path, _NO_STAMP, f"{UNREADABLE}: {error.strerror}")


def _named_like_a_note(entry: os.DirEntry[str], path: str) -> SourceFile:
    if not entry.is_file(follow_symlinks=False):
        return SourceFile(path, _NO_STAMP, NOT_A_FILE)
    status = entry.stat(follow_symlinks=False)
    return SourceFile(path, _NO_STAMP, HARD_LINK) if status.st_nlink > 1 else SourceFile(path, stamp_of(status))
