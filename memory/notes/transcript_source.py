"""Session transcripts as a search source: reads the messages of a transcript as text, one line per message."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from memory.notes.sources import SourceFile, Stamp, is_unicode, open_beneath, stamp_of
from memory.settings import SessionSyncSettings

PREFIX = "sessions/"
LARGEST = 64 * 1024 * 1024
"""Maximum bytes of a transcript that are read; of a longer one, the end."""

QUIET_SECONDS = 600.0
"""A conversation is indexed completely after this many seconds without a message."""

_FIRST_LINE = 1 << 20
_SPEAKERS = {"user": "User", "assistant": "Assistant"}


class TranscriptSource:
    """The ``*.jsonl`` transcripts of one agent whose session key and readers (empty where it does not say) are accepted by ``mine``.

    Only the owner can find them, as ``sessions/<file>``; ``mine`` must not accept sessions of groups or guests. Line numbers
    refer to the derived text: what user and assistant said, one message per line.
    """

    def __init__(self, folder: Path, settings: SessionSyncSettings, mine: Callable[[str, str], bool]) -> None:
        self._folder = folder
        self._settings = settings
        self._mine = mine
        self._accepted: dict[str, bool] = {}

    @property
    def folder(self) -> Path:
        """The folder of the transcripts."""
        return self._folder

    def walk(self) -> Iterator[SourceFile]:
        """Yield every accepted transcript."""
        try:
            entries = sorted(os.scandir(self._folder), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            named = entry.name.endswith(".jsonl") and is_unicode(entry.name)
            if named and entry.is_file(follow_symlinks=False) and self._is_accepted(entry.name):
                yield SourceFile(PREFIX + entry.name, stamp_of(entry.stat(follow_symlinks=False)))

    def is_due(self, known: Stamp | None, found: SourceFile, *, now: datetime) -> bool:
        """Return whether to index a transcript again: it grew by enough bytes or lines, or it grew and is quiet now."""
        if known is None or found.stamp.size < known.size:
            return True
        grown = found.stamp.size - known.size
        enough = grown >= self._settings.delta_bytes or now.timestamp() - found.stamp.mtime_ns / 1e9 >= QUIET_SECONDS
        return grown > 0 and (enough or self._new_lines(found, known.size) >= self._settings.delta_messages)

    def read(self, path: str) -> tuple[list[str], Stamp]:
        """Return the derived lines of a transcript, and the stamp of the file.

        Raises:
            OSError: it cannot be read.
        """
        with open_beneath(self._folder, PurePosixPath(path.removeprefix(PREFIX))) as fd:
            stamp = stamp_of(os.fstat(fd))
            data = _tail(fd, stamp.size)
        rows = (_line(raw) for raw in data.split(b"\n"))
        return [row for row in rows if row], stamp

    def _is_accepted(self, name: str) -> bool:
        """Return whether ``mine`` accepts the session key and the readers in the first line; False if there are none."""
        if name not in self._accepted:
            try:
                with open_beneath(self._folder, PurePosixPath(name)) as fd:
                    first = os.pread(fd, _FIRST_LINE, 0).partition(b"\n")[0]
                body = json.loads(first)["body"]
                key, readers = body["key"], body.get("audience", "")
            except (OSError, ValueError, TypeError, KeyError, AttributeError):
                return False  # it may have just been created
            self._accepted[name] = isinstance(key, str) and self._mine(key, str(readers))
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
    """Return the text of a message on one line, or "" for other entries, incomplete lines and commands."""
    try:
        entry: Any = json.loads(raw)
        message = entry["body"]["message"]
        speaker = _SPEAKERS.get(message["role"])
        said = " ".join(part["text"] for part in message["content"] if part.get("type") == "text")
    except (ValueError, TypeError, KeyError, AttributeError):
        return ""
    words = " ".join(said.split())
    return f"{speaker}: {words}" if speaker and words and not words.startswith("/") else ""
