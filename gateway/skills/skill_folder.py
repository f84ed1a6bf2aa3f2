"""The folder of one skill: its files, a digest over all of them, and a stamp that changes when one of them does.

Nothing is followed out of the folder: links, pipes and files with a second name make the skill unusable.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from agent.errors import InvalidSkill

SKILL_FILE: Final = "SKILL.md"
MOST_FILES: Final = 1000
MOST_BYTES: Final = 20_000_000
"""All files together. The largest of the 118 published skills that were looked at has 0.2 MB."""
MOST_TEXT: Final = 256_000
"""The longest SKILL.md, in bytes; the longest of those has 42,000."""
DEEPEST: Final = 8
_SETTLED_NS: Final = 50_000_000
"""Nanoseconds after which a change of a file surely gets another time than the one before."""
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Stamp: TypeAlias = "tuple[tuple[str, int, int, int, int, int], ...]"


class Content(Struct, frozen=True, kw_only=True):
    """The files of a skill at one moment. ``digest`` is of names, contents and whether they can be executed.

    ``text`` is SKILL.md. Not ``settled``: a file changed so recently that its next change might keep the stamp.
    """

    stamp: Stamp
    digest: str
    text: str
    files: tuple[tuple[str, int], ...]
    settled: bool

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(size for _, size in self.files)


def stamp_of(folder: Path, *, leave_out: Collection[str] = ()) -> Stamp:
    """Return what changes when a file of the skill does, without reading any. ``leave_out`` are names that are passed over.

    Raises:
        InvalidSkill: something in it may not be there.
    """
    found = tuple(sorted(_walk(os.fspath(folder), "", DEEPEST, frozenset(leave_out))))
    size = sum(one[2] for one in found)
    if size > MOST_BYTES:
        raise InvalidSkill(f"its files have {size:,} bytes; a skill may have {MOST_BYTES:,}")
    return found


def read(folder: Path, *, leave_out: Collection[str] = (), keep: Callable[[str, bytes, bool], None] | None = None) -> Content:
    """Read a skill. ``keep`` is given each file that is read: its name, its content, and whether it can be executed.

    Raises:
        InvalidSkill: something in it may not be there, cannot be read, or changes while it is read.
    """
    stamp = stamp_of(folder, leave_out=leave_out)
    total, text = hashlib.sha256(), b""
    for name, _, size, _, _, mode in stamp:
        data = _read(folder, name)
        if name == SKILL_FILE:
            text = _checked(data)
        total.update(f"{len(os.fsencode(name))}:{mode & 0o100:o}:{len(data)}:".encode() + os.fsencode(name))
        total.update(hashlib.sha256(data).digest())
        if len(data) != size:
            raise InvalidSkill(f"{_shown(name)} changes while it is read")
        if keep is not None:
            keep(name, data, bool(mode & 0o100))
    if not text:
        raise InvalidSkill("it has no SKILL.md, or an empty one")
    if stamp_of(folder, leave_out=leave_out) != stamp:
        raise InvalidSkill("its files change while they are read")
    newest = max(max(one[3], one[4]) for one in stamp)
    return Content(
        stamp=stamp,
        digest=total.hexdigest(),
        text=text.decode(),
        files=tuple((one[0], one[2]) for one in stamp),
        settled=time.time_ns() - newest > _SETTLED_NS,
    )


def _walk(top: str, below: str, depth: int, leave_out: frozenset[str]) -> Iterator[tuple[str, int, int, int, int, int]]:
    try:
        with os.scandir(os.path.join(top, below)) as listing:  # noqa: PTH118 -- many texts, and Path is slow
            entries = [entry for entry in listing if entry.name not in leave_out]
    except OSError as error:
        raise InvalidSkill(f"{_shown(below) or 'its folder'} cannot be read: {error.strerror}") from error
    if len(entries) > MOST_FILES:
        raise InvalidSkill(f"{_shown(below) or 'its folder'} holds more than {MOST_FILES:,} files")
    count = 0
    for entry in entries:
        name = f"{below}/{entry.name}" if below else entry.name
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError as error:
            raise InvalidSkill(f"{_shown(name)} cannot be looked at: {error.strerror}") from error
        if stat.S_ISDIR(found.st_mode):
            if depth == 1:
                raise InvalidSkill(f"{_shown(name)} is nested deeper than {DEEPEST} folders")
            inside = list(_walk(top, name, depth - 1, leave_out))
            count += len(inside)
            yield from inside
        else:
            _refuse(name, found)
            count += 1
            yield name, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode
        if count > MOST_FILES:
            raise InvalidSkill(f"it has more than {MOST_FILES:,} files")


def _refuse(name: str, found: os.stat_result) -> None:
    if not name.isprintable():
        raise InvalidSkill(f"the name of the file {_shown(name)} has characters that cannot be shown")
    if stat.S_ISLNK(found.st_mode):
        raise InvalidSkill(f"{name} is a link, which may lead outside; put a copy of the file in its place")
    if not stat.S_ISREG(found.st_mode):
        raise InvalidSkill(f"{name} is not a plain file (a pipe, socket or device)")
    if found.st_nlink > 1:
        raise InvalidSkill(f"{name} has a second name on the disk (a hard link); put a copy of the file in its place")


def _read(folder: Path, name: str) -> bytes:
    """Read one file without following a link that was put in the place of a folder or of the file since."""
    descriptor = -1
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        *folders, last = name.split("/")
        for part in folders:
            deeper = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = deeper
        with os.fdopen(os.open(last, _READ, dir_fd=descriptor), "rb") as file:
            _refuse(name, os.fstat(file.fileno()))
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidSkill(f"{_shown(name)} cannot be read: {error.strerror}") from error
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _checked(data: bytes) -> bytes:
    if len(data) > MOST_TEXT:
        raise InvalidSkill(f"SKILL.md has {len(data):,} bytes; it may have {MOST_TEXT:,}: move details to references/")
    if b"\0" in data:
        raise InvalidSkill("SKILL.md is not text: it holds a NUL character")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise InvalidSkill(f"SKILL.md is not UTF-8 text (byte {error.start:,})") from error
    return data


def _shown(name: str) -> str:
    return name if name.isprintable() else ascii(name)
