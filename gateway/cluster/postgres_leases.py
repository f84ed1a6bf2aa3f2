"""Leases in PostgreSQL: tokens are messages of a queue of pgmq, invisible to others as long as a lease lasts.

pgmq (https://github.com/pgmq/pgmq, PostgreSQL License) is SQL alone; its script lies beside this file and runs as a migration, so the
server needs no extension. ``read`` takes tokens that nobody holds, skipping those that another round looks at; ``set_vt`` renews them. How
often a message was read, behind its number, is the fence: both only grow, also when a token is removed and made again.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway.base.errors import StorageFailed
from gateway.cluster.leases import Answer, Round, share_of

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    Connection = AsyncConnection[tuple[Any, ...]]

Result = TypeVar("Result")

QUEUE: Final = "homebody_lease"
LONGEST_ROUND: Final = 5.0
"""Seconds after which a round counts as failed, so that the next one is on time with leases of 20 s."""
_COUNT_BITS: Final = 31
_ALIVE: Final = "SELECT name FROM cluster_gateway WHERE until > clock_timestamp() AND NOT leaving"
_TABLES: Final = """
CREATE UNIQUE INDEX IF NOT EXISTS q_homebody_lease_token ON pgmq.q_homebody_lease ((message->>'token'));
CREATE TABLE IF NOT EXISTS cluster_gateway (
    name text PRIMARY KEY,
    address text NOT NULL,
    until timestamptz NOT NULL,
    leaving boolean NOT NULL
);
CREATE TABLE IF NOT EXISTS cluster_holder (
    token text PRIMARY KEY,
    gateway text NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS cluster_wish (token text PRIMARY KEY, gateway text NOT NULL);
"""
FENCED: Final = (
    "SELECT 1 FROM pgmq.q_homebody_lease q WHERE q.message->>'token' = %s AND (q.msg_id << 31 | q.read_ct) = %s FOR SHARE"
)
"""Finds a row if a lease is still of this fence, and keeps others from taking it until the transaction ends."""


PGMQ: Final = Path(__file__).with_name("pgmq.sql")
"""Version 1.13.0, as it stands in the package pgmq 1.1.4 on PyPI. The package itself would bring orjson, which discord.py then reads events
with: it refuses some that are allowed."""


async def prepare(connection: Connection) -> None:
    """Make what leases need, as far as it is not there. One transaction; several gateways may do it at once."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext('homebody cluster'))")
        [(there,)] = await _rows(connection, "SELECT to_regclass('pgmq.meta')")
        if there is None:
            await connection.execute(PGMQ.read_bytes())
        await connection.execute("SELECT pgmq.create(%s)", (QUEUE,))
        await connection.execute(_TABLES.encode())


class PostgresLeases:
    """A ``LeaseStore``. ``connect`` opens a connection in autocommit mode; ``address`` is where other gateways reach this one."""

    def __init__(self, connect: Callable[[], Awaitable[Connection]], address: str = "", longest: float = LONGEST_ROUND) -> None:
        self._connect = connect
        self._address = address
        self._longest = longest
        self._connection: Connection | None = None
        self._one_at_a_time = asyncio.Lock()

    async def round(self, asked: Round) -> Answer:
        """Do a round, in one transaction."""
        return await self._with(lambda connection: self._round(connection, asked))

    async def add(self, tokens: Iterable[str]) -> None:
        """Make tokens that do not exist yet."""
        wanted = sorted(set(tokens))

        async def work(connection: Connection) -> None:
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext('homebody cluster'))")
            query = "SELECT message->>'token' FROM pgmq.q_homebody_lease WHERE message->>'token' = ANY(%s)"
            known = {row[0] for row in await _rows(connection, query, (wanted,))}
            for token in wanted:
                if token not in known:
                    await connection.execute("SELECT pgmq.send(%s, %s::jsonb)", (QUEUE, json.dumps({"token": token})))

        await self._with(work)

    async def remove(self, tokens: Mapping[str, int]) -> None:
        """Forget tokens that are held with these fences."""

        async def work(connection: Connection) -> None:
            found = await _locked(connection, tokens)
            await connection.execute("SELECT pgmq.delete(%s, %s::bigint[])", (QUEUE, list(found.values())))
            await connection.execute("DELETE FROM cluster_holder WHERE token = ANY(%s)", (list(found),))
            await connection.execute("DELETE FROM cluster_wish WHERE token = ANY(%s)", (list(found),))

        await self._with(work)

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _with(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Run ``work`` in a transaction. A connection that failed is not used again."""
        import psycopg  # only where the state is in PostgreSQL

        async with self._one_at_a_time:
            try:
                async with asyncio.timeout(self._longest):
                    if self._connection is None or self._connection.closed:
                        self._connection = await self._connect()
                    async with self._connection.transaction():
                        return await work(self._connection)
            except (psycopg.Error, TimeoutError, OSError) as error:
                await self._give_up()
                said = str(error).strip() or "it took too long"
                raise StorageFailed(f"leases could not be asked for: {said}", hint="Look whether PostgreSQL runs.") from error
            except asyncio.CancelledError:
                await self._give_up()
                raise

    async def _give_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _round(self, connection: Connection, asked: Round) -> Answer:
        await self._seen(connection, asked)
        released = await _locked(connection, asked.release)
        await _free(connection, released)
        kept = await _locked(connection, asked.renew)
        if kept:
            query = "SELECT pgmq.set_vt(%s, %s::bigint[], clock_timestamp() + make_interval(secs => %s))"
            await connection.execute(query, (QUEUE, list(kept.values()), asked.seconds))
        alive = {str(row[0]) for row in await _rows(connection, _ALIVE)}
        wishes = {
            str(token): str(gateway) for token, gateway in await _rows(connection, "SELECT token, gateway FROM cluster_wish")
        }
        [(tokens,)] = await _rows(connection, "SELECT count(*) FROM pgmq.q_homebody_lease")
        taken: dict[str, int] = {}
        if not asked.leaving:
            mine = sorted(token for token, gateway in wishes.items() if gateway == asked.gateway)
            for token in mine:
                taken |= await self._take(connection, asked, 1, {"token": token})
            room = min(asked.most, share_of(tokens, len(alive)) - asked.staying - len(taken))
            elsewhere = {token for token, gateway in wishes.items() if gateway in alive - {asked.gateway}}
            taken |= await self._take_free(connection, asked, room, elsewhere)
        had = [token for token in (*kept, *taken) if wishes.get(token) == asked.gateway]
        await connection.execute("DELETE FROM cluster_wish WHERE token = ANY(%s)", (had,))
        moved = frozenset(token for token in kept if wishes.get(token, asked.gateway) in alive - {asked.gateway})
        return Answer(frozenset(kept), taken, tokens, len(alive), moved)

    async def _take_free(self, connection: Connection, asked: Round, room: int, elsewhere: set[str]) -> dict[str, int]:
        """Take free tokens except those that are wanted elsewhere, which are given back at once."""
        if room <= 0:
            return {}
        taken = await self._take(connection, asked, room, {})
        back = await _locked(connection, {token: fence for token, fence in taken.items() if token in elsewhere})
        await _free(connection, back)
        return {token: fence for token, fence in taken.items() if token not in back}

    async def _take(self, connection: Connection, asked: Round, most: int, which: Mapping[str, str]) -> dict[str, int]:
        query = "SELECT msg_id, read_ct, message->>'token' FROM pgmq.read(%s, %s, %s, %s::jsonb)"
        rows = await _rows(connection, query, (QUEUE, math.ceil(asked.seconds), most, json.dumps(which)))
        taken = {str(token): int(number) << _COUNT_BITS | int(count) for number, count, token in rows}
        if taken:
            await connection.execute(
                "INSERT INTO cluster_holder (token, gateway) SELECT unnest(%s::text[]), %s "
                "ON CONFLICT (token) DO UPDATE SET gateway = excluded.gateway, since = clock_timestamp()",
                (list(taken), asked.gateway),
            )
        return taken

    async def _seen(self, connection: Connection, asked: Round) -> None:
        await connection.execute(
            "INSERT INTO cluster_gateway (name, address, until, leaving) "
            "VALUES (%s, %s, clock_timestamp() + make_interval(secs => %s), %s) "
            "ON CONFLICT (name) DO UPDATE SET address = excluded.address, until = excluded.until, leaving = excluded.leaving",
            (asked.gateway, self._address, asked.seconds, asked.leaving),
        )


async def _rows(connection: Connection, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
    return await (await connection.execute(query.encode(), values)).fetchall()


async def _free(connection: Connection, tokens: Mapping[str, int]) -> None:
    if tokens:
        await connection.execute("SELECT pgmq.set_vt(%s, %s::bigint[], 0)", (QUEUE, list(tokens.values())))
        await connection.execute("DELETE FROM cluster_holder WHERE token = ANY(%s)", (list(tokens),))


async def _locked(connection: Connection, tokens: Mapping[str, int]) -> dict[str, int]:
    """Return the message numbers of the tokens that still have these fences, and lock them."""
    if not tokens:
        return {}
    query = (
        "SELECT h.token, q.msg_id FROM unnest(%s::text[], %s::bigint[]) AS h (token, fence) JOIN pgmq.q_homebody_lease q "
        "ON q.message->>'token' = h.token AND (q.msg_id << 31 | q.read_ct) = h.fence ORDER BY q.msg_id FOR UPDATE OF q"
    )
    rows = await _rows(connection, query, (list(tokens), list(tokens.values())))
    return {str(token): int(number) for token, number in rows}
