"""What lies between the gateway and PostgreSQL: poolers, round trips, and what is said where a connection is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.clock import ManualClock
from gateway.base.errors import StorageAway, StorageFailed
from tests.peers.pooler import Pooler

if TYPE_CHECKING:
    from pathlib import Path

    from tests.postgres_server import Server

pytestmark = pytest.mark.postgres
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def opened(url: str, place: str = "homebody") -> Any:
    from gateway.ledger.postgres.ledger import PostgresLedger

    return PostgresLedger.open(url, ManualClock(NOON), schema=place)


@pytest.mark.parametrize("by_transaction", [True, False])
async def test_a_pooler_in_transaction_mode_is_refused_and_one_that_keeps_sessions_is_not(
    server: Server, database: str, tmp_path: Path, by_transaction: bool
) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    startup = {"user": "homebody", "database": database}
    pooler = Pooler(folder / ".s.PGSQL.5432", server.folder / ".s.PGSQL.5432", startup, by_transaction=by_transaction)
    url = f"postgresql://homebody@/{database}?host={folder}"
    try:
        if by_transaction:
            with pytest.raises(StorageFailed, match="pooler in transaction mode") as told:
                await opened(url)
            assert "pool_mode = session" in told.value.hint
        else:
            ledger = await opened(url)
            assert not await ledger.took_any()
            await ledger.close()
    finally:
        pooler.close()


@pytest.mark.parametrize("together", [True, False])
def test_a_transaction_begins_with_its_first_statement_and_one_without_any_costs_nothing(url: str, together: bool) -> None:
    import psycopg

    from gateway.ledger.postgres.engine import PostgresEngine

    engine = PostgresEngine(url, "homebody", "token", lambda _: None)
    assert not engine.db.together  # over a socket
    engine.db.together = together
    session = engine.db.connection.info.backend_pid

    def state() -> str:
        with psycopg.connect(url, autocommit=True) as other:
            row = other.execute("SELECT state FROM pg_stat_activity WHERE pid = %s", (session,)).fetchone()
        return str(row and row[0])

    def stored() -> set[str]:
        with psycopg.connect(url, autocommit=True) as other:
            return {name for (name,) in other.execute("SELECT name FROM homebody.meta WHERE name LIKE 'x%'")}

    try:
        engine.begin(synced=False)
        assert (engine.in_transaction, state()) == (True, "idle")
        engine.commit()
        assert (engine.in_transaction, state()) == (False, "idle")
        engine.begin(synced=True)
        for name in ("x1", "x2", "x3"):
            engine.db.execute("SAVEPOINT one")
            engine.db.execute("INSERT INTO meta VALUES (?, '')", (name,))
            if name == "x2":
                with pytest.raises(psycopg.errors.UndefinedColumn):
                    engine.db.execute("SELECT nothing FROM meta")
                engine.db.execute("ROLLBACK TO one")
            engine.db.execute("RELEASE one")
        assert (engine.in_transaction, state(), stored()) == (True, "idle in transaction", set())
        engine.commit()
        assert (engine.in_transaction, state(), stored()) == (False, "idle", {"x1", "x3"})
        engine.begin(synced=True)
        with pytest.raises(psycopg.errors.UndefinedColumn):
            engine.db.execute("SELECT nothing FROM meta")
        assert engine.in_transaction
        engine.rollback()
        engine.begin(synced=True)
        engine.db.execute("DELETE FROM meta WHERE name LIKE 'x%'")
        engine.rollback()
        assert (engine.in_transaction, state(), stored()) == (False, "idle", {"x1", "x3"})
    finally:
        engine.close()


@pytest.mark.parametrize(
    ("said", "mends", "away"),
    [
        ('FATAL:  database "x" does not exist', "createdb", False),
        ('FATAL:  role "x" does not exist', "createuser", False),
        ('FATAL:  password authentication failed for user "x"', "homebody config set storage.url", False),
        ("fe_sendauth: no password supplied", "homebody config set storage.url", False),
        ('FATAL:  no pg_hba.conf entry for host "1", user "x", database "x", SSL encryption', "pg_hba.conf", False),
        ('FATAL:  no pg_hba.conf entry for host "1", user "x", database "x", no encryption', "sslmode=verify-full", False),
        ("SSL error: certificate verify failed", "sslrootcert", False),
        ('server certificate for "a" does not match host name "b"', "homebody config set storage.url", False),
        ('root certificate file "/x" does not exist', "sslrootcert", False),
        ("server does not support SSL, but SSL was required", "ssl = on", False),
        ("FATAL:  unsupported startup parameter: options", "without PgBouncer", False),
        ("FATAL:  sorry, too many clients already", "max_connections", False),
        ("failed to resolve host 'x': [Errno -2] Name or service not known", "homebody config set storage.url", True),
        ("Connection refused", "systemctl start postgresql", True),
        ("FATAL:  the database system is starting up", "Start PostgreSQL", True),
        ("server closed the connection unexpectedly", "Start PostgreSQL", True),
    ],
)
def test_what_refuses_a_connection_is_told_with_what_mends_it(said: str, mends: str, away: bool) -> None:
    import psycopg

    from gateway.ledger.postgres.postgres_errors import storage_error

    told = storage_error(psycopg.OperationalError(said), "there")
    assert told is not None
    assert (mends in told.hint, isinstance(told, StorageAway)) == (True, away)
