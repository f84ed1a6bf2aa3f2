"""What is said of a database that cannot hold the ledger, and that nothing is changed there."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from gateway.base.clock import ManualClock
from gateway.base.errors import StorageFailed
from gateway.ledger.schema import STEPS
from tests.peers.cut_line import CutLine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.postgres_server import Server

pytestmark = [pytest.mark.postgres, pytest.mark.long]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def refused(url: str, schema: str = "homebody") -> StorageFailed:
    from gateway.ledger.postgres.ledger import PostgresLedger

    with pytest.raises(StorageFailed) as told:
        await PostgresLedger.open(url, ManualClock(NOON), schema=schema)
    assert "\n" not in str(told.value)
    return told.value


async def accepted(url: str, schema: str = "homebody") -> None:
    from gateway.ledger.postgres.ledger import PostgresLedger

    ledger = await PostgresLedger.open(url, ManualClock(NOON), schema=schema)
    assert not await ledger.took_any()
    await ledger.close()


def said(url: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        for statement in statements:
            db.execute(statement)


async def test_the_tables_are_those_of_the_file(url: str) -> None:
    import psycopg

    from gateway.storage.conversation_transfer import TABLES

    await accepted(url)
    db = apsw.Connection(":memory:")
    for step in STEPS:
        db.execute(step)
    ours = set(
        db.execute("SELECT m.name, c.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'")
    )
    with psycopg.connect(url) as there:
        columns = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'homebody'"
        theirs = set(
            there.execute(columns + " AND column_name <> 'rowid' AND table_name <> ALL(%s)", (list(TABLES),)).fetchall()
        )
        indexes = {
            name for (name,) in there.execute("SELECT indexname FROM pg_indexes WHERE schemaname = 'homebody'").fetchall()
        }
    assert theirs == {pair for pair in ours if not pair[0].startswith("sqlite_")}
    assert {
        name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
    } <= indexes


async def test_a_wrong_address_is_told(url: str, server: Server) -> None:
    assert "no address of PostgreSQL" in str(await refused("mysql://me@127.0.0.1/x"))
    gone = await refused("postgresql://me:secret@127.0.0.1:9/house?connect_timeout=2")
    assert "Start PostgreSQL" in gone.hint
    assert "secret" not in gone.as_text()
    missing = await refused(server.url("nothing"))
    assert "does not exist" in str(missing)
    assert "createdb" in missing.hint


async def test_a_second_gateway_is_kept_out_and_one_with_its_own_schema_is_not(url: str) -> None:
    from gateway.ledger.postgres.ledger import PostgresLedger

    first = await PostgresLedger.open(url, ManualClock(NOON))
    told = await refused(url)
    assert "another gateway uses this database" in str(told)
    await accepted(url, "second")
    await first.close()
    await accepted(url)


async def test_a_database_that_takes_no_changes_is_told(url: str) -> None:
    told = await refused(f"{url}&options=-cdefault_transaction_read_only%3Don")
    assert "takes no changes" in str(told)
    assert "primary" in told.hint


async def test_a_user_without_rights_is_told_which(url: str, database: str) -> None:
    said(url, "CREATE ROLE guest LOGIN")
    try:
        told = await refused(url.replace("homebody@", "guest@"))
        assert "permission denied" in str(told)
        assert "right" in told.hint
        said(url, "CREATE SCHEMA lent AUTHORIZATION guest")
        await accepted(url.replace("homebody@", "guest@"), "lent")
    finally:
        said(url, "DROP OWNED BY guest CASCADE", "DROP ROLE guest")


async def test_tables_of_a_later_version_and_of_another_program_are_left_alone(url: str) -> None:
    await accepted(url)
    said(
        url,
        "UPDATE homebody.meta SET value = '99' WHERE name = 'version'",
        "CREATE SCHEMA other; CREATE TABLE other.shop (id int)",
    )
    assert "version 99" in str(await refused(url))
    told = await refused(url, "other")
    assert "another program" in str(told)
    assert "storage.schemaName" in told.hint


async def test_a_database_with_another_encoding_is_told(server: Server, database: str) -> None:
    name = f"{database}_plain"
    said(server.url(), f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' TEMPLATE template0")
    try:
        assert "stores texts as SQL_ASCII" in str(await refused(server.url(name)))
    finally:
        said(server.url(), f"DROP DATABASE {name}")


async def test_tables_that_are_made_half_are_not_there(
    url: str, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import psycopg

    folder = tmp_path_factory.mktemp("line")
    line = CutLine(Path(folder) / ".s.PGSQL.5432", server.folder / ".s.PGSQL.5432")
    for cut in range(2, 40):
        line.cut = line.messages + cut
        broken = line.broken
        try:
            await accepted(url.replace(str(server.folder), str(folder)))
        except StorageFailed:
            with psycopg.connect(url) as db:
                assert db.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'homebody'").fetchone()[0] in {0, 21}
        if line.broken == broken:
            break
    assert line.broken > 8
    line.close()
    await accepted(url)


async def test_an_old_server_is_told() -> None:
    with old_server() as port:
        told = await refused(f"postgresql://me@127.0.0.1:{port}/house?sslmode=disable&gssencmode=disable")
    assert "PostgreSQL 13 is too old" in str(told)
    assert "15 or later" in told.hint


@contextmanager
def old_server() -> Iterator[int]:
    """Speak as much of the protocol as it takes to say which version this is."""
    listening = socket.create_server(("127.0.0.1", 0))

    def message(kind: bytes, body: bytes) -> bytes:
        return kind + struct.pack(">I", len(body) + 4) + body

    def serve() -> None:
        with listening.accept()[0] as client:
            client.recv(10_000)
            told = {
                "server_version": "13.22",
                "server_encoding": "UTF8",
                "client_encoding": "UTF8",
                "standard_conforming_strings": "on",
            }
            said = b"".join(message(b"S", f"{name}\0{value}\0".encode()) for name, value in told.items())
            client.sendall(message(b"R", struct.pack(">I", 0)) + said + message(b"Z", b"I"))
            while data := client.recv(10_000):
                if data.startswith(b"Q"):
                    column = message(b"T", struct.pack(">H", 1) + b"pid\0" + struct.pack(">IHIhih", 0, 0, 23, 4, -1, 0))
                    row = message(b"D", struct.pack(">HI", 1, 1) + b"0")  # the number that this server did not tell
                    client.sendall(column + row + message(b"C", b"SELECT 1\0") + message(b"Z", b"I"))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield int(listening.getsockname()[1])
    finally:
        thread.join(10)
        listening.close()
