"""Reads the log file and the rotated ones before it, and follows them over rotation: `homebody logs`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

RANKS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
"""The levels that lines have, and their order."""
_HEAD: Final = ("at", "level", "logger", "event", "agent", "session", "channel", "turn", "exception")
_NUMBER: Final = re.compile(r"\.(\d+)$")
EVERY_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log. ``facts`` is empty for one that is no JSON object, such as one that a crash cut off."""

    text: str
    facts: dict[str, Any]

    @classmethod
    def parse(cls, raw: bytes) -> LogLine:
        """Read a line without its newline."""
        text = raw.decode("utf-8", "replace")
        with suppress(ValueError, RecursionError):
            found = json.loads(text)
            if isinstance(found, dict):
                return cls(text, found)
        return cls(text, {})

    @property
    def at(self) -> datetime | None:
        """When it was logged; None if it does not say."""
        with suppress(ValueError, TypeError):
            at = datetime.fromisoformat(str(self.facts.get("at")))
            return at if at.tzinfo is not None else None
        return None

    @property
    def rank(self) -> int:
        """The place of its level in ``RANKS``; 0 if it has none."""
        return RANKS.get(str(self.facts.get("level")), 0)

    def more(self) -> dict[str, Any]:
        """Return what it says besides time, level, logger, event, context and traceback."""
        return {name: value for name, value in self.facts.items() if name not in _HEAD and value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """Which lines are wanted: all that is given must hold. ``session``: a session key or its end; ``pattern`` is searched in the line."""

    level: str = "debug"
    session: str = ""
    since: datetime | None = None
    pattern: re.Pattern[str] | None = None

    def takes(self, line: LogLine) -> bool:
        """Whether a line is wanted. One that is no JSON object is, where only a pattern is given that it matches."""
        if self.pattern is not None and not self.pattern.search(line.text):
            return False
        if not line.facts:
            return not self.session and self.since is None and self.level == "debug"
        if line.rank < RANKS[self.level]:
            return False
        if self.since is not None and (line.at is None or line.at < self.since):
            return False
        said = str(line.facts.get("session") or "")
        return not self.session or said == self.session or said.endswith(f":{self.session}")


def log_files(path: Path) -> list[Path]:
    """Return the log file and the rotated ones, oldest first."""
    rotated = [(int(found[1]), one) for one in path.parent.glob(f"{path.name}.*") if (found := _NUMBER.search(one.name))]
    return [*(one for _, one in sorted(rotated, reverse=True)), *([path] if path.exists() else [])]


def read_log(path: Path, wanted: LogFilter, tail: LogTail | None = None) -> Iterator[LogLine]:
    """Yield the wanted lines of all files, oldest first, up to where ``tail`` goes on. Raises OSError.

    They are those that are there at the beginning, whatever is rotated meanwhile.
    """
    with ExitStack() as opened:
        streams = _opened(path)
        for stream in streams:
            opened.enter_context(stream)
        for stream in streams:
            if wanted.since is not None and stream is not streams[-1] and _ended_before(stream, wanted.since):
                continue
            if tail is not None and not tail.was_there(stream):
                continue
            last = tail is not None and tail.begins_in(stream)
            for raw in iter(stream.readline, b""):
                if last and tail is not None and stream.tell() > tail.start:
                    return
                if raw.strip() and wanted.takes(line := LogLine.parse(raw.rstrip(b"\r\n"))):
                    yield line
            if last:
                return


def _key(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        return _key(file.stat())
    except OSError:
        return None


def _unmoved(path: Path) -> list[tuple[Path, tuple[int, int]]]:
    """Return the log files and what they are, oldest first, as they are between two rotations."""
    former = None
    while (found := [(file, key) for file in log_files(path) if (key := _identity(file)) is not None]) != former:
        former = found
    return found


def _opened(path: Path) -> list[BinaryIO]:
    """Open the log files, oldest first."""
    while True:
        streams: list[BinaryIO] = []
        for file, key in _unmoved(path):
            if (stream := _open_as(file, key)) is None:
                break
            streams.append(stream)
        else:
            return streams
        for stream in streams:
            stream.close()


def _open_as(file: Path, key: tuple[int, int]) -> BinaryIO | None:
    """Open a file; None where a rotation has given its name to another one meanwhile, or to none."""
    with suppress(FileNotFoundError):
        stream = file.open("rb")
        if _key(os.fstat(stream.fileno())) == key:
            return stream
        stream.close()
    return None


def _ended_before(stream: BinaryIO, moment: datetime) -> bool:
    return os.fstat(stream.fileno()).st_mtime < moment.timestamp() - 1


class LogTail:
    """Returns the lines that were written since it was made, over any number of rotations. Blocking; close it at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: BinaryIO | None = None
        self._rest = b""
        self.start = 0
        self._before = {key for file in log_files(path) if (key := _identity(file))}
        with suppress(FileNotFoundError):
            self._stream = path.open("rb")
            self._before.add(_key(os.fstat(self._stream.fileno())))
            data = self._stream.read()
            self.start = data.rfind(b"\n") + 1
            self._stream.seek(self.start)

    def was_there(self, stream: BinaryIO) -> bool:
        """Whether an open file was there when this one began; what is in later ones is returned by ``lines``."""
        return _key(os.fstat(stream.fileno())) in self._before

    def begins_in(self, stream: BinaryIO) -> bool:
        """Whether an open file is the one in which this one began; ``start`` is the place in it."""
        return self._stream is not None and os.path.samestat(os.fstat(stream.fileno()), os.fstat(self._stream.fileno()))

    def lines(self) -> Iterator[LogLine]:
        """Yield the whole lines that came since the last call; the beginning of one that is being written is kept for the next."""
        while True:
            yield from self._read()
            ours = None if self._stream is None else os.fstat(self._stream.fileno())
            try:
                if ours is not None and os.path.samestat(ours, self._path.stat()):
                    yield from self._after_cut(ours.st_size)
                    return
            except FileNotFoundError:
                return  # it is put aside, and the next one not yet begun
            fresh = self._next(None if ours is None else _key(ours))
            if fresh is None:
                return
            yield from self._read()  # what came while the next one was looked for
            self.close()
            self._stream = fresh

    def _after_cut(self, size: int) -> Iterator[LogLine]:
        """Go on in a file that became shorter: a line that could not be written whole is taken back; one that was emptied begins anew."""
        if self._stream is not None and size < self._stream.tell():
            whole = self._stream.tell() - len(self._rest)
            self._stream.seek(whole if size >= whole else 0)
            self._rest = b""
            yield from self._read()

    def _next(self, ours: tuple[int, int] | None) -> BinaryIO | None:
        """Open the file that was begun after the one that is open, or the first one since the beginning; None if there is none yet."""
        while True:
            files = _unmoved(self._path)
            keys = [key for _, key in files]
            if ours is None:
                later = [one for one in files if one[1] not in self._before]
            else:
                later = files[keys.index(ours) + 1 :] if ours in keys else files[-1:]
            if not later:
                return None
            if (fresh := _open_as(*later[0])) is not None:
                return fresh

    def _read(self) -> Iterator[LogLine]:
        if self._stream is None:
            return
        *whole, self._rest = (self._rest + self._stream.read()).split(b"\n")
        yield from (LogLine.parse(raw.rstrip(b"\r")) for raw in whole if raw.strip())

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
            self._stream, self._rest = None, b""


def follow_log(tail: LogTail, wanted: LogFilter, pause: Callable[[float], object]) -> Iterator[LogLine]:
    """Yield the wanted lines as they are written, without end. ``pause`` waits for so many seconds. Raises OSError."""
    while True:
        yield from filter(wanted.takes, tail.lines())
        pause(EVERY_SECONDS)
