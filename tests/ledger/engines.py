"""Opens a ledger on the engine that a test runs on: an SQLite file, or a schema in a real PostgreSQL."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from gateway.ledger.sqlite import SqliteLedger
from tests import postgres_server

if TYPE_CHECKING:
    from pathlib import Path

    from gateway.base.clock import ManualClock
    from gateway.ledger.protocol import Ledger

SQLITE, POSTGRES = "sqlite", "postgres"


class Current:
    """The engine of the test that runs."""

    engine = SQLITE


def schema_of(path: Path) -> str:
    """Return the name of the schema that stands for a file."""
    return f"l{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"


async def open_at(path: Path, clock: ManualClock, **more: Any) -> Ledger:
    """Open the ledger of this path, again with what it held if it was opened before."""
    if Current.engine == SQLITE:
        return await SqliteLedger.open(path, clock, **more)
    from gateway.ledger.postgres.ledger import PostgresLedger

    return await PostgresLedger.open(postgres_server.server().url(), clock, schema=schema_of(path), **more)


def drop(path: Path) -> None:
    """Delete what a path stands for in PostgreSQL."""
    import psycopg

    with psycopg.connect(postgres_server.server().url(), autocommit=True) as connection:
        connection.execute("SET client_min_messages TO warning")
        connection.execute(f"DROP SCHEMA IF EXISTS {schema_of(path)} CASCADE")
