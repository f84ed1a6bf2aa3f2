"""Leases in PostgreSQL: tokens are messages of a queue of pgmq, invisible to others as long as a lease lasts.

``read`` of pgmq takes tokens that nobody holds, skipping those that another round looks at; ``set_vt`` renews them. How
often a message was read, behind its number, is the fence: both only grow, also when a token is removed and made again.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway.base.errors import StorageFailed
from gateway.cluster.agreement import DATABASE_TIME, WHOSE, Home, clock_trouble, other_home
from gateway.cluster.home_proof import NAME_ONE
from gateway.cluster.lease_tables import queue_of, rows_of, write_lock_of
from gateway.cluster.leases import IDLE_LEASES, Answer, Cell, Round, chosen_tokens, idle_cell, share_of

if TYPE_CHECKING:
    from psycopg import AsyncConnection, AsyncCursor

    Connection = AsyncConnection[tuple[Any, ...]]

log = logging.getLogger(__name__)
Result = TypeVar("Result")

SET_CLOCKS: Final = "it takes nothing until both clocks are set (timedatectl)"
LONGEST_ROUND: Final = 5.0
"""Seconds after which a round counts as failed, so that the next one is on time with leases of 20 s."""
DIFFERING_SECONDS: Final = 60.0
"""Seconds for which the settings of gateways may differ before that is told: each reads a changed file by itself."""
_COUNT_BITS: Final = 31
_ALIVE: Final = """
SELECT name, label, settings, extract(epoch FROM until)::float8 FROM cluster_gateway WHERE until > clock_timestamp() AND NOT leaving
"""
_FREE: Final = """
SELECT token, vt <= clock_timestamp() - make_interval(secs => %s) FROM cluster_token WHERE vt <= clock_timestamp() ORDER BY vt, msg_id
"""
_WISH: Final = """
INSERT INTO cluster_wish SELECT unnest(%s::text[]), %s ON CONFLICT (token) DO UPDATE SET gateway = excluded.gateway
"""
_NEXT_FREE: Final = """
SELECT extract(epoch FROM min(vt) - clock_timestamp())::float8 FROM cluster_token WHERE vt > clock_timestamp() AND token <> ALL (%s)
"""
_MINE: Final = """
SELECT t.token, t.msg_id FROM unnest(%s::text[], %s::bigint[]) AS h (token, fence)
JOIN cluster_token t ON t.token = h.token AND t.fence = h.fence
"""
"""The tokens that still have these fences, and the numbers of their messages."""
_RENEW: Final = f"""
WITH mine AS ({_MINE}), renewed AS (
    SELECT pgmq.set_vt(%s, (SELECT array_agg(msg_id) FROM mine), clock_timestamp() + make_interval(secs => %s))
    WHERE EXISTS (SELECT 1 FROM mine)
)
SELECT token FROM mine, (SELECT count(*) FROM renewed) AS done
"""  # noqa: S608 -- values are bound
_RELEASE: Final = f"""
WITH mine AS ({_MINE}), released AS (
    SELECT pgmq.set_vt(%s, (SELECT array_agg(msg_id) FROM mine), 0) WHERE EXISTS (SELECT 1 FROM mine)
)
DELETE FROM cluster_holder WHERE token IN (SELECT token FROM mine, (SELECT count(*) FROM released) AS done)
"""  # noqa: S608 -- values are bound
_HOLD: Final = """
INSERT INTO cluster_holder (token, gateway, fence) SELECT h.token, g.name, h.fence
FROM unnest(%s::text[], %s::bigint[]) AS h (token, fence), (SELECT %s::text AS name) AS g
ON CONFLICT (token) DO UPDATE SET gateway = excluded.gateway, fence = excluded.fence, since = clock_timestamp(),
former = CASE cluster_holder.gateway WHEN excluded.gateway THEN cluster_holder.former ELSE cluster_holder.gateway END
"""
"""``former`` is whose lease ended: what was given up in order has no row."""

_SEEN: Final = """
WITH mine AS (SELECT leaving, trouble FROM cluster_gateway WHERE name = %(name)s),
asked AS (SELECT %(resting)s AND NOT EXISTS (SELECT FROM mine WHERE trouble = '') AS decided),
found AS (
    SELECT decided, decided AND EXISTS (
        SELECT FROM cluster_gateway other WHERE name <> %(name)s AND until > clock_timestamp() AND NOT other.leaving
        AND (other.trouble = '' OR (SELECT leaving FROM mine))
    ) AS rests FROM asked
), seen AS (
    INSERT INTO cluster_gateway (name, label, address, settings, until, leaving, trouble)
    SELECT %(name)s, %(label)s, %(address)s, %(settings)s, clock_timestamp() + make_interval(secs => %(seconds)s),
        %(leaving)s OR rests, %(trouble)s FROM found
    ON CONFLICT (name) DO UPDATE SET address = excluded.address, settings = excluded.settings, until = excluded.until,
        leaving = excluded.leaving, trouble = excluded.trouble
)
SELECT decided, rests FROM found
"""
"""Says that a gateway is there, and decides whether it rests (see ``gateway.cluster.leases``). Rounds happen one after the other."""

_OTHERS_CELLS: Final = """
SELECT s.cells FROM cluster_gateway g LEFT JOIN cluster_settings s ON s.gateway = g.name
WHERE g.name <> %s AND g.until > clock_timestamp() AND NOT g.leaving
"""


@dataclass(frozen=True, slots=True)
class Member:
    """How a gateway appears to the others: ``name`` is of this process alone, ``label`` is what people call it.

    ``address`` is where other gateways reach it, ``settings`` a digest of its settings, ``home`` the id of the home that they share.
    """

    name: str
    label: str = ""
    address: str = ""
    settings: str = ""
    home: str = ""


class PostgresLeases:
    """A ``LeaseStore``. ``connect`` opens a connection in autocommit mode, whose search path names ``schema``.

    ``known`` says what an error of the server means. A gateway whose ``clock`` is not the database's gives up everything in order.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        schema: str,
        member: Member,
        longest: float = LONGEST_ROUND,
        *,
        known: Callable[[Exception], StorageFailed | None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._connect = connect
        self._queue = queue_of(schema)
        self._lock = write_lock_of(schema)
        self.member = member
        self._longest = longest
        self._known, self._clock = known, clock
        self._trouble = ""
        self._differing: list[str] = []
        self._differing_since = 0.0
        self._told_differing = True
        self._namesakes: dict[str, float] = {}
        self._told_namesake = False
        self._connection: Connection | None = None
        self._one_at_a_time = asyncio.Lock()

    async def round(self, asked: Round) -> Answer:
        """Do a round, in one transaction."""
        return await self._with(lambda connection: self._round(connection, asked))

    async def run(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Run ``work`` in a transaction of its own between two rounds. Raises StorageFailed."""
        return await self._with(work)

    async def add(self, tokens: Iterable[str]) -> None:
        """Make tokens that do not exist yet."""
        wanted = sorted(set(tokens))

        async def work(connection: Connection) -> None:
            await connection.execute("SELECT pg_advisory_xact_lock(hashtext('homebody cluster'))")
            query = "SELECT token FROM cluster_token WHERE token = ANY(%s)"
            known = {row[0] for row in await rows_of(connection, query, (wanted,))}
            for token in wanted:
                if token not in known:
                    await connection.execute("SELECT pgmq.send(%s, %s::jsonb)", (self._queue, json.dumps({"token": token})))

        await self._with(work)

    async def remove(self, tokens: Mapping[str, int]) -> None:
        """Forget tokens that are held with these fences."""

        async def work(connection: Connection) -> None:
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._lock,))
            rows = await rows_of(connection, _MINE, _pairs(tokens))
            found = {str(token): int(number) for token, number in rows}
            await connection.execute("SELECT pgmq.delete(%s, %s::bigint[])", (self._queue, list(found.values())))
            await connection.execute("DELETE FROM cluster_holder WHERE token = ANY(%s)", (list(found),))
            await connection.execute("DELETE FROM cluster_wish WHERE token = ANY(%s)", (list(found),))

        await self._with(work)

    async def retire(self, wanted: Collection[str]) -> int:
        """Forget tokens that no settings name any more and nobody holds; return how many are left that are not wanted.

        Only where all gateways that work have the settings of this one: the others may know agents that are new.
        """

        async def work(connection: Connection) -> int:
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._lock,))
            rows = await rows_of(connection, "SELECT token, msg_id, vt <= clock_timestamp() FROM cluster_token")
            stale = {str(token): (int(number), free) for token, number, free in rows if token not in wanted}
            settings = await rows_of(
                connection, "SELECT settings FROM cluster_gateway WHERE until > clock_timestamp() AND NOT leaving"
            )
            if any(one != self.member.settings for (one,) in settings):
                return len(stale)
            gone = {token: number for token, (number, free) in stale.items() if free}
            await connection.execute("SELECT pgmq.delete(%s, %s::bigint[])", (self._queue, list(gone.values())))
            await connection.execute("DELETE FROM cluster_holder WHERE token = ANY(%s)", (list(gone),))
            await connection.execute("DELETE FROM cluster_wish WHERE token = ANY(%s)", (list(gone),))
            return len(stale) - len(gone)

        return await self._with(work)

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
                known = self._known(error)
                hint = "Look whether PostgreSQL runs." if known is None else known.hint
                raise StorageFailed(f"leases could not be asked for: {said}", hint=hint) from error
            except asyncio.CancelledError:
                await self._give_up()
                raise

    async def _give_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _round(self, connection: Connection, asked: Round) -> Answer:
        """Everything waits for its end, so that it asks in two steps: what there is, and then what follows from it."""
        before = self._clock()
        async with connection.pipeline():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (self._lock,))
            cursor = await connection.execute(DATABASE_TIME)
            whose = await connection.execute(WHOSE)
            seen = await self._seen(connection, asked)
            await self._free(connection, asked.release)
            renewed = await connection.execute(_RENEW, (*_pairs(asked.renew), self._queue, asked.seconds))
            alive_now = await connection.execute(_ALIVE)
            wished = await connection.execute("SELECT token, gateway FROM cluster_wish")
            counted = await connection.execute("SELECT count(*) FROM cluster_token")
            unheld = await connection.execute(_FREE, (IDLE_LEASES * asked.seconds,))
            next_free = await connection.execute(_NEXT_FREE, (list(asked.renew),))
        [(there,)] = await cursor.fetchall()
        self._compare_time(clock_trouble(before, there, self._clock()))
        for owner in await whose.fetchall():
            if self.member.home and owner[0] != self.member.home:
                raise other_home(Home(*owner), [], "storage.url")
        [(decided, rests)] = await seen.fetchall()
        kept = {str(token) for (token,) in await renewed.fetchall()}
        found = await alive_now.fetchall()
        self._look_for_namesakes({str(name): float(until) for name, label, _, until in found if label == self.member.label})
        members = [Member(str(name), str(label), settings=str(digest)) for name, label, digest, _ in found]
        self._compare_settings(members)
        alive = {one.name for one in members}
        wishes = {str(token): str(gateway) for token, gateway in await wished.fetchall()}
        [(tokens,)] = await counted.fetchall()
        elsewhere = {token for token, gateway in wishes.items() if gateway in alive - {asked.gateway}}
        chosen: list[str] = []
        coming: Cell = ()
        if not asked.leaving and not self._trouble and not rests:
            room = min(asked.most, share_of(tokens, len(alive)) - asked.staying)
            here = {token for token, gateway in wishes.items() if gateway == asked.gateway}
            free = {str(token): bool(idle) for token, idle in await unheld.fetchall()}
            chosen = chosen_tokens(asked, kept, list(free), room, here=here, elsewhere=elsewhere)
            coming = await self._wish(connection, asked, {token for token in free if free[token]}, elsewhere.union(chosen))
            if coming:
                wishes |= dict.fromkeys(coming, asked.gateway)
                chosen = chosen_tokens(asked, kept, list(free), room, here=here.union(coming), elsewhere=elsewhere)
        taken = await self._take(connection, asked, chosen)
        had = _had(asked, wishes, {*kept, *taken})
        if had:
            await connection.execute("DELETE FROM cluster_wish WHERE token = ANY(%s)", (had,))
        moved = frozenset(kept if self._trouble or rests else kept & elsewhere)
        if rests and kept:
            moved -= await self._here_alone(connection, asked, kept)
        [(free_in,)] = await next_free.fetchall()
        rested = rests if decided else None
        return Answer(frozenset(kept), taken, tokens, len(alive), moved, frozenset(had), free_in, rested, coming)

    def _compare_time(self, trouble: str) -> None:
        """Tell where the clock begins or ceases to be another one than the database's."""
        if trouble and not self._trouble:
            log.warning(
                "%s: this gateway gives up what it holds and takes nothing until both clocks are set: timedatectl", trouble
            )
        elif self._trouble and not trouble:
            log.info("the clock of this machine is the database's again")
        self._trouble = trouble

    def _look_for_namesakes(self, found: Mapping[str, float]) -> None:
        """Tell once of another gateway with the name of this one, which renews its lease: a former process of this one does not."""
        alive = any(until > self._namesakes.get(name, until) for name, until in found.items() if name != self.member.name)
        if alive and not self._told_namesake:
            log.warning(
                "another gateway of this cluster is called %s, too: `cluster move` cannot tell them apart. %s",
                self.member.label,
                NAME_ONE,
            )
        self._told_namesake = self._told_namesake or alive
        self._namesakes = dict(found)

    def _compare_settings(self, members: Sequence[Member]) -> None:
        """Tell once of gateways whose settings are not those of this one for longer than it takes to read a changed file everywhere."""
        differing = sorted({one.label for one in members if one.settings != self.member.settings})
        if differing != self._differing:
            self._differing, self._differing_since = differing, time.monotonic()
            self._told_differing = not differing
        elif not self._told_differing and time.monotonic() - self._differing_since > DIFFERING_SECONDS:
            self._told_differing = True
            log.warning("the settings of %s are not those of this gateway: homebody cluster status", ", ".join(differing))

    async def _wish(self, connection: Connection, asked: Round, idle: set[str], spoken_for: set[str]) -> Cell:
        """Have a cell come here part of which nobody has held for long; return it, or () where there is none."""
        found = idle_cell(asked.lacking, idle, spoken_for)
        if found:
            log.info("nobody has held part of this for long, so that it is to come here: %s", ", ".join(found))
            await connection.execute(_WISH, (list(found), asked.gateway))
        return found

    async def _take(self, connection: Connection, asked: Round, chosen: Sequence[str]) -> dict[str, int]:
        if not chosen:
            return {}
        async with connection.pipeline():
            read = "SELECT msg_id, read_ct FROM pgmq.read(%s, %s, 1, %s::jsonb)"
            seconds = math.ceil(asked.claim)
            found = [await connection.execute(read, (self._queue, seconds, json.dumps({"token": token}))) for token in chosen]
        taken = {
            token: int(number) << _COUNT_BITS | int(count)
            for token, cursor in zip(chosen, found, strict=True)
            for number, count in await cursor.fetchall()
        }
        await connection.execute(_HOLD, (*_pairs(taken), asked.gateway))
        return taken

    async def _seen(self, connection: Connection, asked: Round) -> AsyncCursor[tuple[Any, ...]]:
        member = self.member
        trouble = f"{self._trouble}: {SET_CLOCKS}" if self._trouble else asked.resting
        seen = {
            "name": asked.gateway,
            "label": member.label,
            "address": member.address,
            "settings": member.settings,
            "seconds": asked.seconds,
            "leaving": asked.leaving or bool(self._trouble),
            "resting": bool(asked.resting),
            "trouble": "" if asked.leaving else trouble,
        }
        found = await connection.execute(_SEEN, seen)
        await connection.execute("DELETE FROM cluster_gateway WHERE until < clock_timestamp() - interval '1 day'")
        return found

    async def _here_alone(self, connection: Connection, asked: Round, kept: Collection[str]) -> set[str]:
        """Return what of this gateway's cells no other one that works has all of in its settings: nobody would work for it."""
        found = await rows_of(connection, _OTHERS_CELLS, (asked.gateway,))
        others = [{token for cell in json.loads(cells or "[]") for token in cell} for (cells,) in found]
        if not all(others):  # one did not say yet what it would hold
            return set()
        held = [cell for cell in asked.cells or () if not set(cell).isdisjoint(kept)]
        return {token for cell in held if not any(other.issuperset(cell) for other in others) for token in cell}

    async def _free(self, connection: Connection, tokens: Mapping[str, int]) -> None:
        if tokens:
            await connection.execute(_RELEASE, (*_pairs(tokens), self._queue))


def _had(asked: Round, wishes: Mapping[str, str], here: set[str]) -> list[str]:
    """Return the tokens whose wish to be here is over: they are, or the settings do not have them any more."""
    known = wishes if asked.cells is None else {token for cell in asked.cells for token in cell}
    own = [token for token, gateway in wishes.items() if gateway == asked.gateway]
    return [token for token in own if token in here or token not in known]


def _pairs(tokens: Mapping[str, int]) -> tuple[list[str], list[int]]:
    return list(tokens), list(tokens.values())
