"""Leases in PostgreSQL: tokens are messages of a queue of pgmq, invisible to others as long as a lease lasts.

pgmq (https://github.com/pgmq/pgmq, PostgreSQL License) is SQL alone; its script lies beside this file and runs as a migration, so the
server needs no extension. ``read`` takes tokens that nobody holds, skipping those that another round looks at; ``set_vt`` renews them. How
often a message was read, behind its number, is the fence: both only grow, also when a token is removed and made again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway.base.errors import StorageFailed
from gateway.cluster.leases import Answer, Round, share_of, whole_cells

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    Connection = AsyncConnection[tuple[Any, ...]]

log = logging.getLogger(__name__)
Result = TypeVar("Result")

LONGEST_ROUND: Final = 5.0
"""Seconds after which a round counts as failed, so that the next one is on time with leases of 20 s."""
_COUNT_BITS: Final = 31
_ALIVE: Final = "SELECT name, label, settings FROM cluster_gateway WHERE until > clock_timestamp() AND NOT leaving"
_FREE: Final = "SELECT token FROM cluster_token WHERE vt <= clock_timestamp() ORDER BY vt, msg_id"
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
CREATE TABLE IF NOT EXISTS cluster_wish (token text PRIMARY KEY, gateway text NOT NULL);
CREATE OR REPLACE VIEW cluster_token AS
    SELECT message->>'token' AS token, msg_id, msg_id << 31 | read_ct AS fence, vt FROM pgmq.q_{queue};
CREATE OR REPLACE VIEW cluster_held AS
    SELECT h.token, h.gateway FROM cluster_holder h JOIN cluster_token t ON t.token = h.token AND t.fence = h.fence;
"""


@dataclass(frozen=True, slots=True)
class Member:
    """How a gateway appears to the others: ``name`` is of this process alone, ``label`` is what people call it.

    ``address`` is where other gateways reach it, ``settings`` a digest of its settings.
    """

    name: str
    label: str = ""
    address: str = ""
    settings: str = ""


def queue_of(schema: str) -> str:
    """Return the name of the queue with the leases of the ledger in this schema: several can share a database."""
    return f"{schema}_lease"


def write_lock_of(schema: str) -> str:
    """Return the name of the advisory lock that every transaction holds which writes to the ledger in this schema."""
    return f"homebody writes {schema}"


PGMQ: Final = Path(__file__).with_name("pgmq.sql")
"""Version 1.13.0, as it stands in the package pgmq 1.1.4 on PyPI. The package itself would bring orjson, which discord.py then reads events
with: it refuses some that are allowed."""


async def prepare(connection: Connection, schema: str) -> None:
    """Make what leases need, as far as it is not there. One transaction; several gateways may do it at once.

    The connection's search path names the schema, which exists.
    """
    queue = queue_of(schema)
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtext('homebody cluster'))")
        [(there,)] = await _rows(connection, "SELECT to_regclass('pgmq.meta')")
        if there is None:
            await connection.execute(PGMQ.read_bytes())
        await connection.execute("SELECT pgmq.create(%s)", (queue,))
        await connection.execute(_TABLES.format(queue=queue).encode())


class PostgresLeases:
    """A ``LeaseStore``. ``connect`` opens a connection in autocommit mode, whose search path names ``schema``."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        schema: str,
        member: Member,
        longest: float = LONGEST_ROUND,
    ) -> None:
        self._connect = connect
        self._queue = queue_of(schema)
        self._lock = write_lock_of(schema)
        self.member = member
        self._longest = longest
        self._differing: list[str] = []
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
            query = "SELECT token FROM cluster_token WHERE token = ANY(%s)"
            known = {row[0] for row in await _rows(connection, query, (wanted,))}
            for token in wanted:
                if token not in known:
                    await connection.execute("SELECT pgmq.send(%s, %s::jsonb)", (self._queue, json.dumps({"token": token})))

        await self._with(work)

    async def remove(self, tokens: Mapping[str, int]) -> None:
        """Forget tokens that are held with these fences."""

        async def work(connection: Connection) -> None:
            found = await self._locked(connection, tokens)
            await connection.execute("SELECT pgmq.delete(%s, %s::bigint[])", (self._queue, list(found.values())))
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
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._lock,))
        await self._seen(connection, asked)
        released = await self._locked(connection, asked.release)
        await self._free(connection, released)
        kept = await self._locked(connection, asked.renew)
        if kept:
            query = "SELECT pgmq.set_vt(%s, %s::bigint[], clock_timestamp() + make_interval(secs => %s))"
            await connection.execute(query, (self._queue, list(kept.values()), asked.seconds))
        members = [Member(str(name), str(label), settings=str(told)) for name, label, told in await _rows(connection, _ALIVE)]
        self._compare_settings(members)
        alive = {one.name for one in members}
        wishes = {
            str(token): str(gateway) for token, gateway in await _rows(connection, "SELECT token, gateway FROM cluster_wish")
        }
        [(tokens,)] = await _rows(connection, "SELECT count(*) FROM cluster_token")
        taken: dict[str, int] = {}
        if not asked.leaving:
            room = min(asked.most, share_of(tokens, len(alive)) - asked.staying)
            elsewhere = {token for token, gateway in wishes.items() if gateway in alive - {asked.gateway}}
            here = {token for token, gateway in wishes.items() if gateway == asked.gateway}
            free = [str(row[0]) for row in await _rows(connection, _FREE)]
            for token in _chosen(asked, kept, free, room, here=here, elsewhere=elsewhere):
                taken |= await self._take(connection, asked, token)
        had = [token for token in (*kept, *taken) if wishes.get(token) == asked.gateway]
        await connection.execute("DELETE FROM cluster_wish WHERE token = ANY(%s)", (had,))
        moved = frozenset(token for token in kept if wishes.get(token, asked.gateway) in alive - {asked.gateway})
        return Answer(frozenset(kept), taken, tokens, len(alive), moved)

    def _compare_settings(self, members: Sequence[Member]) -> None:
        """Tell once of gateways whose settings are not those of this one."""
        differing = sorted({one.label for one in members if one.settings != self.member.settings})
        if differing and differing != self._differing:
            log.warning("the settings of %s are not those of this gateway: homebody cluster status", ", ".join(differing))
        self._differing = differing

    async def _take(self, connection: Connection, asked: Round, token: str) -> dict[str, int]:
        query = "SELECT msg_id, read_ct FROM pgmq.read(%s, %s, 1, %s::jsonb)"
        rows = await _rows(connection, query, (self._queue, math.ceil(asked.seconds), json.dumps({"token": token})))
        taken: dict[str, int] = {}
        for number, count in rows:
            taken[token] = fence = int(number) << _COUNT_BITS | int(count)
            await connection.execute(
                "INSERT INTO cluster_holder (token, gateway, fence) VALUES (%s, %s, %s) "
                "ON CONFLICT (token) DO UPDATE SET gateway = excluded.gateway, fence = excluded.fence, since = clock_timestamp()",
                (token, asked.gateway, fence),
            )
        return taken

    async def _seen(self, connection: Connection, asked: Round) -> None:
        member = self.member
        await connection.execute(
            "INSERT INTO cluster_gateway (name, label, address, settings, until, leaving) "
            "VALUES (%s, %s, %s, %s, clock_timestamp() + make_interval(secs => %s), %s) ON CONFLICT (name) DO UPDATE SET "
            "address = excluded.address, settings = excluded.settings, until = excluded.until, leaving = excluded.leaving",
            (asked.gateway, member.label, member.address, member.settings, asked.seconds, asked.leaving),
        )
        await connection.execute("DELETE FROM cluster_gateway WHERE until < clock_timestamp() - interval '1 day'")

    async def _free(self, connection: Connection, tokens: Mapping[str, int]) -> None:
        if tokens:
            await connection.execute("SELECT pgmq.set_vt(%s, %s::bigint[], 0)", (self._queue, list(tokens.values())))
            await connection.execute("DELETE FROM cluster_holder WHERE token = ANY(%s)", (list(tokens),))

    async def _locked(self, connection: Connection, tokens: Mapping[str, int]) -> dict[str, int]:
        """Return the message numbers of the tokens that still have these fences, and lock them."""
        if not tokens:
            return {}
        query = (
            "SELECT t.token, t.msg_id FROM unnest(%s::text[], %s::bigint[]) AS h (token, fence) "
            "JOIN cluster_token t ON t.token = h.token AND t.fence = h.fence ORDER BY t.msg_id FOR UPDATE OF t"
        )
        rows = await _rows(connection, query, (list(tokens), list(tokens.values())))
        return {str(token): int(number) for token, number in rows}


async def _rows(connection: Connection, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
    return await (await connection.execute(query.encode(), values)).fetchall()


def _chosen(
    asked: Round, kept: Collection[str], free: Sequence[str], room: int, *, here: set[str], elsewhere: set[str]
) -> list[str]:
    """Choose what to take: what is wished to be here, and then what is free, except what is wished to be elsewhere."""
    cells = tuple((token,) for token in free) if asked.cells is None else asked.cells
    wanted = whole_cells((cell for cell in cells if here.intersection(cell)), free, kept, len(free) + 1)
    others = (cell for cell in cells if not here.intersection(cell) and not elsewhere.intersection(cell))
    return wanted + whole_cells(others, free, kept, room - len(wanted))
