"""Session transcripts as a search source: reads the messages of a transcript as text, one line per message."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, Protocol

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
_ARCHIVED = 100
"""Of how many transcripts that are no longer there it may be known whether they are accepted, apart from as many as there are."""
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
            entries = os.scandir(self._folder)
        except OSError:
            return
        with entries:
            for entry in entries:
                if not (entry.name.endswith(SUFFIX) and is_unicode(entry.name) and entry.is_file(follow_symlinks=False)):
                    continue
                try:
                    stamp = stamp_of(entry.stat(follow_symlinks=False))
                except FileNotFoundError:  # it was archived meanwhile
                    continue
                yield entry.name, stamp

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


class Place(NamedTuple):
    """Where a chunk of a transcript begins, the last one when it was read with ``stamp``.

    ``start`` is the byte of its first line, behind ``before`` derived lines; the first ``repeated`` of its lines end the chunk before.
    The ``length`` bytes from ``start`` to the end of the first line that is new in the chunk have this checksum: that line decided
    where the chunk begins, and each is like no other, as it has an id and a time.
    """

    stamp: Stamp
    start: int
    before: int
    repeated: int
    length: int
    checksum: int


class Excerpt:
    """The derived lines of the bytes ``data`` of a transcript, which begin at the byte ``start``.

    ``goes_on``: what is read later can begin at a ``place`` of it. That is not so where it was too long to be read as a whole, or
    where its last line is being written.
    """

    def __init__(self, data: bytes, start: int, stamp: Stamp, *, whole: bool = True) -> None:
        self.stamp = stamp
        self.lines: list[str] = []
        self._data, self._start = data, start
        self._spans: list[tuple[int, int]] = []
        begin = 0
        for raw in data.split(b"\n"):
            end = begin + len(raw) + 1
            if line := _line(raw):
                self.lines.append(line)
                self._spans.append((begin, end))
            begin = end
        self.goes_on = whole and bool(self._spans) and self._spans[-1][1] <= len(data)

    def place(self, line: int, repeated: int, before: int) -> Place:
        """Return the place of a line of these, which come behind ``before`` others."""
        begin, end = self._spans[line][0], self._spans[line + repeated][1]
        guarded = self._data[begin:end]
        return Place(self.stamp, self._start + begin, before + line, repeated, len(guarded), zlib.crc32(guarded))


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
        count = 0
        for name, stamp in self._transcripts.walk():
            count += 1
            if self._is_accepted(name):
                yield SourceFile(PREFIX + name, stamp)
        if len(self._accepted) > 2 * count + _ARCHIVED:
            self._accepted.clear()

    def those(self, names: Collection[str]) -> list[SourceFile]:
        """Return the accepted ones of these transcripts that are there. Raises OSError where one cannot be read."""
        found: list[SourceFile] = []
        for name in sorted(names):
            with contextlib.suppress(FileNotFoundError):
                stamp = self._transcripts.stamp(name)
                if self._is_accepted(name):
                    found.append(SourceFile(PREFIX + name, stamp))
        return found

    def is_due(self, known: Stamp | None, found: SourceFile, *, now: datetime) -> bool:
        """Return whether to index a transcript again: it grew by enough bytes or lines, it grew and is quiet now, or it is another file.

        One in which words were erased is another file, which may be as long as it was before.
        """
        if known is None or found.stamp.size < known.size or found.stamp.inode != known.inode:
            return True
        grown = found.stamp.size - known.size
        if grown == 0:
            return found.stamp.ctime_ns != known.ctime_ns
        enough = grown >= self._settings.delta_bytes or now.timestamp() - found.stamp.mtime_ns / 1e9 >= QUIET_SECONDS
        return enough or self._new_lines(found, known.size) >= self._settings.delta_messages

    def read(self, path: str) -> Excerpt:
        """Return the derived lines of a transcript.

        Raises:
            OSError: it cannot be read.
        """
        name = path.removeprefix(PREFIX)
        stamp = self._transcripts.stamp(name)
        start = max(0, stamp.size - LARGEST)
        return Excerpt(self._transcripts.read(name, start, stamp.size - start), start, stamp, whole=start == 0)

    def read_on(self, path: str, place: Place) -> Excerpt | None:
        """Return the derived lines from a place on; None where it is not sure that what is before it is still the same.

        Transcripts are only ever added to, replaced by others, or lose an end that was not written whole.

        Raises:
            OSError: it cannot be read.
        """
        name = path.removeprefix(PREFIX)
        stamp = self._transcripts.stamp(name)
        if stamp.inode != place.stamp.inode or not place.stamp.size < stamp.size <= LARGEST:
            return None
        data = self._transcripts.read(name, place.start, stamp.size - place.start)
        if len(data) < place.length or zlib.crc32(data[: place.length]) != place.checksum:
            return None
        return Excerpt(data, place.start, stamp)

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
