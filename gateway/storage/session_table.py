"""The records of sessions in PostgreSQL: a row for each, with the JSON that ``sessions.json`` would hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime

from agent import fault_injection
from gateway.base.errors import StorageFailed
from gateway.ledger.database import Database
from gateway.sessions.sessions_file import SessionRecord, from_json, to_json
from gateway.storage.reading_connection import ReadingConnection, unusable
from gateway.storage.transcript_table import Writer

_PUT = (
    "INSERT INTO session (agent, key, record) VALUES (?, ?, ?) ON CONFLICT (agent, key) DO UPDATE SET record = excluded.record"
)
Records = dict[str, SessionRecord]


class SessionRows:
    """Implements ``SessionTable`` for one agent. Nobody edits rows by hand while a gateway runs: it would not be noticed."""

    edited = False
    pending = 1  # what was only noted is not known here; "fold" stores what differs

    def __init__(self, agent: str, reading: ReadingConnection, write: Writer) -> None:
        self._agent = agent
        self._reading = reading
        self._write = write
        self._stored: Records = {}

    @property
    def where(self) -> str:
        """See the protocol."""
        return f"PostgreSQL, sessions of {self._agent}"

    def load(self, now: datetime, rebuilt: Callable[[], list[SessionRecord]]) -> tuple[Records, list[str]]:  # noqa: ARG002
        """See the protocol."""
        records: Records = {}
        broken: list[str] = []
        for key, text in self._reading.rows("SELECT key, record FROM session WHERE agent = ? ORDER BY key", (self._agent,)):
            try:
                records[key] = from_json(key, json.loads(text))
            except (ValueError, KeyError, TypeError, AttributeError):
                broken.append(key)
        self._stored = dict(records)
        if not broken:
            return records, []
        lost = set(broken)
        found = {record.key: record for record in rebuilt() if record.key in lost}
        notice = f"{len(broken)} sessions in {self.where} could not be read; {len(found)} of them were rebuilt from their transcripts"
        return records | found, [notice]

    def append(self, changed: Mapping[str, tuple[SessionRecord | None, SessionRecord]]) -> None:
        """See the protocol."""
        rows = {key: to_text(record) for key, (_, record) in changed.items()}
        if not rows:
            return

        def sessions(db: Database) -> None:
            for key, text in rows.items():
                db.execute(_PUT, (self._agent, key, text))

        fault_injection.point("before", "sessions")
        self._run(sessions)
        fault_injection.point("after", "sessions")
        self._stored |= {key: record for key, (_, record) in changed.items()}

    def remove(self, key: str) -> None:
        """See the protocol."""

        def sessions(db: Database) -> None:
            db.execute("DELETE FROM session WHERE agent = ? AND key = ?", (self._agent, key))

        self._run(sessions)
        self._stored.pop(key, None)

    def due_for_folding(self, count: int) -> bool:  # noqa: ARG002
        """See the protocol: each change is a row already."""
        return False

    def fold(self, records: Mapping[str, SessionRecord]) -> None:
        """See the protocol: what was only noted is stored."""
        self.append({key: (None, record) for key, record in records.items() if self._stored.get(key) != record})

    def take_edit(self, records: Records, now: datetime) -> Records:  # noqa: ARG002
        """See the protocol."""
        return records

    def _run(self, work: Callable[[Database], None]) -> None:
        try:
            self._write(work)
        except StorageFailed as error:
            raise unusable(error) from error


def to_text(record: SessionRecord) -> str:
    """Return the text of a record."""
    return json.dumps(to_json(record), ensure_ascii=True, separators=(",", ":"))
