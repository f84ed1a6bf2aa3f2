"""Vectors of the lines of passages in PostgreSQL, which decide between the candidates of a search.

A row has those of all lines of a passage, as signed bytes one after the other: half as large as halfvec, and a sixth smaller than a row
for each line. Only notes have them, not transcripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory.store.candidates import LineCosines
from memory.store.generations import Generation, LinesMissing
from memory.store.packed_vectors import line_cosines, packed
from memory.store.postgres.connections import Connection
from memory.text.line_groups import group_texts

_WAITING: Final = """
SELECT w.id, c.text, v.hash IS NULL OR l.hash IS NOT NULL
FROM (SELECT id FROM line_waiting WHERE id BETWEEN %(first)s AND %(last)s ORDER BY id LIMIT %(most)s) w
CROSS JOIN LATERAL (SELECT text, hash FROM chunk WHERE id = w.id LIMIT 1) c
LEFT JOIN LATERAL (SELECT hash FROM vector WHERE agent = %(agent)s AND embedder = %(embedder)s AND hash = c.hash LIMIT 1) v ON true
LEFT JOIN LATERAL (SELECT hash FROM line_vectors WHERE agent = %(agent)s AND embedder = %(embedder)s AND hash = c.hash LIMIT 1) l
    ON true
ORDER BY w.id
"""
_PUT: Final = """
INSERT INTO line_vectors SELECT v.agent, v.embedder, v.hash, n.vectors FROM unnest(%s::bigint[], %s::bytea[]) AS n (id, vectors)
CROSS JOIN LATERAL (SELECT hash FROM chunk WHERE id = n.id LIMIT 1) c
CROSS JOIN LATERAL (SELECT agent, embedder, hash FROM vector WHERE agent = %s AND embedder = %s AND hash = c.hash LIMIT 1) v
ON CONFLICT DO NOTHING
"""
_READ: Final = """
SELECT n.id, l.vectors FROM unnest(%s::bigint[]) AS n (id)
CROSS JOIN LATERAL (SELECT hash FROM chunk WHERE id = n.id LIMIT 1) c
CROSS JOIN LATERAL (SELECT vectors FROM line_vectors WHERE agent = %s AND embedder = %s AND hash = c.hash LIMIT 1) l
ORDER BY n.id
"""
"""Row by row through the keys (``LATERAL`` with a limit): before there are statistics, a plan joins whole tables for a few passages."""
_AWAIT: Final = """
INSERT INTO line_waiting SELECT id FROM chunk WHERE id = ANY (%s) AND source = 'memory' ON CONFLICT DO NOTHING
"""


class LineRows:
    """Reads and writes them for one agent, in transactions of its caller. They leave with the vector of their passage."""

    def __init__(self, agent: int) -> None:
        self._agent = agent

    def expect(self, connection: Connection, ids: list[int]) -> None:
        """Note that these chunks have a vector now, and their lines may have none."""
        connection.execute(_AWAIT, (ids,))

    def missing(
        self, connection: Connection, generation: Generation, embedder: int, limit: int
    ) -> tuple[list[LinesMissing], list[int]]:
        """Return passages whose lines have no vectors, and chunks that need none: ``done`` is to be told of these."""
        values = {
            "agent": self._agent,
            "embedder": embedder,
            "first": generation.first_id,
            "last": generation.last_id,
            "most": limit,
        }
        found: list[LinesMissing] = []
        needless: list[int] = []
        for id_, text, known in connection.execute(_WAITING, values):
            texts = [] if known else group_texts(text)
            if not texts:
                needless.append(id_)
            else:
                found.append(LinesMissing(key=id_, texts=texts))
        return found, needless

    def done(self, connection: Connection, ids: list[int]) -> None:
        """Do not look at these chunks again."""
        connection.execute("DELETE FROM line_waiting WHERE id = ANY (%s)", (ids,))

    def put(
        self,
        connection: Connection,
        dims: int,
        embedder: int,
        lines: Sequence[tuple[LinesMissing, Sequence[Sequence[float] | None]]],
    ) -> None:
        """Store the vectors of the lines of some passages; one that the embedder refused is None."""
        ids = [one.key for one, _ in lines]
        data = [b"".join(packed(one) for one in vectors if one is not None and len(one) == dims) for _, vectors in lines]
        connection.execute(_PUT, (ids, data, self._agent, embedder))
        self.done(connection, ids)

    def size(self, connection: Connection, dims: int) -> int:
        """Return how many vectors of so many dimensions are stored."""
        sql = "SELECT coalesce(sum(octet_length(vectors)), 0) FROM line_vectors WHERE agent = %s"
        [(stored,)] = connection.execute(sql, (self._agent,)).fetchall()
        return int(stored) // dims if dims else 0

    def cosines(
        self, connection: Connection, query: Sequence[float], embedder: int, ids: Sequence[int]
    ) -> dict[int, LineCosines]:
        """Return how near the lines of these chunks are, of those that have vectors of lines."""
        size = len(query)
        rows = connection.cursor(binary=True).execute(_READ, (list(ids), self._agent, embedder)).fetchall()
        lines = [(id_, data[at : at + size]) for id_, data in rows if len(data) % size == 0 for at in range(0, len(data), size)]
        return line_cosines(query, lines)
