"""How far the workspaces of a cluster have come: who wrote one last, and whether all of that has reached the repository of all.

Kept in PostgreSQL, and written by the holder of each agent alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msgspec import Struct

from gateway.cluster.cells import AGENT

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    Connection = AsyncConnection[tuple[Any, ...]]

Result = TypeVar("Result")
TABLE: Final = """
CREATE TABLE IF NOT EXISTS cluster_workspace (
    agent text PRIMARY KEY, gateway text NOT NULL, commit text NOT NULL, unsent boolean NOT NULL, at timestamptz NOT NULL
);
"""
_WRITE: Final = """
INSERT INTO cluster_workspace SELECT %(agent)s, %(label)s, %(commit)s, %(unsent)s, clock_timestamp()
WHERE EXISTS (SELECT 1 FROM cluster_held WHERE token = %(token)s AND gateway = %(name)s)
ON CONFLICT (agent) DO UPDATE SET gateway = excluded.gateway, commit = excluded.commit, unsent = excluded.unsent, at = excluded.at
"""


class Standing(Struct, frozen=True):
    """``commit`` is the newest that ``gateway`` (its name for people) has pushed; ``unsent``: it has changed something since."""

    gateway: str
    commit: str = ""
    unsent: bool = False


class Standings(Protocol):
    """Where it is kept. Both raise StorageFailed."""

    async def read(self, agent: str) -> Standing | None:
        """Return what is known of an agent's workspace."""
        ...

    async def write(self, agent: str, standing: Standing) -> None:
        """Keep it, if this gateway holds the agent; else nothing is changed."""
        ...


class Transactions(Protocol):
    """What is used of ``PostgresLeases``."""

    async def run(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Run ``work`` in a transaction. Raises StorageFailed."""
        ...


class PostgresStandings:
    """``Standings`` for the gateway whose process is called ``name`` in the leases."""

    def __init__(self, transactions: Transactions, name: str) -> None:
        self._transactions = transactions
        self._name = name

    async def read(self, agent: str) -> Standing | None:
        """See ``Standings``."""
        query = "SELECT gateway, commit, unsent FROM cluster_workspace WHERE agent = %s"

        async def work(connection: Connection) -> Standing | None:
            found = await (await connection.execute(query, (agent,))).fetchone()
            return Standing(*found) if found is not None else None

        return await self._transactions.run(work)

    async def write(self, agent: str, standing: Standing) -> None:
        """See ``Standings``."""
        values = {
            "agent": agent,
            "token": f"{AGENT}{agent}",
            "name": self._name,
            "label": standing.gateway,
            "commit": standing.commit,
            "unsent": standing.unsent,
        }

        async def work(connection: Connection) -> None:
            await connection.execute(_WRITE, values)

        await self._transactions.run(work)
