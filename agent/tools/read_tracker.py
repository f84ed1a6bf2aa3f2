"""Tracks what each session has read, so that a change to a file that the model has not seen as it is now is refused."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from pathlib import PurePosixPath

from msgspec import Struct

from agent.errors import StaleFile

_SESSIONS = 256
_FILES = 512


class _Reading(Struct, frozen=True):
    digest: bytes
    lines_seen: int
    """How many lines were shown without a gap, from the first on."""
    lines: int


class ReadTracker:
    """Remembers, for each session, which state of which file it was shown. Kept in memory: after a restart files are read anew."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, OrderedDict[PurePosixPath, _Reading]] = OrderedDict()
        self._lock = threading.Lock()

    def shown(self, session: str, path: PurePosixPath, data: bytes, *, first: int = 1, last: int | None = None) -> None:
        """Take note that a session was shown lines ``first`` to ``last`` (1-based, inclusive; None for the end) of ``data``."""
        digest, total = _digest(data), line_count(data)
        with self._lock:
            files = self._files(session)
            known = files.pop(path, None)
            seen = known.lines_seen if known and known.digest == digest else 0
            if first <= seen + 1:
                seen = max(seen, total if last is None else last)
            files[path] = _Reading(digest, seen, total)
            if len(files) > _FILES:
                files.popitem(last=False)

    def rewritten(self, session: str, path: PurePosixPath, data: bytes) -> None:
        """Take note that a session itself turned what it was shown into ``data``: it knows as much of it as before."""
        with self._lock:
            known = self._files(session).get(path)
        if known is not None:
            whole = known.lines_seen >= known.lines
            self.shown(session, path, data, last=None if whole else 0)

    def require(self, session: str, path: PurePosixPath, data: bytes, *, whole: bool = False) -> None:
        """Raise StaleFile unless the session was shown this very text (all of it, when ``whole``)."""
        with self._lock:
            known = self._files(session).get(path)
        if known is None:
            raise StaleFile(f"{path} has not been read yet: read it first, so that nothing in it is lost")
        if known.digest != _digest(data):
            raise StaleFile(f"{path} has changed since it was read: read it again")
        if whole and known.lines_seen < known.lines:
            raise StaleFile(
                f"only lines 1-{known.lines_seen} of the {known.lines} lines of {path} were read: "
                "read the rest before replacing it, or use edit or append"
            )

    def _files(self, session: str) -> OrderedDict[PurePosixPath, _Reading]:
        files = self._sessions.pop(session, OrderedDict())
        self._sessions[session] = files
        if len(self._sessions) > _SESSIONS:
            self._sessions.popitem(last=False)
        return files


def line_count(data: bytes) -> int:
    """Count lines; a last line without an end counts as well."""
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
