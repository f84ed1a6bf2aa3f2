"""The workspace sandbox: every file access of an agent stays below one folder.

Paths are walked one name at a time from a descriptor of the root, each opened with O_NOFOLLOW relative to the one before, so a
link that is swapped in while we look leads nowhere: the kernel refuses it at the moment of use (openat(2); the method of
"resolve beneath" done portably). Files with a second hard link are refused as well, since the other name may lie outside.
What is closed (the state, folders of keys) is known by its inode, so that a mount leads there no more than a link; files and
folders that hold secrets by custom are refused by their names.

Everything here blocks; tools call it through ``asyncio.to_thread``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from msgspec import Struct

from agent.errors import PathNotAllowed, StaleFile, WorkspaceFileError, WorkspaceFileNotFound, WorkspaceNotWritable
from agent.tools.os_errors import translated

MAX_FILE_BYTES = 10_000_000
"""Larger files are not read into memory."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_TEMPORARY = ".homebody-"
_TEMPORARY_END = ".tmp"

SECRETS = re.compile(r"\.(env(\..*|rc)?|ssh|gnupg|netrc|pgpass)", re.IGNORECASE)
"""Names of files and folders that usually hold keys and passwords: no tool opens them."""

Kind = Literal["file", "folder", "link", "other"]
_ATTEMPTS = 5
"""How often something is added to a file that others replace at the same moment."""


class Stamp(Struct, frozen=True):
    """Identifies a state of a file without reading it. ``size`` is in bytes."""

    inode: int
    size: int
    modified_ns: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a folder. ``size`` is in bytes, and 0 for what is not a file."""

    name: str
    kind: Kind
    size: int


class Content(Struct, frozen=True):
    """A file as it was at one moment."""

    data: bytes
    stamp: Stamp


Closed: TypeAlias = "Callable[[], frozenset[tuple[int, int]]]"


class WorkspaceSandbox:
    """Reads and changes files below one root, and nothing else.

    The root may be a symlink of the owner's choosing: it is resolved once, here. Paths are relative and normalised, as
    ``path_rules.workspace_path`` gives them. All methods raise WorkspaceFileError. Changes within one process happen one at a time.
    ``closed`` returns devices and inodes of files and folders that are not opened, whatever the way to them, also where a folder was
    moved since. It is asked again before something is refused: a closed file that was replaced leaves its inode to a new file or folder.
    """

    def __init__(self, root: Path, closed: Closed = frozenset[tuple[int, int]]) -> None:
        self.root = Path(os.path.realpath(root))
        self._look_closed = closed
        self._closed = closed()
        self._changing = threading.RLock()

    def stamp(self, path: PurePosixPath) -> Stamp | None:
        """Say which state a file is in, or None where there is no such plain file."""
        try:
            with self._parent(path) as (folder, name):
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (WorkspaceFileError, OSError):
            return None
        return _stamp(found) if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 else None

    def stamps(self, names: Iterable[str]) -> dict[str, Stamp | None]:
        """Say which states these files of the workspace's own folder are in, None for one that is not there.

        What is no plain file, or cannot be looked at, is left out.
        """
        found: dict[str, Stamp | None] = {}
        with contextlib.suppress(WorkspaceFileError), self._folder((), PurePosixPath()) as folder:
            for name in names:
                try:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:
                    found[name] = None
                except OSError:
                    continue
                else:
                    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                        found[name] = _stamp(status)
        return found

    def kind(self, path: PurePosixPath) -> Kind | None:
        """Say what stands at a path, or None for nothing."""
        if not path.parts:
            return "folder"
        try:
            with self._parent(path) as (folder, name), translated(path):
                try:
                    return _kind(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
                except FileNotFoundError:
                    return None
        except WorkspaceFileNotFound:  # a folder on the way is missing
            return None

    def read(self, path: PurePosixPath, *, limit: int = MAX_FILE_BYTES) -> Content:
        """Read a whole file; one of more than ``limit`` bytes is refused."""
        with self._opened(path, os.O_RDONLY) as descriptor, translated(path):
            found = os.fstat(descriptor)
            if found.st_size > limit:
                raise WorkspaceFileError(f"{path} is too large to read ({found.st_size:,} bytes; at most {limit:,})")
            data = _read_to_end(descriptor, limit)
        return Content(data, _stamp(found))

    def scan(self, path: PurePosixPath) -> tuple[Entry, ...]:
        """List a folder by name. Links are named but not followed; our own half-written files are left out."""
        with self._folder(path.parts, path) as descriptor, translated(path), os.scandir(descriptor) as found:
            entries = []
            for entry in found:
                if is_temporary(entry.name):
                    continue
                with contextlib.suppress(FileNotFoundError):  # removed while we looked
                    status = entry.stat(follow_symlinks=False)
                    kind = _kind(status.st_mode)
                    entries.append(Entry(_legible(entry.name), kind, status.st_size if kind == "file" else 0))
        return tuple(sorted(entries, key=lambda entry: entry.name))

    def create(self, path: PurePosixPath, data: bytes) -> None:
        """Write a new file, with the folders it needs. Refused where something of that name stands, in whatever case."""
        with self._changing, self._parent(path, make=True) as (folder, name), translated(path):
            _refuse_twin(folder, name, path)
            _swap_in(folder, name, data, new=True)

    def replace(self, path: PurePosixPath, data: bytes, *, expected: bytes) -> None:
        """Put ``data`` in the place of ``expected``, all at once; mode and owner stay. StaleFile when it holds something else."""
        with self._changing, self._parent(path) as (folder, name), translated(path):
            if self.read(path).data != expected:
                raise StaleFile(f"{path} was changed by someone else just now: read it again")
            _swap_in(folder, name, data, new=False)

    def append(self, path: PurePosixPath, block: bytes) -> bool:
        """Add ``block`` as lines of its own at the end, and never anything but add. Returns False if the file already ends with it.

        One write of O_APPEND: what others add meanwhile is kept. A missing file and its folders are made. Where somebody replaced the file
        at that moment, the new one gets the block unless it was taken over into it: it is rather there twice than not at all.
        """
        block, added = block.rstrip(b"\n") + b"\n", False
        with self._changing:
            for left in reversed(range(_ATTEMPTS)):
                try:
                    if added and b"\n" + block in b"\n" + self.read(path).data:
                        break  # it was taken over
                    new, stays = self._append_once(path, block)
                except StaleFile:
                    if not left:
                        raise
                    continue
                added |= new
                if stays:
                    break
        return added

    def _append_once(self, path: PurePosixPath, block: bytes) -> tuple[bool, bool]:
        """Return whether something was added, and whether the file that it was added to is still in its place."""
        if self.kind(path) is None:
            self.create(path, block)
            return True, True
        with self._opened(path, os.O_RDWR | os.O_APPEND) as descriptor, translated(path):
            if (size := os.fstat(descriptor).st_size) + len(block) > MAX_FILE_BYTES:
                raise WorkspaceFileError(f"{path} has {size:,} bytes and may grow to {MAX_FILE_BYTES:,}; begin another file")
            if not _append(descriptor, block, path):
                return False, True
            present = self.stamp(path)  # while the file is open, as its number may be given to another one afterwards
            return True, present is None or present.inode == os.fstat(descriptor).st_ino

    def remove(self, path: PurePosixPath, *, expected: bytes) -> None:
        """Remove a plain file that holds ``expected``; StaleFile when it holds something else."""
        with self._changing, self._parent(path) as (folder, name), translated(path):
            if self.read(path).data != expected:
                raise StaleFile(f"{path} was changed by someone else just now: read it again")
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)

    @contextlib.contextmanager
    def _opened(self, path: PurePosixPath, flags: int) -> Iterator[int]:
        """Open a plain file. What is no plain file is refused before it is opened, so that a pipe cannot make us wait."""
        with self._parent(path) as (folder, name), translated(path):
            _refuse_special(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
            descriptor = os.open(name, flags | _PLAIN, dir_fd=folder)
            try:
                refuse_stranger(descriptor, folder, name, path)
                self._refuse_closed(descriptor, path)
            except BaseException:  # whatever it is, the descriptor must not stay open
                os.close(descriptor)
                raise
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _parent(self, path: PurePosixPath, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder a path lies in, and give the last name."""
        if not path.parts:
            raise PathNotAllowed("the workspace itself is a folder; name a file in it")
        with self._folder(path.parts[:-1], path, make=make) as descriptor:
            yield descriptor, _plain_name(path.name, path)

    @contextlib.contextmanager
    def _folder(self, parts: tuple[str, ...], path: PurePosixPath, *, make: bool = False) -> Iterator[int]:
        if path.is_absolute():
            raise PathNotAllowed(f"{path}: absolute paths are not opened")
        try:
            descriptor = os.open(self.root, _FOLDER)
        except OSError as error:
            raise WorkspaceFileError(f"the workspace folder {self.root.name} cannot be opened: {error.strerror}") from error
        try:
            self._refuse_closed(descriptor, path)
            for part in parts:
                with translated(path):
                    deeper = _step(descriptor, _plain_name(part, path), path, make=make)
                os.close(descriptor)
                descriptor = deeper
                self._refuse_closed(descriptor, path)
            yield descriptor
        finally:
            os.close(descriptor)

    def _refuse_closed(self, descriptor: int, path: PurePosixPath) -> None:
        if self._closed:
            found = os.fstat(descriptor)
            if (found.st_dev, found.st_ino) not in self._closed:
                return
            closed = self._look_closed()
            self._closed |= closed
            if (found.st_dev, found.st_ino) in closed:
                raise PathNotAllowed(f"{path} leads to the state of Homebody or to keys, which no tool opens")


def is_temporary(name: str) -> bool:
    """Say whether a name is one that an interrupted write may have left behind."""
    return name.startswith(_TEMPORARY) and name.endswith(_TEMPORARY_END)


def _plain_name(name: str, path: PurePosixPath) -> str:
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise PathNotAllowed(f"{path}: parent folders are not opened")
    if SECRETS.fullmatch(name):
        raise PathNotAllowed(f"{path}: {name} holds secrets by custom, and no tool opens it")
    return name


def _step(descriptor: int, name: str, path: PurePosixPath, *, make: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=descriptor)
    except FileNotFoundError:
        if not make:
            raise
    except OSError as error:
        if error.errno not in {errno.ENOTDIR, errno.ELOOP}:  # a link is told by either, depending on the system
            raise
        if stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
            raise PathNotAllowed(f"{path}: {name} is a link, and links are not followed") from error
        raise
    _refuse_twin(descriptor, name, path)
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=descriptor)
        os.fsync(descriptor)
    return os.open(name, _FOLDER, dir_fd=descriptor)


def _refuse_twin(descriptor: int, name: str, path: PurePosixPath) -> None:
    """Refuse a new name that some file systems could not tell from one that is there."""
    for other in os.listdir(descriptor):
        if other != name and other.casefold() == name.casefold():
            raise PathNotAllowed(f"{path}: there is already {_legible(other)}, which differs only in case; use that name")


def _refuse_special(found: os.stat_result, path: PurePosixPath) -> None:
    kind = _kind(found.st_mode)
    if kind == "folder":
        raise PathNotAllowed(f"{path} is a folder; use list to see what is in it")
    if kind == "link":
        raise PathNotAllowed(f"{path} is a link, and links are not followed")
    if kind == "other":
        raise PathNotAllowed(f"{path} is not a plain file (a pipe, socket or device)")
    if found.st_nlink > 1:
        raise PathNotAllowed(f"{path} has a second name on the disk (a hard link), which may lie outside the workspace")


def refuse_stranger(descriptor: int, folder: int, name: str, path: PurePosixPath) -> None:
    """Refuse a file that was opened by a name it has lost since: its other name may lie outside.

    The name is looked at after the opening: if it still leads to this file, and the file has no second name, it is ours. It is
    looked at twice, because a name that is just being removed can be found for a moment while the count of names is already
    down. Listing the folder in between waits for a removal that is under way: the kernel locks the folder for both.
    """
    opened = os.fstat(descriptor)
    for _ in range(2):
        named = os.stat(name, dir_fd=folder, follow_symlinks=False)
        _refuse_special(named, path)
        if (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino):
            raise StaleFile(f"{path} was replaced by someone else just now: try again")
        with os.scandir(folder) as listing:
            next(listing, None)


def _read_to_end(descriptor: int, limit: int) -> bytes:
    pieces = []
    total = 0
    while piece := os.read(descriptor, min(1 << 20, limit + 1)):
        pieces.append(piece)
        total += len(piece)
        if total > limit:
            raise WorkspaceFileError(f"the file grows while it is read; at most {limit:,} bytes are read")
    return b"".join(pieces)


def _swap_in(folder: int, name: str, data: bytes, *, new: bool) -> None:
    """Write beside the file and rename, so that a reader sees the old text or the new one, never half."""
    before = None if new else os.stat(name, dir_fd=folder, follow_symlinks=False)
    temporary = f"{_TEMPORARY}{secrets.token_hex(8)}{_TEMPORARY_END}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600, dir_fd=folder)
    try:
        try:
            _write_all(descriptor, data)
            if before is not None:
                with contextlib.suppress(PermissionError):  # a file of another user becomes ours; its mode stays
                    os.fchown(descriptor, before.st_uid, before.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if new:  # take the name first: only O_EXCL can tell that nobody has it
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600, dir_fd=folder))
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:  # whatever stopped us, cancellation included: leave no half-written file behind
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _append(descriptor: int, block: bytes, path: PurePosixPath) -> bool:
    start = max(0, os.fstat(descriptor).st_size - len(block) - 64)
    tail = os.pread(descriptor, len(block) + 64, start)
    lines, core = tail.rstrip(b"\n"), block.rstrip(b"\n")
    before = lines[: len(lines) - len(core)]
    if lines.endswith(core) and (before.endswith(b"\n") or (not before and start == 0)):
        return False
    addition = block if not tail or tail.endswith(b"\n") else b"\n" + block
    written = os.write(descriptor, addition)
    os.fsync(descriptor)
    if written < len(addition):
        raise WorkspaceNotWritable(
            f"{path}: the disk is full; only the first {written:,} of {len(addition):,} bytes were added"
        )
    return True


def _stamp(found: os.stat_result) -> Stamp:
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def _legible(name: str) -> str:
    return name.encode("utf-8", "replace").decode()
