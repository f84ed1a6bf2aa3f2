"""Session transcripts as a search source: reads the messages of a transcript as text, one line per message."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from memory.notes.sources import SourceFile, Stamp, is_unicode, open_beneath, stamp_of
from memory.settings import SessionSyncSettings

PREFIX = "sessions/"
SUFFIX = ".jsonl"
_PIECE = 1 << 20
LARGEST = 64 * 1024 * 1024
"""Maximum bytes of a transcript that are read; of a longer one, the end."""

QUIET_SECONDS = 600.0
"""A conversation is indexed completely after this many seconds without a message."""

_FIRST_LINE = 1 << 20
_SPEAKERS = {"user": "User", "assistant": "Assistant"}


class Transcripts(Protocol):
    """The transcripts of one agent, wherever they are kept, by names that end in ``.jsonl``. Its methods block, and raise OSError."""

    @property
    def folder(self) -> Path | None:
        """The folder that is watched for changes; None where ``listen`` tells of them."""
        ...

    def listen(self, grown: Callable[[], None]) -> None:
        """Call ``grown`` in any thread when something was appended, where there is no folder."""
        ...

    def walk(self) -> Iterator[tuple[str, Stamp]]:
        """Yield the names of all transcripts that go on, with their stamps."""
        ...

    def read(self, name: str, start: int, most: int) -> bytes:
        """Return up to ``most`` bytes of a transcript from a byte on."""
        ...

    def first_line(self, name: str) -> bytes:
        """Return the first line of a transcript."""
        ...

    def stamp(self, name: str) -> Stamp:
        """Return the stamp of one transcript."""
        ...


class TranscriptFiles:
    """Implements ``Transcripts``: the files of a folder. Links are not followed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path | None:
        """See the protocol."""
        return self._folder

    def listen(self, grown: Callable[[], None]) -> None:
        """See the protocol."""

    def walk(self) -> Iterator[tuple[str, Stamp]]:
        """See the protocol."""
        try:
            entries = sorted(os.scandir(self._folder), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            if entry.name.endswith(SUFFIX) and is_unicode(entry.name) and entry.is_file(follow_symlinks=False):
                yield entry.name, stamp_of(entry.stat(follow_symlinks=False))

    def read(self, name: str, start: int, most: int) -> bytes:
        """See the protocol."""
        with open_beneath(self._folder, PurePosixPath(name)) as fd:
            pieces: list[bytes] = []
            read = 0
            while read < most and (piece := os.pread(fd, min(_PIECE, most - read), start + read)):
                pieces.append(piece)
                read += len(piece)
        return b"".join(pieces)

    def first_line(self, name: str) -> bytes:
        """See the protocol."""
        return self.read(name, 0, _FIRST_LINE).partition(b"\n")[0]

    def stamp(self, name: str) -> Stamp:
        """See the protocol."""
        with open_beneath(self._folder, PurePosixPath(name)) as fd:
            return stamp_of(os.fstat(fd))


class TranscriptSource:
    """The transcripts of one agent whose session key and readers (empty where it does not say) are accepted by ``mine``.

    Only the owner can find them, as ``sessions/<file>``; ``mine`` must not accept sessions of groups or guests. Line numbers
    refer to the derived text: what user and assistant said, one message per line.
    """

    def __init__(self, transcripts: Transcripts, settings: SessionSyncSettings, mine: Callable[[str, str], bool]) -> None:
        self._transcripts = transcripts
        self._settings = settings
        self._mine = mine
        self._accepted: dict[str, bool] = {}

    def walk(self) -> Iterator[SourceFile]:
        """Yield every accepted transcript. Raises OSError where they cannot be listed."""
        for name, stamp in self._transcripts.walk():
            if self._is_accepted(name):
                yield SourceFile(PREFIX + name, stamp)

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
        name = path.removeprefix(PREFIX)
        stamp = self._transcripts.stamp(name)
        data = self._transcripts.read(name, max(0, stamp.size - LARGEST), LARGEST)
        rows = (_line(raw) for raw in data.split(b"\n"))
        return [row for row in rows if row], stamp

    def _is_accepted(self, name: str) -> bool:
        """Return whether ``mine`` accepts the session key and the readers in the first line; False if there are none."""
        if name not in self._accepted:
            try:
                first = self._transcripts.first_line(name)
                body = json.loads(first)["body"]
                key, readers = body["key"], body.get("audience", "")
            except (OSError, ValueError, TypeError, KeyError, AttributeError):
                return False  # it may have just been created
            self._accepted[name] = isinstance(key, str) and self._mine(key, str(readers))
        return self._accepted[name]

    def _new_lines(self, found: SourceFile, start: int) -> int:
        try:
            return self._transcripts.read(found.path.removeprefix(PREFIX), start, found.stamp.size - start).count(b"\n")
        except OSError:
            return 0


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
