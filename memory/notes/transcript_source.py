"""Session transcripts as a source: what was said in each, one line a message, as text that can be cut and indexed."""

from __future__ import annotations

import json
import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from memory.notes.sources import SourceFile, Stamp, is_unicode, open_beneath, stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from memory.settings import SessionSyncSettings

PREFIX = "sessions/"
LARGEST = 64 * 1024 * 1024
"""Bytes of a transcript that are still read; of a longer one, the end."""

QUIET_SECONDS = 600.0
"""A conversation in which nothing was said for so long is read to its end."""

_FIRST_LINE = 1 << 20
_SPEAKERS = {"user": "User", "assistant": "Assistant"}


class TranscriptSource:
    """The ``*.jsonl`` files of one agent, as far as they are of sessions that ``mine`` (given a session's key) accepts.

    They are found by the owner alone, under ``sessions/<file>``: what a group or a guest said must not be among them. The lines
    of a hit are those of the derived text: what user and assistant said, one message a line.
    """

    def __init__(self, folder: Path, settings: SessionSyncSettings, mine: Callable[[str], bool]) -> None:
        self._folder = folder
        self._settings = settings
        self._mine = mine
        self._accepted: dict[str, bool] = {}

    @property
    def folder(self) -> Path:
        """Where they lie."""
        return self._folder

    def walk(self) -> Iterator[SourceFile]:
        """Yield every transcript that is accepted."""
        try:
            entries = sorted(os.scandir(self._folder), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            named = entry.name.endswith(".jsonl") and is_unicode(entry.name)
            if named and entry.is_file(follow_symlinks=False) and self._is_accepted(entry.name):
                yield SourceFile(PREFIX + entry.name, stamp_of(entry.stat(follow_symlinks=False)))

    def is_due(self, known: Stamp | None, found: SourceFile, *, now: datetime) -> bool:
        """Say whether a transcript is to be read again: it grew by enough, in bytes or in lines, or by anything and is quiet now."""
        if known is None or found.stamp.size < known.size:
            return True
        grown = found.stamp.size - known.size
        enough = grown >= self._settings.delta_bytes or now.timestamp() - found.stamp.mtime_ns / 1e9 >= QUIET_SECONDS
        return grown > 0 and (enough or self._new_lines(found, known.size) >= self._settings.delta_messages)

    def read(self, path: str) -> tuple[list[str], Stamp]:
        """Return the derived lines of a transcript, and the stamp they belong to.

        Raises:
            OSError: it cannot be read.
        """
        with open_beneath(self._folder, PurePosixPath(path.removeprefix(PREFIX))) as fd:
            stamp = stamp_of(os.fstat(fd))
            data = _tail(fd, stamp.size)
        rows = (_line(raw) for raw in data.split(b"\n"))
        return [row for row in rows if row], stamp

    def _is_accepted(self, name: str) -> bool:
        """Ask the first line whose session it is; one that cannot be told is nobody's."""
        if name not in self._accepted:
            try:
                with open_beneath(self._folder, PurePosixPath(name)) as fd:
                    first = os.pread(fd, _FIRST_LINE, 0).partition(b"\n")[0]
                key = json.loads(first)["body"]["key"]
            except (OSError, ValueError, TypeError, KeyError):
                return False  # perhaps it is only being begun
            self._accepted[name] = isinstance(key, str) and self._mine(key)
        return self._accepted[name]

    def _new_lines(self, found: SourceFile, start: int) -> int:
        try:
            with open_beneath(self._folder, PurePosixPath(found.path.removeprefix(PREFIX))) as fd:
                return os.pread(fd, found.stamp.size - start, start).count(b"\n")
        except OSError:
            return 0


def _tail(fd: int, size: int) -> bytes:
    start = max(0, size - LARGEST)
    pieces: list[bytes] = []
    while piece := os.pread(fd, 1 << 20, start + sum(map(len, pieces))):
        pieces.append(piece)
    return b"".join(pieces)


def _line(raw: bytes) -> str:
    """Return what a message says, on one line; nothing for other entries, half lines, and commands."""
    try:
        entry: Any = json.loads(raw)
        message = entry["body"]["message"]
        speaker = _SPEAKERS.get(message["role"])
        said = " ".join(part["text"] for part in message["content"] if part.get("type") == "text")
    except (ValueError, TypeError, KeyError, AttributeError):
        return ""
    words = " ".join(said.split())
    return f"{speaker}: {words}" if speaker and words and not words.startswith("/") else ""
