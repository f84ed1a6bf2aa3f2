"""The end of the log for a reader that comes again: the latest lines, and later those that were written since. Blocking."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from gateway.logs.log_reader import LogFilter, LogLine, log_files, read_log

_PLACE: Final = re.compile(r"(\d+)-(\d+)-(\d+)")
MOST_BYTES: Final = 8 * 1024 * 1024
"""How much of what was written since is read; of more, the end."""


@dataclass(frozen=True, slots=True)
class LogWindow:
    """Lines, oldest first, and the ``place`` behind them, which the next reading is given. ``gap``: lines between were left out."""

    lines: list[LogLine]
    place: str
    gap: bool = False


def latest(path: Path, wanted: LogFilter, most: int) -> LogWindow:
    """Return the last ``most`` wanted lines of all files. Raises OSError."""
    place = _end(path)
    return LogWindow(list(deque(read_log(path, wanted), maxlen=most)), place)


def since(path: Path, place: str, wanted: LogFilter, most: int) -> LogWindow:
    """Return the wanted lines behind a ``place``, over rotations; the latest ones where that is not there any more. Raises OSError."""
    known = _PLACE.fullmatch(place)
    if known is None:
        return latest(path, wanted, most)
    device, inode, offset = map(int, known.groups())
    files = log_files(path)
    begun = next((n for n, file in enumerate(files) if _is(file, device, inode) and file.stat().st_size >= offset), None)
    if begun is None:
        found = latest(path, wanted, most)
        return LogWindow(found.lines, found.place, gap=True)
    kept: deque[LogLine] = deque(maxlen=most)
    count, following = 0, place
    for number, file in enumerate(files[begun:]):
        start = offset if number == 0 else 0
        with suppress(FileNotFoundError), file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            start = max(start, size - MOST_BYTES)
            stream.seek(start)
            end = start
            for raw in _whole(stream.read(size - start)):
                end += len(raw)
                if raw.strip() and wanted.takes(line := LogLine.parse(raw.rstrip(b"\r\n"))):
                    kept.append(line)
                    count += 1
            found_at = os.fstat(stream.fileno())
            following = f"{found_at.st_dev}-{found_at.st_ino}-{end}"
    return LogWindow(list(kept), following, gap=count > most)


def _whole(data: bytes) -> Iterator[bytes]:
    yield from (line for line in data.splitlines(keepends=True) if line.endswith(b"\n"))


def _end(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            found = os.fstat(stream.fileno())
            stream.seek(max(0, found.st_size - 1))
            whole = found.st_size if stream.read(1) in (b"\n", b"") else _last_line_end(stream, found.st_size)
    except FileNotFoundError:
        return ""
    return f"{found.st_dev}-{found.st_ino}-{whole}"


def _last_line_end(file: BinaryIO, size: int) -> int:
    """Return where the last whole line ends in a file whose last line is being written."""
    start = max(0, size - 1024 * 1024)
    file.seek(start)
    return start + file.read(size - start).rfind(b"\n") + 1


def _is(file: Path, device: int, inode: int) -> bool:
    try:
        found = file.stat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (device, inode)
