"""Opens the index of an agent in PostgreSQL, and says what errors of it mean."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from memory.errors import IndexBroken
from memory.settings import MemorySettings
from memory.store.index import Features

if TYPE_CHECKING:
    from memory.store.index import Index
    from memory.store.postgres.connections import Connections

_NEXT: Final = "The notes themselves are files and can be read; what changed is indexed when the database is back."
_GONE: Final = ("57P01", "57P02", "57P03", "42P01", "42703", "3F000", "25006")
"""The server is ending or starting; tables were dropped or a column is missing, which makes them anew; it has become a replica."""


class IndexTables:
    """Implements ``IndexEngine`` for one agent."""

    patience = 10.0

    def __init__(self, connections: Connections, agent: str, settings: MemorySettings) -> None:
        self._connections = connections
        self._agent = agent
        self._settings = settings

    def open(self, now: datetime) -> tuple[Index, str]:
        """See the protocol."""
        import psycopg

        from memory.store.postgres.postgres_index import PostgresIndex
        from memory.store.postgres.tables import prepare

        self._connections.attach()
        try:
            prepared = prepare(self._connections, now)
            with self._connections.reading() as connection:
                server = connection.info.server_version // 10_000
            note = f"{prepared.lack}: words only" if prepared.lack else ""
            driver = f"psycopg {psycopg.__version__}, PostgreSQL {server}"
            features = Features("none" if prepared.lack else "pgvector", keywords=True, scan=False, driver=driver, note=note)
            index = PostgresIndex(self._connections, self._agent, self._settings, features)
            return index, " ".join(filter(None, (prepared.notice, self._told(prepared.lack))))
        except psycopg.Error as error:
            self._connections.detach()
            raise self.refusal(error) from error
        except BaseException:  # also when interrupted
            self._connections.detach()
            raise

    def is_gone(self) -> bool:
        """See the protocol. Tables that are gone fail."""
        return False

    def put_away(self, index: Index, error: Exception, now: datetime) -> str:  # noqa: ARG002  (the tables stay)
        """See the protocol. A connection that was lost is nothing to tell of."""
        self._connections.drop_idle()
        index.close()
        return ""

    def failures(self) -> tuple[type[Exception], ...]:
        """See the protocol."""
        import psycopg

        return (psycopg.Error,)

    def can_be_opened_anew(self, error: Exception) -> bool:
        """See the protocol."""
        import psycopg

        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and error.sqlstate is None
        return lost or getattr(error, "sqlstate", None) in _GONE

    def refusal(self, error: Exception) -> IndexBroken:
        """See the protocol."""
        if isinstance(error, TimeoutError):
            return IndexBroken(
                f"the memory index in {self._connections.where} has not answered for {self.patience:g} seconds", hint=_NEXT
            )
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = lines[0] if lines else type(error).__name__
        return IndexBroken(f"the memory index in {self._connections.where} cannot be used: {said}", hint=_NEXT)

    def _told(self, lack: str) -> str:
        if not lack or self._settings.provider == "none":
            return ""
        return f"Notes are searched by their words alone: {lack} ({self._connections.where})."
