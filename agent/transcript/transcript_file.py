"""A transcript in a file: JSON lines, appended and synced; an archived one is compressed."""

from __future__ import annotations

import errno
import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Final, cast

from agent.transcript.entries import InvalidEntry, decode
from agent.transcript.stored_transcript import Contents, TranscriptStat

SUFFIX: Final = ".jsonl"
PACKED: Final = ".gz"
_PIECE: Final = 256 * 1024
_sync = getattr(os, "fdatasync", os.fsync)


class TranscriptFile:
    """Implements ``StoredTranscript``. The file need not exist; a name that ends in ``.gz`` is that of an archived one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def session(self) -> str:
        """See the protocol."""
        return self.path.name.removesuffix(PACKED).removesuffix(SUFFIX)

    @property
    def where(self) -> str:
        """See the protocol."""
        return str(self.path)

    @property
    def archived(self) -> bool:
        """See the protocol."""
        return self.path.suffix == PACKED

    def exists(self) -> bool:
        """See the protocol."""
        return self.path.exists()

    def stat(self) -> TranscriptStat:
        """See the protocol."""
        found = self.path.stat()
        return TranscriptStat(found.st_size, found.st_mtime_ns, (found.st_dev, found.st_ino))

    def contents(self, now: datetime) -> Contents:
        """See the protocol. A whole last line that lacks its end is completed."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return Contents.of(b"")
        with os.fdopen(fd, "r+b") as file:
            data = file.read()
            if data and not data.endswith(b"\n"):
                return self._mended(file.fileno(), data, now)
        return Contents.of(data)

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """See the protocol."""
        with self._opened() as file:
            if start:
                file.seek(start)
            yield from file

    def lines_at(self, places: Sequence[int]) -> list[bytes]:
        """See the protocol."""
        with self._opened() as file:
            return [_line_at(file, place) for place in places]

    def lines_backwards(self, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """See the protocol. The file is read from its end, a piece at a time."""
        if not self.path.exists():
            return
        with self._opened() as file:
            end = file.seek(0, os.SEEK_END)
            end = end if before is None else max(0, min(before, end))
            held = b""
            while end > 0:
                begin = max(0, end - _PIECE)
                file.seek(begin)
                block = file.read(end - begin) + held
                lines = block.split(b"\n")
                held = lines[0] if begin else b""
                place = begin + len(block)
                for number in range(len(lines) - 1, -1 if begin == 0 else 0, -1):
                    place -= len(lines[number])
                    if lines[number]:
                        yield place, lines[number]
                    place -= 1
                end = begin

    def append(self, data: bytes) -> int:
        """See the protocol."""
        return append_synced(self.path, data)

    def replace(self, data: bytes, *, aside: str = "") -> str:
        """See the protocol."""
        times = self.path.stat()
        fresh = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        fresh.unlink(missing_ok=True)
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _write_all(fd, _packed(data) if self.archived else data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.utime(fresh, ns=(times.st_atime_ns, times.st_mtime_ns))
        kept = self.path.with_name(f"{self.path.name}.{aside}") if aside else None
        if kept is not None:
            os.link(self.path, kept)
        fresh.replace(self.path)
        _sync_folder(self.path.parent)
        return str(kept) if kept is not None else ""

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        """Open the file for reading. What is wrong with a compressed one is an OSError, too."""
        try:
            with self._unpacked() if self.archived else self.path.open("rb") as file:
                yield file
        except (EOFError, zlib.error) as error:
            raise OSError(errno.EIO, str(error)) from error

    def _unpacked(self) -> IO[bytes]:
        import gzip

        return cast("IO[bytes]", gzip.open(self.path, "rb"))

    def _mended(self, fd: int, data: bytes, now: datetime) -> Contents:
        """Complete a whole last line that lacks its newline; set anything else behind the last newline aside."""
        end = data.rfind(b"\n") + 1
        tail = data[end:]
        try:
            decode(tail)
        except InvalidEntry:
            torn = self.path.with_name(f"{self.path.name}.torn-{now:%Y%m%dT%H%M%S}")
            aside = os.open(torn, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                _write_all(aside, tail)
                _sync(aside)
            finally:
                os.close(aside)
            os.ftruncate(fd, end)
            os.fsync(fd)
            return Contents.of(data[:end], str(torn))
        os.lseek(fd, 0, os.SEEK_END)
        _write_all(fd, b"\n")
        os.fsync(fd)
        return Contents.of(data + b"\n")


def _packed(data: bytes) -> bytes:
    import gzip

    return gzip.compress(data, mtime=0)


def append_synced(path: Path, data: bytes) -> int:
    """Append to a file that this process alone writes, and sync it; return its size.

    Raises:
        OSError: what was written is taken back, so that no later line stands behind a torn one.
    """
    created = not path.exists()
    if created:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        before = os.fstat(fd).st_size
        try:
            _write_all(fd, data)
            _sync(fd)
        except OSError:
            os.ftruncate(fd, before)
            raise
    finally:
        os.close(fd)
    if created:
        _sync_folder(path.parent)
    return before + len(data)


def _line_at(file: IO[bytes], place: int) -> bytes:
    file.seek(place, os.SEEK_SET)
    return file.readline()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        written = os.write(fd, view)
        if written == 0:
            raise OSError(errno.EIO, "nothing was written")
        view = view[written:]


class _FolderSyncs:
    """Syncs of folders: threads that ask for that of a folder while one runs share the next one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun = self._done = 0

    def sync(self, folder: Path) -> None:
        """Return once a sync that began after this call has ended."""
        begun = self._begun
        with self._lock:
            if self._done > begun:
                return
            self._begun = number = self._begun + 1
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            self._done = number


_syncs: dict[Path, _FolderSyncs] = {}


def _sync_folder(folder: Path) -> None:
    _syncs.setdefault(folder, _FolderSyncs()).sync(folder)
