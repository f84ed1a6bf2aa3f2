"""Changes a note's file only as it was read: what another program writes meanwhile is kept.

Nobody else takes a lock before writing to a note: the agent's own tools append to it, editors replace it. So the file is compared just
before it is replaced, and the one that was replaced is looked at once more: what was appended to it until then is appended to the new one.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

_HALF = re.compile(r"\..+\.md\.(\d+)\.half", re.DOTALL)


class NoteChanged(Exception):
    """The file is not as it was read. It was left as it is."""


def put(path: Path, data: bytes | None, *, expected: bytes | None) -> None:
    """Replace a file atomically, make it, or delete it if ``data`` is None; owner's rights stay.

    ``expected`` is the SHA-256 of what it holds, None where there is no file.

    Raises:
        NoteChanged: it holds something else, or came or went meanwhile.
        OSError: it cannot be written, or its path contains a symbolic link.
    """
    if os.path.realpath(path) != str(path):
        raise OSError(40, "its path contains a symbolic link")
    half = path.with_name(f".{path.name}.{os.getpid()}.half")
    try:
        _remove_halves_of_the_dead(path.parent)
        if expected is None:
            if data is not None:
                with path.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                _sync_folder(path)
            return
        old = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _replaced(path, half, data, old, expected)
        finally:
            os.close(old)
    except (FileExistsError, FileNotFoundError) as error:
        raise NoteChanged(str(path)) from error
    finally:
        half.unlink(missing_ok=True)


def _replaced(path: Path, half: Path, data: bytes | None, old: int, expected: bytes) -> None:
    before = _whole(old)
    if hashlib.sha256(before).digest() != expected:
        raise NoteChanged(str(path))
    if data is not None:
        with half.open("wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), os.fstat(old).st_mode & 0o777)
            os.fsync(file.fileno())
    if _whole(old) != before or path.stat().st_ino != os.fstat(old).st_ino:
        raise NoteChanged(str(path))
    if data is None:
        path.unlink()
    else:
        half.replace(path)
    _sync_folder(path)
    now = _whole(old)
    if now == before:
        return
    if now.startswith(before):
        with path.open("ab") as file:
            file.write(now[len(before) :])
        return
    half.write_bytes(now)  # written anew in its place, at that very moment
    half.chmod(os.fstat(old).st_mode & 0o777)
    half.replace(path)
    raise NoteChanged(str(path))


def _sync_folder(path: Path) -> None:
    fd = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove_halves_of_the_dead(folder: Path) -> None:
    """Remove what processes that were killed had begun to write."""
    for path in folder.iterdir():
        found = _HALF.fullmatch(path.name)
        if found and not Path(f"/proc/{found[1]}").exists():
            path.unlink(missing_ok=True)


def _whole(descriptor: int) -> bytes:
    found = bytearray()
    while piece := os.pread(descriptor, 1 << 20, len(found)):
        found += piece
    return bytes(found)
