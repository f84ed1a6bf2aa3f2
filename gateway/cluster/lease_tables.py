"""The tables in which leases are kept, and how they are made: tokens are messages of a queue of pgmq.

pgmq (https://github.com/pgmq/pgmq, PostgreSQL License) is SQL alone; its script lies beside this file and runs as a migration, so the
server needs no extension.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.cluster.agreement import HOME_TABLE, VERSION, Home, claim, refuse_later
from gateway.cluster.workspace_standing import TABLE as WORKSPACES

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    Connection = AsyncConnection[tuple[Any, ...]]

PGMQ: Final = Path(__file__).with_name("pgmq.sql")
"""Version 1.13.0, as it stands in the package pgmq 1.1.4 on PyPI. The package itself would bring orjson, which discord.py then reads events
with: it refuses some that are allowed."""
_TABLES: Final = """
CREATE UNIQUE INDEX IF NOT EXISTS q_{queue}_token ON pgmq.q_{queue} ((message->>'token'));
CREATE TABLE IF NOT EXISTS cluster_gateway (
    name text PRIMARY KEY,
    label text NOT NULL,
    address text NOT NULL,
    settings text NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    until timestamptz NOT NULL,
    leaving boolean NOT NULL
);
CREATE TABLE IF NOT EXISTS cluster_holder (
    token text PRIMARY KEY,
    gateway text NOT NULL,
    fence bigint NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE cluster_gateway ADD COLUMN IF NOT EXISTS trouble text NOT NULL DEFAULT '';
ALTER TABLE cluster_holder ADD COLUMN IF NOT EXISTS former text NOT NULL DEFAULT '';
CREATE TABLE IF NOT EXISTS cluster_made (made_for text NOT NULL, version integer NOT NULL);
{more}
CREATE TABLE IF NOT EXISTS cluster_wish (token text PRIMARY KEY, gateway text NOT NULL);
CREATE TABLE IF NOT EXISTS cluster_secret (purpose text PRIMARY KEY, secret text NOT NULL);
CREATE TABLE IF NOT EXISTS cluster_settings (
    gateway text PRIMARY KEY,
    keys text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE cluster_settings ADD COLUMN IF NOT EXISTS cells text NOT NULL DEFAULT '[]';
CREATE OR REPLACE VIEW cluster_token AS
    SELECT message->>'token' AS token, msg_id, msg_id << 31 | read_ct AS fence, vt FROM pgmq.q_{queue};
CREATE OR REPLACE VIEW cluster_held AS
    SELECT h.token, h.gateway FROM cluster_holder h JOIN cluster_token t ON t.token = h.token AND t.fence = h.fence;
"""
_MORE: Final = f"{HOME_TABLE}{WORKSPACES}"
FORM: Final = hashlib.sha256(f"{_TABLES}{_MORE}".encode()).hexdigest()
"""Which form the tables have: they are made anew where it is another one."""


def queue_of(schema: str) -> str:
    """Return the name of the queue with the leases of the ledger in this schema: several can share a database."""
    return f"{schema}_lease"


def write_lock_of(schema: str) -> str:
    """Return the name of the advisory lock that every transaction holds which writes to the ledger in this schema."""
    return f"homebody writes {schema}"


def new_secret() -> str:
    """Return a secret of a cluster: with one its gateways prove themselves to each other, with another they mark their settings."""
    return secrets.token_urlsafe(32)


async def prepare(connection: Connection, schema: str, home: Home | None = None, where: str = "") -> str | None:
    """Make what leases need, as far as it is not there, and take the ledger for a home. One transaction; several may do it at once.

    The connection's search path names the schema, which exists. Where all is as it should be nothing is locked but the write lock, since
    others that work meanwhile would wait crosswise for views that are made anew. Returns what the owner should know.

    Raises:
        StorageFailed: another home's gateways use it, or it is of a later version.
    """
    queue = queue_of(schema)
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (write_lock_of(schema),))
        if not await _is_made(connection, where):
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext('homebody cluster'))")
            [(there,)] = await rows_of(connection, "SELECT to_regclass('pgmq.meta')")
            if there is None:
                await connection.execute(PGMQ.read_bytes())
            await connection.execute("SELECT pgmq.create(%s)", (queue,))
            await connection.execute(_TABLES.format(queue=queue, more=_MORE).encode())
            for purpose in ("proof", "marks"):
                query = "INSERT INTO cluster_secret VALUES (%s, %s) ON CONFLICT DO NOTHING"
                await connection.execute(query, (purpose, new_secret()))
            await connection.execute("DELETE FROM cluster_made")
            await connection.execute("INSERT INTO cluster_made VALUES (%s, %s)", (FORM, VERSION))
        return None if home is None else await claim(connection, home, where)


async def _is_made(connection: Connection, where: str) -> bool:
    [(there,)] = await rows_of(connection, "SELECT to_regclass('cluster_made')")
    if there is None:
        return False
    found = await rows_of(connection, "SELECT made_for, version FROM cluster_made")
    for _, version in found:
        refuse_later(version, where)
    return (FORM, VERSION) in found


async def rows_of(connection: Connection, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
    """Return what a query finds."""
    return await (await connection.execute(query.encode(), values)).fetchall()
