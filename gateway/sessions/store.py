"""``sessions.json`` of one agent: session key to session, and what is remembered about each.

The file is replaced whole and atomically, with its predecessor kept as ``sessions.json.prev``. When both are unusable it is
rebuilt from the opening lines of the transcripts, and the bad file is set aside with a date.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agent.entries import Opened, Torn, decode
from gateway.errors import StorageFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gateway.clock import SystemClock


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """One session. Instants have a zone.

    ``address`` is the conversation that it last spoke with. ``greeted`` says that its owner was told of the fresh start.
    ``former`` is the session that it took over from, which ``/undo`` brings back until ``former_until``.
    """

    session: str
    key: str
    started: datetime
    spoken: datetime
    address: str = ""
    model: str | None = None
    verbose: bool = False
    turns: int = 0
    greeted: bool = False
    compactions: int = 0
    last_flush: str = ""
    former: str | None = None
    former_until: datetime | None = None


class SessionStore:
    """The sessions of one agent. Safe to use from several tasks; every change is on disk when the call returns."""

    def __init__(self, folder: Path, clock: SystemClock) -> None:
        self._folder = folder
        self._path = folder / "sessions.json"
        self._previous = folder / "sessions.json.prev"
        self._clock = clock
        self._records: dict[str, SessionRecord] = {}
        self._lock = threading.Lock()

    async def load(self) -> list[str]:
        """Read the file. Returns notices for the owner: what had to be set aside or rebuilt.

        Raises:
            StorageFailed: the folder cannot be used.
        """
        try:
            return await asyncio.to_thread(self._load)
        except OSError as error:
            raise StorageFailed.from_os(error, "read the sessions", self._path) from error

    def get(self, key: str) -> SessionRecord | None:
        """Return the session of a key, if there is one."""
        return self._records.get(key)

    def all(self) -> list[SessionRecord]:
        """Return every session, the one spoken with last first."""
        return sorted(self._records.values(), key=lambda record: record.spoken, reverse=True)

    def transcript(self, session: str) -> Path:
        """Where the transcript of a session is."""
        return self._folder / f"{session}.jsonl"

    async def put(self, record: SessionRecord) -> None:
        """Add or replace a session.

        Raises:
            StorageFailed: it could not be written; the former state stands.
        """
        try:
            await asyncio.to_thread(self._put, record)
        except OSError as error:
            raise StorageFailed.from_os(error, "write the sessions", self._path) from error

    def note(self, key: str, **changes: Any) -> SessionRecord:
        """Change some fields in memory alone: they are written with the next change that is durable.

        For what a crash may forget, such as when a person last wrote. Raises KeyError when there is no such session.
        """
        with self._lock:
            record = replace(self._records[key], **changes)
            self._records = {**self._records, key: record}
        return record

    async def change(self, key: str, **changes: Any) -> SessionRecord:
        """Change some fields of a session that exists, and return it.

        Raises:
            KeyError: there is no such session.
            StorageFailed: it could not be written.
        """
        record = replace(self._records[key], **changes)
        await self.put(record)
        return record

    def _put(self, record: SessionRecord) -> None:
        with self._lock:
            records = {**self._records, record.key: record}
            self._write(records)
            self._records = records

    def _write(self, records: Mapping[str, SessionRecord]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        body = {"v": 1, "sessions": {key: _to_json(record) for key, record in records.items()}}
        data = json.dumps(body, ensure_ascii=False, indent=1).encode("utf-8", "replace")
        fresh = self._path.with_name(f".sessions.json.{os.getpid()}.tmp")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if self._path.exists():
            self._previous.unlink(missing_ok=True)
            os.link(self._path, self._previous)
        fresh.replace(self._path)
        folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _load(self) -> list[str]:
        notices: list[str] = []
        for path in (self._path, self._previous):
            try:
                self._records = _read(path)
            except FileNotFoundError:
                continue
            except (ValueError, KeyError, TypeError, AttributeError):
                aside = path.with_name(f"{path.name}.bad-{self._clock.now():%Y%m%dT%H%M%S}")
                path.rename(aside)
                notices.append(f"{path} could not be read and was set aside as {aside.name}")
                continue
            return notices
        self._records = {record.key: record for record in self._from_transcripts()}
        if notices:
            notices.append(f"{len(self._records)} sessions were found again from their transcripts")
        return notices

    def _from_transcripts(self) -> list[SessionRecord]:
        """Find sessions by the first line of each transcript; of several with one key the latest started counts, so it comes last."""
        found = []
        for path in self._folder.glob("*.jsonl"):
            try:
                with path.open("rb") as file:
                    entry = decode(file.readline(1_000_000))
            except (OSError, Torn):
                continue
            if isinstance(entry.body, Opened):
                spoken = datetime.fromtimestamp(path.stat().st_mtime, tz=entry.at.tzinfo)
                found.append(SessionRecord(session=entry.body.session, key=entry.body.key, started=entry.at, spoken=spoken))
        return sorted(found, key=lambda record: record.started)


def _read(path: Path) -> dict[str, SessionRecord]:
    raw = json.loads(path.read_bytes())
    return {key: _from_json(key, value) for key, value in raw["sessions"].items()}


_NAMES = {"session": "sessionId", "started": "startedAt", "spoken": "lastInteractionAt", "last_flush": "lastFlush"}
_INSTANTS = {"started", "spoken", "former_until"}


def _to_json(record: SessionRecord) -> dict[str, Any]:
    values = asdict(record)
    del values["key"]
    return {
        _NAMES.get(name, name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
        if value not in (None, "", False, 0)
    }


def _from_json(key: str, raw: Mapping[str, Any]) -> SessionRecord:
    """Read one session; fields that are not ours are passed over, so that a newer file can be read."""
    values: dict[str, Any] = {"key": key}
    for spec in fields(SessionRecord):
        name = _NAMES.get(spec.name, spec.name)
        if name in raw:
            value = raw[name]
            values[spec.name] = datetime.fromisoformat(value) if spec.name in _INSTANTS else value
    return SessionRecord(**values)
