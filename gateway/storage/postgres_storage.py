"""Sessions and transcripts in the database of the ledger. Imported only where the settings name one."""

from __future__ import annotations

from collections.abc import Callable

from agent.timing import Clock
from gateway.base.errors import StorageFailed
from gateway.ledger.database import Database
from gateway.ledger.postgres.ledger import PostgresLedger
from gateway.sessions.protocol import SessionStore
from gateway.sessions.store import StoredSessions
from gateway.storage.reading_connection import ReadingConnection
from gateway.storage.session_table import SessionRows
from gateway.storage.transcript_table import Result, TranscriptTable, Writer


class PostgresStorage:
    """Implements ``Storage``. What is written goes through the ledger's connection: it shares its commits, and is refused as they are."""

    def __init__(self, ledger: PostgresLedger, url: str, schema: str, clock: Clock) -> None:
        self.ledger = ledger
        self._reading = ReadingConnection(url, schema)
        self._clock = clock

    def sessions(self, agent: str) -> SessionStore:
        """See the protocol."""
        return sessions_of(agent, self._reading, self.ledger.run_blocking, self._clock)

    async def close(self) -> None:
        """See the protocol."""
        await self.ledger.close()
        self._reading.close()


def sessions_of(agent: str, reading: ReadingConnection, write: Writer, clock: Clock) -> StoredSessions:
    """Return the sessions of an agent. Nothing is read yet."""
    return StoredSessions(SessionRows(agent, reading, write), TranscriptTable(agent, reading, write, clock), clock)


def sessions_to_read(url: str, schema: str, clock: Clock) -> Callable[[str], SessionStore]:
    """Return what gives the sessions of an agent to a process that only reads them."""
    reading = ReadingConnection(url, schema)
    return lambda agent: sessions_of(agent, reading, _refused, clock)


def _refused(work: Callable[[Database], Result], /) -> Result:
    raise StorageFailed(f"{work.__qualname__} is for the gateway alone", where="PostgreSQL")
