"""The tables of sessions and transcripts in a schema of their own, written by a connection that no ledger has."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from gateway.base.clock import SystemClock
from gateway.ledger.postgres.postgres_connection import PostgresDatabase, connected
from gateway.ledger.postgres.postgres_schema import migrate
from gateway.sessions.store import StoredSessions
from gateway.storage.reading_connection import ReadingConnection
from gateway.storage.session_table import SessionRows
from gateway.storage.transcript_table import TranscriptTable
from tests import postgres_server
from tests.ledger import engines

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.timing import Clock

AGENT = "main"


class Tables:
    """What is stored for one agent. ``write`` does what a ledger's transaction does, without its holder."""

    def __init__(self, schema: str) -> None:
        url = postgres_server.server().url()
        self.connection = connected(url, schema)
        migrate(self.connection, schema, "epoch", "a test")
        self.reading = ReadingConnection(url, schema)
        self._alone = threading.Lock()
        self.transcripts = TranscriptTable(AGENT, self.reading, self.write, SystemClock())

    def write(self, work: Callable[[PostgresDatabase], Any], /) -> Any:
        with self._alone, self.connection.transaction():
            return work(PostgresDatabase(self.connection))

    def sessions(self, clock: Clock, soon: float) -> StoredSessions:
        return StoredSessions(SessionRows(AGENT, self.reading, self.write), self.transcripts, clock, soon=soon)

    def close(self) -> None:
        self.reading.close()
        self.connection.close()


KNOWN: dict[Path, Tables] = {}


def tables_at(folder: Path) -> Tables:
    """Return the tables that stand for a folder; the test's end drops them."""
    if folder not in KNOWN:
        KNOWN[folder] = Tables(engines.schema_of(folder))
    return KNOWN[folder]


def drop_all() -> None:
    while KNOWN:
        folder, tables = KNOWN.popitem()
        tables.close()
        engines.drop(folder)
