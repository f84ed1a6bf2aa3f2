"""The session store of one agent: session keys to records (``gateway.sessions.sessions_file`` stores them).

If the file and its predecessor are both unusable, the sessions are rebuilt from the first lines of the transcripts, and the bad
file is renamed with a date.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from agent.timing import Clock
from agent.transcript.entries import InvalidEntry, Opened, decode
from gateway.base.errors import StorageFailed
from gateway.sessions.sessions_file import Damaged, SessionFile, SessionRecord

__all__ = ["SessionRecord", "SessionStore"]
log = logging.getLogger(__name__)


SOON = 1.0
"""Seconds of which a crash may forget what is not worth a write of its own."""


class SessionStore:
    """The sessions of one agent. Safe to use from several tasks; every change is on disk when the call returns.

    ``changed`` may be set by one listener; it is called with each session that was put, in the event loop's thread.
    """

    def __init__(self, folder: Path, clock: Clock, *, soon: float = SOON) -> None:
        self.folder = folder
        self._soon = soon
        self.changed: Callable[[SessionRecord], None] = lambda _: None
        self._file = SessionFile(folder)
        self._clock = clock
        self._records: dict[str, SessionRecord] = {}
        self._written: dict[str, SessionRecord] = {}
        self._lock = threading.Lock()
        """Held for moments, also by the event loop: whoever changes ``_records``."""
        self._writing = threading.Lock()
        """Held while the files are written: never by the event loop."""
        self._unwritten: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def load(self) -> list[str]:
        """Read the file. Returns notices for the owner about what was set aside or rebuilt.

        Raises:
            StorageFailed: the folder cannot be used.
        """
        try:
            return await asyncio.to_thread(self._load)
        except OSError as error:
            raise StorageFailed.from_os(error, "read the sessions", self._file.path) from error

    def get(self, key: str) -> SessionRecord | None:
        """Return the session of a key, if there is one."""
        return self._records.get(key)

    def all(self) -> list[SessionRecord]:
        """Return all sessions, the most recently used first."""
        with self._lock:
            records = list(self._records.values())
        return sorted(records, key=lambda record: record.spoken, reverse=True)

    def __len__(self) -> int:
        return len(self._records)

    def transcript(self, session: str) -> Path:
        """Return the path of a session's transcript."""
        return self.folder / f"{session}.jsonl"

    async def refresh(self) -> None:
        """Apply edits made to the file by hand since it was last read.

        Raises:
            StorageFailed: the file cannot be read or written.
        """
        try:
            if self._file.edited:
                await asyncio.to_thread(self._take_edit)
        except OSError as error:
            raise StorageFailed.from_os(error, "read the sessions", self._file.path) from error

    async def put(self, record: SessionRecord) -> None:
        """Add or replace a session.

        Raises:
            StorageFailed: it could not be written; nothing was changed.
        """
        try:
            await asyncio.to_thread(self._put, record)
        except OSError as error:
            raise StorageFailed.from_os(error, "write the sessions", self._file.path) from error
        self.changed(record)

    def note(self, key: str, **changes: Any) -> SessionRecord:
        """Change some fields in memory only: they are written with the next durable change.

        For values that a crash may lose, such as when a person last wrote. Raises KeyError if there is no such session.
        """
        with self._lock:
            record = replace(self._records[key], **changes)
            self._records[key] = record
        return record

    def change_soon(self, key: str, **changes: Any) -> SessionRecord:
        """Change some fields in memory, to be written ``soon`` (in seconds) together with others.

        For values that change often, and of which a crash may lose the last. Raises KeyError if there is no such
        session.
        """
        record = self.note(key, **changes)
        self._unwritten.add(key)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._soon, self._write_unwritten)
        self.changed(record)
        return record

    async def change(self, key: str, **changes: Any) -> SessionRecord:
        """Change some fields of a session that exists, and return it.

        Raises:
            KeyError: there is no such session.
            StorageFailed: it could not be written.
        """
        try:
            record = await asyncio.to_thread(self._put, None, key, changes)
        except OSError as error:
            raise StorageFailed.from_os(error, "write the sessions", self._file.path) from error
        self.changed(record)
        return record

    async def remove(self, key: str) -> None:
        """Forget a session; its transcript stays where it is.

        Raises:
            StorageFailed: it could not be written; nothing was changed.
        """
        try:
            await asyncio.to_thread(self._remove, key)
        except OSError as error:
            raise StorageFailed.from_os(error, "write the sessions", self._file.path) from error

    async def fold(self) -> None:
        """Write the whole file, so that an owner who opens it sees the current state.

        Raises:
            StorageFailed: it could not be written; nothing is lost.
        """
        try:
            await asyncio.to_thread(self._fold)
        except OSError as error:
            raise StorageFailed.from_os(error, "write the sessions", self._file.path) from error

    def _put(
        self, new: SessionRecord | None, key: str = "", changes: Mapping[str, Any] = MappingProxyType({})
    ) -> SessionRecord:
        """Write ``new``, or the current session of ``key`` with some fields changed."""
        with self._writing:
            if self._file.edited:
                self._merge()
            with self._lock:
                former = self._records.get(new.key if new else key)
                record = new or replace(self._records[key], **changes)
                self._records[record.key] = record
            try:
                self._file.append({record.key: (self._written.get(record.key), record)})
            except OSError:
                self._restore(record, former)
                raise
            self._written[record.key] = record
            self._fold_if_due()
            return record

    def _fold_if_due(self) -> None:
        if self._file.due_for_folding(len(self._records)):
            try:
                self._write_whole()
            except OSError as error:  # the change itself is on disk; folding is tried again with the next one
                log.warning("sessions.json could not be written: %s", error)

    def _write_unwritten(self) -> None:
        self._timer = None
        task = asyncio.get_running_loop().run_in_executor(None, self._append_unwritten)
        task.add_done_callback(_told_if_failed)

    def _append_unwritten(self) -> None:
        with self._writing:
            if self._file.edited:
                self._merge()
            keys = [self._unwritten.pop() for _ in range(len(self._unwritten))]
            with self._lock:
                records = {key: self._records[key] for key in keys if key in self._records}
            stale = {key: (self._written.get(key), record) for key, record in records.items()}
            try:
                self._file.append({key: (old, new) for key, (old, new) in stale.items() if old != new})
            except OSError:
                self._unwritten.update(keys)
                raise
            self._written.update(records)
            self._fold_if_due()

    def _restore(self, record: SessionRecord, former: SessionRecord | None) -> None:
        """Undo a change that could not be written, unless the session was changed again since."""
        with self._lock:
            if self._records.get(record.key) is not record:
                return
            if former is None:
                del self._records[record.key]
            else:
                self._records[record.key] = former

    def _remove(self, key: str) -> None:
        with self._writing:
            if key in self._records:
                self._file.remove(key)
                with self._lock:
                    self._records.pop(key, None)
                self._written.pop(key, None)

    def _fold(self) -> None:
        with self._writing:
            if self._file.edited:
                self._merge()
            if self._file.pending or self._unwritten:
                self._write_whole()

    def _write_whole(self) -> None:
        with self._lock:
            records = dict(self._records)
        self._file.fold(records)
        self._written = records
        self._unwritten.clear()

    def _take_edit(self) -> None:
        with self._writing:
            if self._file.edited:
                self._merge()

    def _merge(self) -> None:
        """Merge an edit by hand, and fold, so that no older change overrides it."""
        try:
            with self._lock:
                self._records, touched = self._file.merged(self._records)
            log.info("sessions.json was edited by hand: %d sessions updated", len(touched))
        except Damaged as error:
            name = self._file.set_aside(self._file.path, f"{self._clock.now():%Y%m%dT%H%M%S}")
            log.warning("an edit of sessions.json cannot be read and was set aside as %s (%s); nothing is lost", name, error)
        self._write_whole()

    def _load(self) -> list[str]:
        notices: list[str] = []
        for path, read in ((self._file.path, self._file.read), (self._file.previous, self._file.read_previous)):
            try:
                self._records = read()
            except FileNotFoundError:
                continue
            except Damaged:
                name = self._file.set_aside(path, f"{self._clock.now():%Y%m%dT%H%M%S}")
                notices.append(f"{path} could not be read and was renamed to {name}")
                continue
            break
        else:
            self._records = {record.key: record for record in self._from_transcripts()}
            if notices:
                notices.append(f"{len(self._records)} sessions were rebuilt from their transcripts")
        if self._file.unreadable:
            notices.append(self._find_changed())
        self._written = dict(self._records)
        return notices

    def _find_changed(self) -> str:
        """Rebuild sessions whose changes are unreadable from their transcripts; the unreadable lines are kept. Adds a notice."""
        lost = b"\n".join(self._file.unreadable)
        count, found = len(self._file.unreadable), 0
        for record in self._from_transcripts():  # of several with one key the one started last comes last
            known = self._records.get(record.key)
            begun_since = known is not None and known.session != record.session and known.started < record.started
            if known is None or (begun_since and json.dumps(record.key).encode() in lost):
                self._records[record.key] = record
                found += 1
        name = self._file.keep_changes(f"{self._clock.now():%Y%m%dT%H%M%S}")
        self._file.fold(self._records)
        changes = "1 change" if count == 1 else f"{count} changes"
        return (
            f"{changes} in {self._file.path}.changes could not be read and were kept as {name}; "
            f"{found} sessions were rebuilt from their transcripts"
        )

    def _from_transcripts(self) -> list[SessionRecord]:
        """Find sessions by the first line of each transcript, ordered by start, so that the latest of one key wins."""
        found = []
        for path in self.folder.glob("*.jsonl"):
            try:
                with path.open("rb") as file:
                    entry = decode(file.readline(1_000_000))
            except (OSError, InvalidEntry):
                continue
            if isinstance(entry.body, Opened):
                spoken = datetime.fromtimestamp(path.stat().st_mtime, tz=entry.at.tzinfo)
                found.append(SessionRecord(session=entry.body.session, key=entry.body.key, started=entry.at, spoken=spoken))
        return sorted(found, key=lambda record: record.started)


def _told_if_failed(task: asyncio.Future[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.warning("the sessions could not be written: %s", error)
