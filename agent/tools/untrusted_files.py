"""Which files of a workspace hold untrusted text: by where they lie, and by a record of what was written while such text was in view.

The record is kept line by line, as hashes: a note that the owner writes in too stays trusted but for the lines that came from outside,
and whoever rewrites a line vouches for it. It lies outside the workspace, so that no tool can change it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from agent.taint import merged, source
from memory.audience import INBOX

log = logging.getLogger(__name__)

WHOLE: Final = "*"
"""Stands for all lines of a file."""
NAME: Final = "name"
"""Stands for the file's name, which was chosen while untrusted text was in view."""
MOST_LINES: Final = 2000
"""A longer text is recorded as a whole."""
_TAINT: Final = b'"taint":["'
"""What the line of an entry holds that has untrusted sources (``agent.messages.Taint``)."""
_REWRITE_AT: Final = 2_000_000
"""Bytes from which on the record is written anew when it is read, with each line of a file once."""


class UntrustedFiles:
    """The record of one agent's workspace. Safe to use from several threads; all methods may block.

    ``path`` is where it is kept; None keeps it in memory. ``sessions`` is the folder of the agent's transcripts. ``mark`` returns once the
    record is on disk: it is called before the file is written, so that a crash between the two leaves no untrusted line without its mark.
    """

    def __init__(self, path: Path | None = None, sessions: Path | None = None) -> None:
        self._path = path
        self._sessions = sessions
        self._lock = threading.Lock()
        self._marks: dict[str, dict[str, tuple[str, ...]]] | None = None if path else {}

    def mark(self, path: PurePosixPath, text: str, sources: Iterable[str], *, named: bool = False) -> None:
        """Record that ``text`` is written to ``path`` while text from ``sources`` is in view. ``named``: so was its name chosen.

        Raises OSError where the record cannot be written.
        """
        lines = {digest for line in text.splitlines() if (digest := _digest(line))}
        keys = {WHOLE} if len(lines) > MOST_LINES else lines
        if named:
            keys = {*keys, NAME}
        self._add(str(path), keys, merged(sources))

    def mark_whole(self, path: PurePosixPath, sources: Iterable[str]) -> None:
        """Record that nothing in a file can be trusted, such as one that a command made. Raises OSError."""
        self._add(str(path), {WHOLE, NAME}, merged(sources))

    def vouch(self, path: PurePosixPath, text: str) -> None:
        """Record that the lines of ``text`` are a trusted person's own words, whoever wrote them to ``path`` before. Raises OSError."""
        marks = self._of(path)
        lines = {digest for line in text.splitlines() if (digest := _digest(line)) in marks}
        with self._lock:
            if lines:
                if self._path is not None:
                    _append(self._path, _line(str(path), sorted(lines), ()))
                for digest in lines:
                    marks.pop(digest, None)

    def of(self, path: PurePosixPath, text: str | None = None) -> tuple[str, ...]:
        """Return the sources of the untrusted text in a file, or in ``text`` out of it; empty where all of it can be trusted.

        The first source is the file itself.
        """
        if kind := _lies_outside(path):
            return (source(kind, str(path)),)
        marks = self._of(path)
        if text is None or WHOLE in marks:
            found = [sources for key, sources in marks.items() if key != NAME]
        else:
            found = [marks[digest] for line in text.splitlines() if (digest := _digest(line)) in marks]
        return (_itself(path), *merged(*found)) if found else ()

    def of_name(self, path: PurePosixPath) -> tuple[str, ...]:
        """Return the sources that may have chosen a file's name."""
        if kind := _lies_outside(path):
            return (source(kind, str(path)),)
        return self._of(path).get(NAME, ())

    def of_session(self, name: str) -> tuple[str, ...]:
        """Return the session itself as a source where untrusted text was in view in it. ``name`` is that of its transcript's file."""
        if self._sessions is None or PurePosixPath(name).name != name:
            return (source("session", name),)
        try:
            tainted = _TAINT in (self._sessions / name).read_bytes()
        except OSError:
            tainted = True
        return (source("session", name.removesuffix(".jsonl")),) if tainted else ()

    def below(self, folder: PurePosixPath) -> tuple[str, ...]:
        """Return the files at or below a folder that the record names, as sources."""
        start = PurePosixPath(str(folder).casefold())
        known = map(PurePosixPath, list(self._read()))
        return merged(_itself(path) for path in known if path == start or start in path.parents)

    def trusted(self, path: PurePosixPath, text: str) -> tuple[str, tuple[str, ...]]:
        """Return ``text`` out of a file without its untrusted lines, and the sources of those."""
        marks = self._of(path)
        if not marks:
            return text, ()
        kept, left = [], []
        for line in text.splitlines(keepends=True):
            found = marks.get(WHOLE) or marks.get(_digest(line))
            if found and line.strip():
                left.append(found)
            else:
                kept.append(line)
        return "".join(kept), merged(*left)

    def _of(self, path: PurePosixPath) -> dict[str, tuple[str, ...]]:
        return self._read().get(str(path).casefold(), {})

    def _add(self, path: str, keys: Iterable[str], sources: tuple[str, ...]) -> None:
        known = self._read()
        with self._lock:
            marks = known.setdefault(path.casefold(), {})
            fresh = [key for key in sorted(keys) if key not in marks]
            if fresh:
                if self._path is not None:
                    _append(self._path, _line(path, fresh, sources))
                marks.update(dict.fromkeys(fresh, sources))

    def _read(self) -> dict[str, dict[str, tuple[str, ...]]]:
        if self._marks is None:
            with self._lock:
                if self._marks is None:
                    assert self._path is not None
                    self._marks = _loaded(self._path)
        return self._marks


def _lies_outside(path: PurePosixPath) -> str:
    """Return the kind of source that a file is by where it lies: received files, and notes of guests and groups."""
    parts = tuple(part.casefold() for part in path.parts)
    if parts[:1] == (INBOX,):
        return "file"
    if parts[:1] == ("memory",) and parts[1:2] in {("peers",), ("groups",)}:
        return "file" if INBOX in parts[2:] else "note"
    return ""


def _itself(path: PurePosixPath) -> str:
    return source("note" if path.suffix.casefold() == ".md" else "file", str(path))


def _digest(line: str) -> str:
    """Return what a line is known by; empty for one without a letter or figure."""
    plain = line.strip()
    if not any(map(str.isalnum, plain)):
        return ""
    return hashlib.blake2b(plain.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _line(path: str, keys: list[str], sources: tuple[str, ...]) -> bytes:
    return json.dumps({"path": path, "lines": keys, "from": sources}, separators=(",", ":")).encode() + b"\n"


def _append(path: Path, line: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        before = os.fstat(descriptor).st_size
        left = memoryview(line)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, before)
        raise
    finally:
        os.close(descriptor)


def _loaded(path: Path) -> dict[str, dict[str, tuple[str, ...]]]:
    """Read the record; what a crash left half written at its end is no loss, since its file was not written either."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    known: dict[str, dict[str, tuple[str, ...]]] = {}
    for line in data.splitlines():
        try:
            entry = json.loads(line)
            marks, sources = known.setdefault(str(entry["path"]).casefold(), {}), tuple(map(str, entry["from"]))
            for key in map(str, entry["lines"]):
                if sources:
                    marks.setdefault(key, sources)
                else:
                    marks.pop(key, None)
        except (ValueError, KeyError, TypeError, AttributeError):
            log.warning("a line of %s cannot be read and is passed over", path)
    if len(data) > _REWRITE_AT:
        _rewrite(path, known)
    elif data and not data.endswith(b"\n"):
        _append(path, b"\n")
    return known


def _rewrite(path: Path, known: dict[str, dict[str, tuple[str, ...]]]) -> None:
    lines = []
    for name, marks in known.items():
        grouped: dict[tuple[str, ...], list[str]] = {}
        for key, sources in marks.items():
            grouped.setdefault(sources, []).append(key)
        lines += [_line(name, keys, sources) for sources, keys in grouped.items()]
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    _append(fresh, b"".join(lines))
    fresh.replace(path)
