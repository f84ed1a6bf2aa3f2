"""Opens a memory whose index is on the engine that a test runs on: an SQLite file, or a schema in a real PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memory.workspace_memory import WorkspaceMemory
from tests import postgres_server
from tests.ledger import engines

if TYPE_CHECKING:
    from pathlib import Path

    from memory.settings import MemorySettings

SCHEMAS: set[str] = set()
"""Those that the present test has made."""


def memory_at(workspace: Path, store: Path, settings: MemorySettings, *, agent: str, **more: Any) -> WorkspaceMemory:
    """Make a memory as the constructor does; on PostgreSQL a schema of its own stands for the file."""
    if engines.Current.engine == engines.POSTGRES:
        more["engine"] = tables_at(store, settings, agent)
    return WorkspaceMemory(workspace, store, settings, agent=agent, **more)


def tables_at(store: Path, settings: MemorySettings, agent: str) -> Any:
    """Return what opens the index that stands for a file."""
    from gateway.storage.index_connections import index_connections
    from memory.store.postgres.index_tables import IndexTables

    schema = engines.schema_of(store)
    SCHEMAS.add(schema)
    return IndexTables(index_connections(postgres_server.server().url(), schema), agent, settings)


def drop_all() -> None:
    """Delete the schemas of a test."""
    import psycopg

    with psycopg.connect(postgres_server.server().url(), autocommit=True) as connection:
        connection.execute("SET client_min_messages TO warning")
        while SCHEMAS:
            connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMAS.pop()} CASCADE")
