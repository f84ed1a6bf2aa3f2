"""Removes the index of an agent that is no more from PostgreSQL."""

from __future__ import annotations

from typing import Final

from memory.store.generations import Generation
from memory.store.postgres.connections import Connection

_OF_CHUNKS: Final = ("word_list", "waiting", "refusal", "line_waiting", "chunk")
"""Tables that know chunks by their ids alone; what names the agent or a generation goes with these."""


def is_indexed(connection: Connection, agent: str) -> bool:
    """Return whether the schema in the search path has an index of an agent."""
    if not _has(connection, "agent"):
        return False
    return connection.execute("SELECT 1 FROM agent WHERE name = %s", (agent,)).fetchone() is not None


def remove_agent(connection: Connection, agent: str) -> None:
    """Delete all rows of an agent, in one transaction. A gateway that still has its index open makes it anew."""
    if not _has(connection, "agent"):
        return
    tables = [name for name in _OF_CHUNKS if _has(connection, name)]
    with connection.transaction():
        connection.execute("SELECT 1 FROM agent WHERE name = %s FOR UPDATE", (agent,))
        mine = "SELECT g.number, g.tokens, g.overlap FROM generation g JOIN agent a ON a.id = g.agent WHERE a.name = %s"
        for row in connection.execute(mine, (agent,)).fetchall():
            generation = Generation(*row)
            for table in tables:
                delete = f"DELETE FROM {table} WHERE id BETWEEN %s AND %s"  # noqa: S608 - names of ours
                connection.execute(delete.encode(), (generation.first_id, generation.last_id))
        connection.execute("DELETE FROM agent WHERE name = %s", (agent,))


def _has(connection: Connection, table: str) -> bool:
    return connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() != (None,)
