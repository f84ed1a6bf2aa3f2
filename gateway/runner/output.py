"""What a command prints: its beginning and its end in memory, all of it up to a limit in a file of the workspace, without secrets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from gateway.logs.redaction import Redactor

FOLDER: Final = (".homebody", "output")
"""Where the files lie in the workspace. Names that begin with a dot are seen by the owner alone, and are no notes."""
MOST_BYTES: Final = 16 * 1024 * 1024
"""How many bytes of one command's output go into its file; after those, its end follows."""
MOST_FILES: Final = 100
"""How many such files an agent has."""
MOST_TOTAL: Final = 200 * 1024 * 1024
"""How many bytes those files have in all; the oldest are deleted first."""
KEPT: Final = 128 * 1024
"""How many bytes of the beginning, and of the end, are kept in memory."""
_ANSI: Final = re.compile(
    r"\x1b(?:\[[0-9;:<=>?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~]?)"
)
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BUSY: Final = 600.0
_SAMPLE: Final = 8192
_LINE: Final = 64 * 1024
_STRANGE_SHARE: Final = 10
"""Output is binary when more than one in so many characters is no text, or there is a NUL."""
_OPEN: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutputFile:
    """The file with one command's output. Blocking; none of its methods raises: without a file, ``path`` is ""."""

    def __init__(self, workspace: Path, name: str) -> None:
        self.path = ""
        self._descriptor: int | None = None
        with contextlib.suppress(OSError):
            folder = _folder(workspace, make=True)
            try:
                _rotate(folder)
                self._descriptor = os.open(name, _OPEN, 0o600, dir_fd=folder)
                self.path = "/".join((*FOLDER, name))
            finally:
                os.close(folder)

    def write(self, data: bytes) -> bool:
        """Append; returns False when that fails: the file ends there."""
        while data and self._descriptor is not None:
            try:
                data = data[os.write(self._descriptor, data) :]
            except OSError:
                self.close()
        return not data

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Output:
    """What one command has printed so far. ``total`` counts its bytes; ``path`` is its file, "" where there is none.

    Secrets are removed wherever the output is shown or written. What may be the beginning of a secret is held back until more
    of it is there.
    """

    def __init__(self, redactor: Redactor, workspace: Path | None, name: str) -> None:
        self._redactor = redactor
        self._workspace = workspace
        self._name = name
        self._file: OutputFile | None = None
        self._carried = ""
        self._written = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._read = 0
        self.total = 0
        self.over = False
        self.kept = True
        """Whether the file has all that was printed."""

    @property
    def path(self) -> str:
        """The file's path in the workspace, or ""."""
        return self._file.path if self._file is not None else ""

    @property
    def planned(self) -> str:
        """The path that the file has, or will have; "" where there is to be none."""
        return "/".join((*FOLDER, self._name)) if self._workspace is not None else ""

    def fits(self, most: int) -> bool:
        """Say whether ``ends`` shows all that was printed in so many characters."""
        return self._whole and not is_binary(self._head) and len(readable(self._shown(_text(self._head + self._tail)))) <= most

    async def add(self, chunk: bytes) -> None:
        """Take in what was printed."""
        self.total += len(chunk)
        room = KEPT - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:] if room > 0 else chunk
        if len(self._tail) > 2 * KEPT:
            del self._tail[:-KEPT]
        if self._workspace is not None and self.kept:
            await asyncio.to_thread(self._keep, _text(chunk))

    async def end(self) -> None:
        """There is no more: complete the file."""
        self.over = True
        if self._workspace is not None:
            await asyncio.to_thread(self._complete)

    async def remove(self) -> None:
        """Delete the file."""
        if self.path and self._workspace is not None:
            await asyncio.to_thread(remove, self._workspace, self.path)
            self._file = None

    def _keep(self, text: str) -> None:
        if self._file is None and self._workspace is not None:
            self._file = OutputFile(self._workspace, self._name)
        text = self._carried + text
        split = len(text) - self._redactor.unfinished(text)
        self._carried = text[split:]
        self._write(self._redactor.text(text[:split]))

    def _write(self, text: str) -> None:
        assert self._file is not None
        data = _bytes(text)
        if self._written + len(data) > MOST_BYTES:
            self.kept = False
            data = data[: MOST_BYTES - self._written]
        self._written += len(data)
        if not self._file.write(data):
            self.kept = False

    def _complete(self) -> None:
        if self._file is None:
            return
        if self.kept:
            self._write(self._redactor.text(self._carried))
        if not self.kept:
            mark = f"\n[{self.total:,} bytes in all: the file has the first {self._written:,}; what follows is the end]\n"
            self._file.write(_bytes(mark + self._end()))
        self._file.close()

    def _end(self) -> str:
        return self._redactor.after_cut(_text(self._tail))

    @property
    def _whole(self) -> bool:
        """Whether memory has all that was printed."""
        return self.total == len(self._head) + len(self._tail)

    def ends(self, most: int) -> str:
        """Return the beginning and the end for a model, in at most ``most`` characters."""
        if is_binary(self._head):
            return self._binary()
        if self._whole:
            text = readable(self._shown(_text(self._head + self._tail)))
            if len(text) <= most:
                return text
            beginning = end = text
        else:
            head = _text(self._head)
            beginning, end = (
                readable(self._redactor.text(head[: len(head) - self._redactor.unfinished(head)])),
                readable(self._end()),
            )
        mark = f"\n[cut: {self.total:,} bytes in all; the middle is left out]\n"
        room = max(0, most - len(mark))
        return beginning[: room * 3 // 4] + mark + end[max(0, len(end) - (room - room * 3 // 4)) :]

    def unread(self, most: int) -> str:
        """Return what was printed since the last call, at most ``most`` characters of its end."""
        start, text, gap = self._read, "", False
        if self._whole:
            text = _text((self._head + self._tail)[start:])
        elif start >= self.total - len(self._tail):
            text = _text(self._tail[len(self._tail) - (self.total - start) :])
        else:
            text, gap = _text(self._tail), True
        held = 0 if self.over else self._redactor.unfinished(text)
        self._read = self.total - len(_bytes(text[len(text) - held :]))
        if is_binary(self._head):
            return self._binary() if self.total > start else ""
        text = text[: len(text) - held]
        text = readable(self._redactor.after_cut(text) if gap else self._redactor.text(text))
        if gap or len(text) > most:
            mark = "[the beginning of this part is left out]\n"
            text = mark + text[max(0, len(text) - (most - len(mark))) :]
        return text

    def last_lines(self, count: int, most: int) -> str:
        """Return the last lines, each cut to ``most`` characters, for people who watch."""
        recent = bytes((self._head + self._tail)[-4096:]) if self._whole else bytes(self._tail[-4096:])
        if is_binary(self._head):
            return self._binary()
        text = _text(recent)
        text = readable(self._redactor.after_cut(text) if self.total > len(recent) else self._shown(text))
        return "\n".join(line if len(line) <= most else line[: most - 1] + "…" for line in text.rstrip().split("\n")[-count:])

    def _shown(self, text: str) -> str:
        held = 0 if self.over else self._redactor.unfinished(text)
        return self._redactor.text(text[: len(text) - held])

    def _binary(self) -> str:
        return f"[binary output, {self.total:,} bytes; it begins with {bytes(self._head[:16]).hex(' ')}]"


def lines_of(lines: Iterable[str], offset: int | None, limit: int, most: int) -> str:
    """Return ``limit`` lines from line ``offset`` (None: the last ones), and a line that says which these are."""
    limit = max(1, limit)
    chosen: deque[str] = deque(maxlen=limit)
    count = 0
    for count, line in enumerate(lines, 1):
        if offset is None or offset <= count < offset + limit:
            chosen.append(line)
    first = max(1, count - limit + 1) if offset is None else offset
    if not chosen:
        return f"[there are {count:,} lines]"
    return _fitting(list(chosen), first, count, most, from_end=offset is None)


def _fitting(lines: list[str], first: int, count: int, most: int, *, from_end: bool) -> str:
    room, kept = most - 100, 0
    for line in reversed(lines) if from_end else lines:
        room -= len(line) + 1
        if room < 0 and kept:
            break
        kept += 1
    lines, first = (lines[-kept:], first + len(lines) - kept) if from_end else (lines[:kept], first)
    return "\n".join([*(line[:most] for line in lines), f"[lines {first:,} to {first + len(lines) - 1:,} of {count:,}]"])


def read(workspace: Path, path: str) -> Iterator[str]:
    """Yield the lines of an output file, ready to be read; none where there is no such file. Blocking.

    It is read piece by piece, so that other threads can run meanwhile; a line of more than ``_LINE`` bytes comes in pieces.
    """
    try:
        folder = _folder(workspace)
        try:
            descriptor = os.open(
                path.rpartition("/")[2], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
            )
        finally:
            os.close(folder)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return
            if is_binary(file.peek(_SAMPLE)):
                yield f"[binary output, {os.fstat(descriptor).st_size:,} bytes]"
                return
            while line := file.readline(_LINE):
                yield readable(_text(line)).rstrip("\n")
    except OSError:
        return


def remove(workspace: Path, path: str) -> None:
    """Delete an output file, if it is there. Blocking."""
    with contextlib.suppress(OSError):
        folder = _folder(workspace)
        try:
            os.unlink(path.rpartition("/")[2], dir_fd=folder)
        finally:
            os.close(folder)


def is_binary(data: bytes | bytearray) -> bool:
    """Say whether output is no text, by its beginning."""
    sample = bytes(data[:_SAMPLE])
    if b"\0" in sample:
        return True
    text = sample.decode("utf-8", "surrogateescape")
    cut = 3 if len(data) > _SAMPLE else 0  # a character may be cut at the end of the sample
    strange = (
        len(_CONTROLS.findall(_ANSI.sub("", text).replace("\r", ""))) + sum("\ud800" <= one <= "\udfff" for one in text) - cut
    )
    return strange * _STRANGE_SHARE > len(text)


def readable(text: str) -> str:
    """Return terminal output as text: no escape sequences, of lines that were written over only the last form, no broken characters."""
    text = _ANSI.sub("", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    text = _CONTROLS.sub("", text)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _folder(workspace: Path, *, make: bool = False) -> int:
    """Open the folder of the files, a name at a time and through no link, since a command may have put one there."""
    descriptor = os.open(os.path.realpath(workspace), _FOLDER)
    for name in FOLDER:
        try:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=descriptor)
            deeper = os.open(name, _FOLDER, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = deeper
    return descriptor


def _rotate(folder: int) -> None:
    """Delete the oldest files beyond the limits. Those of the last minutes stay: their commands may still run."""
    found: list[tuple[float, int, str]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, entry.name))
    found.sort(reverse=True)
    total = 0
    for place, (changed, size, name) in enumerate(found):
        total += size
        if (place >= MOST_FILES - 1 or total > MOST_TOTAL) and time.time() - changed > _BUSY:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
