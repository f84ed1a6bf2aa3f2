"""The session store of one agent: session keys to records, in memory, and in a ``SessionTable``, which stores them.

The rule by which a session is due for a reset is here too (``due``); the scheduler and incoming messages ask it. What the table cannot
read is rebuilt from the first lines of the transcripts.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, time, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from agent.timing import Clock
from agent.transcript.entries import InvalidEntry, Opened, decode
from agent.transcript.stored_transcript import StoredTranscript
from gateway.base.errors import StorageFailed
from gateway.base.wall_time import instant_of
from gateway.sessions.sessions_file import SessionFile, SessionRecord
from gateway.sessions.transcript_folder import TranscriptFolder
from gateway.settings.session_settings import ResetSettings

if TYPE_CHECKING:
    from gateway.sessions.protocol import SessionTable, TranscriptStore

Due = Literal["daily", "idle"]


def due(settings: ResetSettings, *, started: datetime, spoken: datetime, now: datetime, zone: ZoneInfo) -> Due | None:
    """Return whether a session is due for a reset now, and why.

    ``started`` is when it began, ``spoken`` when a person last wrote in it (heartbeats and schedules do not count). A daily
    reset is due once the day's boundary lies behind the start, and waits until nobody wrote for ``deferMinutes``.
    """
    silent = now - spoken
    if "idle" in settings.mode and silent >= timedelta(minutes=settings.idle_minutes):
        return "idle"
    if "daily" in settings.mode and started < boundary(now, settings.at_hour, zone):
        return "daily" if silent >= timedelta(minutes=settings.defer_minutes) else None
    return None


def next_due(settings: ResetSettings, *, started: datetime, spoken: datetime, now: datetime, zone: ZoneInfo) -> datetime | None:
    """Return the earliest instant, not before ``now``, at which a reset can be due if nobody writes, or None."""
    instants = []
    if "idle" in settings.mode:
        instants.append(spoken + timedelta(minutes=settings.idle_minutes))
    if "daily" in settings.mode:
        quiet = spoken + timedelta(minutes=settings.defer_minutes)
        passed = started < boundary(now, settings.at_hour, zone)
        edge = now if passed else boundary(now, settings.at_hour, zone, following=True)
        instants.append(max(quiet, edge))
    return max(now, min(instants)) if instants else None


def boundary(now: datetime, hour: int, zone: ZoneInfo, *, following: bool = False) -> datetime:
    """Return the latest instant not after ``now`` at which it was ``hour`` o'clock in ``zone`` (or the next one after it), in UTC.

    An hour that occurs twice counts the first time; one that does not occur counts at the first instant after the gap.
    """
    day = now.astimezone(zone).date() - timedelta(days=1)
    instants = [instant_of(day + timedelta(days=offset), time(hour), zone) for offset in range(4)]
    if following:
        return min(instant for instant in instants if instant > now)
    return max(instant for instant in instants if instant <= now)


log = logging.getLogger(__name__)


SOON = 1.0
"""Seconds of which a crash may forget what is not worth a write of its own."""
EDIT_SECONDS = 0.5
"""How long after an edit by hand a message may still be answered as if there were none."""


class _Change(Struct, frozen=True):
    """A session to be written, or fields of the session ``key`` to be changed, and who waits for that."""

    new: SessionRecord | None
    key: str
    fields: Mapping[str, Any]
    answer: asyncio.Future[SessionRecord]


def sessions_in(folder: Path, clock: Clock, *, soon: float = SOON) -> StoredSessions:
    """Return the sessions whose records and transcripts are files in a folder. Nothing is read yet."""
    return StoredSessions(SessionFile(folder), TranscriptFolder(folder), clock, soon=soon)


class StoredSessions:
    """Implements ``SessionStore`` over a table of records."""

    def __init__(self, table: SessionTable, transcripts: TranscriptStore, clock: Clock, *, soon: float = SOON) -> None:
        self._transcripts = transcripts
        self._soon = soon
        self.changed: Callable[[SessionRecord], None] = lambda _: None
        self._table = table
        self._clock = clock
        self._records: dict[str, SessionRecord] = {}
        self._written: dict[str, SessionRecord] = {}
        self._lock = threading.Lock()
        """Held for moments, also by the event loop: whoever changes ``_records``."""
        self._writing = threading.Lock()
        """Held while the table is written: never by the event loop."""
        self._asked: list[_Change] = []
        """What is written together once the table is not being written for others."""
        self._at_work: asyncio.Future[list[SessionRecord | Exception]] | None = None
        self._looked = clock.monotonic() - EDIT_SECONDS
        """When an edit by hand was looked for last."""
        self._unwritten: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def transcripts(self) -> TranscriptStore:
        """See the protocol."""
        return self._transcripts

    @property
    def _where(self) -> Path:
        return Path(self._table.where)

    async def load(self) -> list[str]:
        """Read the table. Returns notices for the owner about what was set aside or rebuilt.

        Raises:
            StorageFailed: the folder cannot be used.
        """
        try:
            return await asyncio.to_thread(self._load)
        except OSError as error:
            raise StorageFailed.from_os(error, "read the sessions", self._where) from error

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

    def transcript(self, session: str) -> StoredTranscript:
        """See the protocol."""
        return self._transcripts.of(session)

    async def refresh(self) -> None:
        """Apply edits made to the file by hand since it was last read, at most ``EDIT_SECONDS`` ago.

        Raises:
            StorageFailed: the file cannot be read or written.
        """
        now = self._clock.monotonic()
        if now - self._looked < EDIT_SECONDS:
            return
        self._looked = now
        try:
            if self._table.edited:
                await asyncio.to_thread(self._take_edit)
        except OSError as error:
            raise StorageFailed.from_os(error, "read the sessions", self._where) from error

    async def put(self, record: SessionRecord) -> None:
        """Add or replace a session.

        Raises:
            StorageFailed: it could not be written; nothing was changed.
        """
        await self._write(record, record.key, {})

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
        return await self._write(None, key, changes)

    async def remove(self, key: str) -> None:
        """Forget a session; its transcript stays where it is.

        Raises:
            StorageFailed: it could not be written; nothing was changed.
        """
        try:
            await asyncio.to_thread(self._remove, key)
        except OSError as error:
            raise StorageFailed.from_os(error, "write the sessions", self._where) from error

    async def fold(self) -> None:
        """Write the whole file, so that an owner who opens it sees the current state.

        Raises:
            StorageFailed: it could not be written; nothing is lost.
        """
        try:
            await asyncio.to_thread(self._fold)
        except OSError as error:
            raise StorageFailed.from_os(error, "write the sessions", self._where) from error

    async def _write(self, new: SessionRecord | None, key: str, fields: Mapping[str, Any]) -> SessionRecord:
        """Write a session, together with others that are asked for while the table is being written. A caller may be cancelled."""
        answer: asyncio.Future[SessionRecord] = asyncio.get_running_loop().create_future()
        self._asked.append(_Change(new, key, fields, answer))
        if self._at_work is None:
            self._write_asked()
        try:
            record = await answer
        except OSError as error:
            raise StorageFailed.from_os(error, "write the sessions", self._where) from error
        self.changed(record)
        return record

    def _write_asked(self) -> None:
        asked, self._asked = self._asked, []
        self._at_work = asyncio.get_running_loop().run_in_executor(None, self._put, asked)
        self._at_work.add_done_callback(lambda done: self._answer(asked, done))

    def _answer(self, asked: Sequence[_Change], done: asyncio.Future[list[SessionRecord | Exception]]) -> None:
        self._at_work = None
        failed = done.exception()
        results = done.result() if failed is None else [failed] * len(asked)
        for change, result in zip(asked, results, strict=True):
            if change.answer.done():
                continue
            if isinstance(result, SessionRecord):
                change.answer.set_result(result)
            else:
                change.answer.set_exception(result)
        if self._asked:
            self._write_asked()

    def _put(self, asked: Sequence[_Change]) -> list[SessionRecord | Exception]:
        """Write sessions together; return each as it is now, or the KeyError of one that is to be changed and does not exist.

        Raises:
            OSError: nothing was changed.
        """
        with self._writing:
            if self._table.edited:
                self._merge()
            results: list[SessionRecord | Exception] = []
            formers: list[tuple[SessionRecord, SessionRecord | None]] = []
            with self._lock:
                for change in asked:
                    former = self._records.get(change.key)
                    record = change.new or (replace(former, **change.fields) if former else None)
                    if record is None:
                        results.append(KeyError(change.key))
                        continue
                    self._records[record.key] = record
                    formers.append((record, former))
                    results.append(record)
            fresh = {record.key: record for record, _ in formers}
            try:
                self._table.append({key: (self._written.get(key), record) for key, record in fresh.items()})
            except OSError:
                for record, former in reversed(formers):
                    self._restore(record, former)
                raise
            self._written.update(fresh)
            self._fold_if_due()
            return results

    def _fold_if_due(self) -> None:
        if self._table.due_for_folding(len(self._records)):
            try:
                self._write_whole()
            except OSError as error:  # the change itself is on disk; folding is tried again with the next one
                log.warning("sessions.json could not be written: %s", error)

    def _write_unwritten(self) -> None:
        self._timer = None
        asyncio.get_running_loop().run_in_executor(None, self._append_unwritten)

    def _append_unwritten(self) -> None:
        try:
            with self._writing:
                if self._table.edited:
                    self._merge()
                keys = [self._unwritten.pop() for _ in range(len(self._unwritten))]
                with self._lock:
                    records = {key: self._records[key] for key in keys if key in self._records}
                stale = {key: (self._written.get(key), record) for key, record in records.items()}
                try:
                    self._table.append({key: (old, new) for key, (old, new) in stale.items() if old != new})
                except OSError:
                    self._unwritten.update(keys)
                    raise
                self._written.update(records)
                self._fold_if_due()
        except OSError as error:
            log.warning("the sessions could not be written: %s", error)

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
                self._table.remove(key)
                with self._lock:
                    self._records.pop(key, None)
                self._written.pop(key, None)

    def _fold(self) -> None:
        with self._writing:
            if self._table.edited:
                self._merge()
            if self._table.pending or self._unwritten:
                self._write_whole()

    def _write_whole(self) -> None:
        with self._lock:
            records = dict(self._records)
        self._table.fold(records)
        self._written = records
        self._unwritten.clear()

    def _take_edit(self) -> None:
        with self._writing:
            if self._table.edited:
                self._merge()

    def _merge(self) -> None:
        """Merge an edit by hand, and fold, so that no older change overrides it."""
        with self._lock:
            self._records = self._table.take_edit(self._records, self._clock.now())
        self._write_whole()

    def _load(self) -> list[str]:
        self._records, notices = self._table.load(self._clock.now(), self._from_transcripts)
        self._written = dict(self._records)
        return notices

    def _from_transcripts(self) -> list[SessionRecord]:
        """Find sessions by the first line of each transcript, ordered by start, so that the latest of one key wins."""
        found = []
        for stored, stat in self._transcripts.all():
            if stored.archived:
                continue
            try:
                entry = decode(b"".join(islice(stored.lines(), 1)))
            except (OSError, InvalidEntry):
                continue
            if isinstance(entry.body, Opened):
                spoken = datetime.fromtimestamp(stat.written_ns / 1e9, tz=entry.at.tzinfo)
                found.append(SessionRecord(session=entry.body.session, key=entry.body.key, started=entry.at, spoken=spoken))
        return sorted(found, key=lambda record: record.started)
