"""Finds the tables of an agent's search index in PostgreSQL, where the settings name them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from gateway.base.errors import UsageError
from gateway.ledger.open_ledger import need_driver

if TYPE_CHECKING:
    from gateway.settings.root import AgentProfile
    from gateway.settings.storage_settings import StorageSettings
    from memory.store.index_handle import IndexEngine
    from memory.store.postgres.connections import Connection, Connections

_SILENT_SECONDS: Final = 20.0
"""How long a statement of the index may take."""


def index_in_postgres(profile: AgentProfile, storage: StorageSettings) -> IndexEngine:
    """Return what opens the index of an agent whose settings say ``driver: postgres``. Nothing is connected yet.

    Raises:
        UsageError: the settings name no database.
        StorageFailed: what it needs is not installed.
    """
    store = profile.memory.store
    url = store.url or storage.url
    if url is None:
        raise UsageError(
            "memorySearch.store.driver is postgres, and no database is named",
            where="agents.defaults.memorySearch.store",
            hint="homebody config set agents.defaults.memorySearch.store.url (or storage.url)",
        )
    need_driver()
    from memory.store.postgres.index_tables import IndexTables

    schema = store.schema_name or f"{storage.schema_name}_memory"
    return IndexTables(index_connections(url.get_secret_value(), schema), profile.id, profile.memory)


@cache
def index_connections(url: str, schema: str) -> Connections:
    """Return the connections of this process to a database: those of all its agents are the same few."""
    from gateway.ledger.postgres.postgres_connection import connected, place
    from memory.store.postgres.connections import Connections

    def connect() -> Connection:
        connection = connected(url, schema)
        connection.silence = _SILENT_SECONDS
        return connection

    return Connections(connect, schema, place(url, schema))
