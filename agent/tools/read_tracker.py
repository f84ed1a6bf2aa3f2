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
_READINGS = 2_048
"""Of all sessions together: a file that a session has not been shown for long is read again."""


class _Reading(Struct, frozen=True):
    digest: bytes
    lines_seen: int
    """How many lines were shown without a gap, from the first on."""
    lines: int


class ReadTracker:
    """Remembers, for each session, which state of which file it was shown. Kept in memory: after a restart files are read anew."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, OrderedDict[PurePosixPath, _Reading]] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()

    def shown(self, session: str, path: PurePosixPath, data: bytes, *, first: int = 1, last: int | None = None) -> None:
        """Take note that a session was shown lines ``first`` to ``last`` (1-based, inclusive; None for the end) of ``data``."""
        digest = _digest(data)
        total = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))  # a last line without an end counts as well
        with self._lock:
            files = self._sessions.setdefault(session, OrderedDict())
            self._sessions.move_to_end(session)
            known = files.pop(path, None)
            seen = known.lines_seen if known and known.digest == digest else 0
            if first <= seen + 1:
                seen = max(seen, total if last is None else last)
            files[path] = _Reading(digest, seen, total)
            self._count += known is None
            if len(files) > _FILES:
                files.popitem(last=False)
                self._count -= 1
            while len(self._sessions) > 1 and (len(self._sessions) > _SESSIONS or self._count > _READINGS):
                self._count -= len(self._sessions.popitem(last=False)[1])

    def rewritten(self, session: str, path: PurePosixPath, data: bytes) -> None:
        """Take note that a session itself turned what it was shown into ``data``: it knows as much of it as before."""
        known = self._known(session, path)
        if known is not None:
            whole = known.lines_seen >= known.lines
            self.shown(session, path, data, last=None if whole else 0)

    def require(self, session: str, path: PurePosixPath, data: bytes, *, whole: bool = False) -> None:
        """Raise StaleFile unless the session was shown this very text (all of it, when ``whole``)."""
        known = self._known(session, path)
        if known is None:
            raise StaleFile(f"{path} has not been read yet: read it first, so that nothing in it is lost")
        if known.digest != _digest(data):
            raise StaleFile(f"{path} has changed since it was read: read it again")
        if whole and known.lines_seen < known.lines:
            raise StaleFile(
                f"only lines 1-{known.lines_seen} of the {known.lines} lines of {path} were read: "
                "read the rest before replacing it, or use edit or append"
            )

    def _known(self, session: str, path: PurePosixPath) -> _Reading | None:
        with self._lock:
            if session not in self._sessions:
                return None
            self._sessions.move_to_end(session)
            return self._sessions[session].get(path)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
