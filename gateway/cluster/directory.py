"""Where each agent and account of a cluster is worked for, and where that gateway is reached, as the database knows it at this moment."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gateway.base.errors import StorageFailed

if TYPE_CHECKING:
    from gateway.cluster.leases import Cell
    from gateway.cluster.postgres_leases import Connection

KNOWN_SECONDS: Final = 2.0
"""How long an answer of the database is used again. Whoever was asked in vain is looked up anew."""
SECRET_SECONDS: Final = 0.2
"""How long the secret is not asked for again, whoever sends wrong proofs."""
LONGEST: Final = 5.0
_GATEWAYS: Final = (
    "SELECT name, label, address, leaving FROM cluster_gateway WHERE until > clock_timestamp() ORDER BY label, since"
)
_HELD: Final = "SELECT h.token, h.gateway FROM cluster_held h JOIN cluster_token t USING (token) WHERE t.vt > clock_timestamp()"
_SHARED: Final = "SELECT secret FROM cluster_secret WHERE purpose = %(purpose)s"
_MARK: Final = """
WITH gone AS (DELETE FROM cluster_settings WHERE at < clock_timestamp() - interval '1 day'
    AND gateway NOT IN (SELECT name FROM cluster_gateway) AND gateway <> %(own)s)
INSERT INTO cluster_settings (gateway, keys, cells) VALUES (%(own)s, %(keys)s, %(cells)s)
ON CONFLICT (gateway) DO UPDATE SET keys = excluded.keys, cells = excluded.cells, at = clock_timestamp() RETURNING 1
"""
_ROWS: Final[Mapping[str, str]] = {
    "approval": "SELECT 'agent:' || agent FROM approval WHERE id = %(text)s",
    "hook": "SELECT 'agent:' || agent FROM hook WHERE name = %(text)s",
    "inbox": "SELECT 'agent:' || split_part(session, ':', 2) FROM inbox WHERE id = %(number)s AND session IS NOT NULL",
    "job": "SELECT DISTINCT 'agent:' || agent FROM job WHERE id = lower(%(text)s) OR lower(name) = lower(%(text)s)",
    "outbox": """
        SELECT CASE WHEN split_part(o.account, ':', 1) IN ('terminal', 'web', 'api') THEN 'agent:' || t.agent
            ELSE 'account:' || o.account END
        FROM outbox o LEFT JOIN turn t ON t.id = o.turn WHERE o.id = %(number)s
    """,
    "session": "SELECT DISTINCT 'agent:' || agent FROM transcript WHERE session = %(text)s",
    "unasked": "SELECT 'agent:' || agent FROM unasked WHERE id = %(number)s",
}
"""What something belongs to, by the name that people know it by."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A gateway that works. ``name`` is of its process alone, ``label`` what people call it, ``address`` where others reach it."""

    name: str
    label: str
    address: str
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """Who works, and who holds what."""

    peers: Mapping[str, Peer] = field(default_factory=dict)
    holders: Mapping[str, str] = field(default_factory=dict)


class Directory:
    """Asks the database. ``connect`` opens a connection in autocommit mode whose search path names the tables themselves.

    Every method raises StorageFailed where the database does not answer.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], own: str) -> None:
        self._connect = connect
        self.own = own
        self._connection: Connection | None = None
        self._one_at_a_time = asyncio.Lock()
        self._standing = Standing()
        self._as_of = -KNOWN_SECONDS
        self._secret = b""
        self._secret_as_of = -SECRET_SECONDS

    async def standing(self, *, fresh: bool = False) -> Standing:
        """Return who works and who holds what."""
        if fresh or time.monotonic() - self._as_of > KNOWN_SECONDS:
            gateways, held = await self._rows(_GATEWAYS), await self._rows(_HELD)
            peers = {str(name): Peer(str(name), str(label), str(at), bool(leaving)) for name, label, at, leaving in gateways}
            self._standing = Standing(peers, {str(token): str(gateway) for token, gateway in held})
            self._as_of = time.monotonic()
        return self._standing

    async def others(self, *, fresh: bool = False) -> list[Peer]:
        """Return the other gateways that work."""
        return [peer for peer in (await self.standing(fresh=fresh)).peers.values() if peer.name != self.own]

    async def tokens_of(self, kind: str, wanted: str | int) -> list[str]:
        """Return what a row belongs to, as tokens: none where there is no such row, several where a name is not the only one."""
        text = str(wanted).strip()
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1  # noqa: PLR2004 -- digits of a bigint
        found = await self._rows(_ROWS[kind], {"text": text, "number": number})
        return [str(token) for (token,) in found if token]

    async def secret(self, *, fresh: bool = False) -> bytes:
        """Return what gateways of this cluster prove themselves with. ``fresh`` ones are asked for no more often than needed."""
        if not self._secret or (fresh and time.monotonic() - self._secret_as_of > SECRET_SECONDS):
            self._secret_as_of = time.monotonic()
            [(secret,)] = await self._rows(_SHARED, {"purpose": "proof"})
            self._secret = str(secret).encode()
        return self._secret

    async def tell(self, channel: str, what: str) -> None:
        """Give all gateways of the cluster a notice."""
        await self._rows("SELECT pg_notify(%(channel)s, %(what)s)", {"channel": channel, "what": what})

    async def marking_secret(self) -> bytes:
        """Return what settings are marked with; it stays the same, so that marks of all gateways can be compared."""
        [(secret,)] = await self._rows(_SHARED, {"purpose": "marks"})
        return str(secret).encode()

    async def mark(self, marks: Mapping[str, str], cells: Sequence[Cell]) -> None:
        """Note the marks of this gateway's settings (``settings_marks``) and what it would hold, for `homebody cluster`."""
        await self._rows(_MARK, {"own": self.own, "keys": json.dumps(marks), "cells": json.dumps(cells)})

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _rows(self, query: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        import psycopg

        async with self._one_at_a_time:
            try:
                async with asyncio.timeout(LONGEST):
                    if self._connection is None or self._connection.closed:
                        self._connection = await self._connect()
                    cursor = await self._connection.execute(query.encode(), values)
                    return await cursor.fetchall()
            except (psycopg.Error, TimeoutError, OSError) as error:
                await self.close()
                said = str(error).strip() or "it took too long"
                hint = "Look whether PostgreSQL runs."
                raise StorageFailed(f"the other gateways cannot be looked up: {said}", hint=hint) from error
            except asyncio.CancelledError:  # the connection may be in the middle of an answer
                await self.close()
                raise
