"""Vectors of one agent in PostgreSQL: which chunks wait for one, those that are stored, and the nearest to a query.

A vector is stored once under its embedder and the hash of its text, and found again when a text returns, in whatever gateway. All vectors
of the notes are compared, by pgvector: an index of neighbours (HNSW) is slower to fill than the words, and misses some of the nearest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from memory.embedding.identity import Identity
from memory.notes.sources import EVERYBODY
from memory.store.candidates import LineCosines
from memory.store.generations import REFUSED_FOR, Generation, LinesMissing, Missing
from memory.store.postgres.connections import Connection, Connections
from memory.store.postgres.generation_rows import GenerationRows
from memory.store.postgres.line_rows import LineRows

_MISSING: Final = """
SELECT c.id, c.hash, c.header, c.text FROM waiting w JOIN chunk c ON c.id = w.id WHERE w.id BETWEEN %s AND %s ORDER BY w.id LIMIT %s
"""
_FIND: Final = (
    "UPDATE vector SET used = %s WHERE agent = %s AND embedder = %s AND hash = ANY (%s) RETURNING hash, vector_dims(vector)"
)
_KEEP: Final = """
INSERT INTO vector VALUES (%s, %s, %s, %s, %s::halfvec)
ON CONFLICT (agent, embedder, hash) DO UPDATE SET used = excluded.used, vector = excluded.vector
"""
_DISTANCES: Final = """
SELECT hash, vector <=> %s::halfvec AS distance FROM vector WHERE agent = %s AND embedder = %s AND vector_dims(vector) = %s
"""
_NEAREST: Final = f"""
WITH near AS MATERIALIZED ({_DISTANCES} ORDER BY distance LIMIT %s)
SELECT w.id, 1 - n.distance FROM near n CROSS JOIN LATERAL (SELECT id FROM word_list WHERE hash = n.hash OFFSET 0) w
WHERE w.id BETWEEN %s AND %s ORDER BY n.distance, w.id LIMIT %s
"""  # noqa: S608 - constants
_NEAREST_OF: Final = """
SELECT w.id, 1 - v.distance FROM word_list w CROSS JOIN LATERAL (
    SELECT vector <=> %s::halfvec AS distance FROM vector
    WHERE agent = %s AND embedder = %s AND hash = w.hash AND vector_dims(vector) = %s LIMIT 1
) v WHERE w.id BETWEEN %s AND %s AND (%s::text IS NULL OR w.audience IN (%s, %s)) ORDER BY v.distance, w.id LIMIT %s
"""
"""The distances of all come first, and the nearest alone are joined, which are enough unless many vectors belong to none of the passages
that are searched. For an audience it is the other way round: its passages are few. Rows are joined one by one through an index (``LATERAL``
with a limit or an offset): before there are statistics, the server takes large tables for small ones, and compares each row with each."""
_MORE: Final = 4
"""How many vectors the first one looks at for each passage that is wanted."""
_EVICT: Final = """
DELETE FROM vector v USING (
    SELECT embedder, hash FROM vector n WHERE n.agent = %(agent)s AND NOT (n.embedder = ANY (%(embedders)s) AND EXISTS (
        SELECT 1 FROM chunk c JOIN generation g ON c.id >> 40 = g.number AND g.agent = %(agent)s WHERE c.hash = n.hash))
    ORDER BY n.used DESC, n.hash OFFSET %(most)s
) old WHERE v.agent = %(agent)s AND v.embedder = old.embedder AND v.hash = old.hash
"""


class EmbeddedRows:
    """Implements what ``Index`` says of vectors and refused texts.

    ``usable``: the server can store vectors. ``lines``: those of lines count, too.
    """

    def __init__(self, connections: Connections, rows: GenerationRows, *, usable: bool, lines: bool, most_unused: int) -> None:
        self._connections = connections
        self._rows = rows
        self._usable = usable
        self._lines = LineRows(rows.agent)
        self._lines_count = usable and lines
        self._most_unused = most_unused
        self._changed = True
        self._numbers: dict[Identity, int] = {}

    def missing(self, generation: Generation, limit: int) -> list[Missing]:
        """See ``Index``."""
        with self._connections.reading() as connection:
            rows = connection.execute(_MISSING, (generation.first_id, generation.last_id, limit)).fetchall()
        return [Missing(id=id_, digest=digest, text=f"{head}\n{text}" if head else text) for id_, digest, head, text in rows]

    def missing_count(self, generation: Generation, most: int | None = None) -> int:
        """See ``Index``. ``most``: count no further."""
        sql = "SELECT count(*) FROM (SELECT 1 FROM waiting WHERE id BETWEEN %s AND %s LIMIT %s) w"
        with self._connections.reading() as connection:
            return _number(connection.execute(sql, (generation.first_id, generation.last_id, most)))

    def fill_from_cache(
        self, generation: Generation, embedder: Identity, missing: Sequence[Missing], *, now: int
    ) -> list[Missing]:
        """See ``Index``."""
        with self._rows.changing() as connection:
            asked = (now, self._rows.agent, self._embedder(connection, embedder), list({one.digest for one in missing}))
            known = dict(connection.execute(_FIND, asked).fetchall())
            kept = self._rows.state(connection).kept(generation)
            length = (kept.dims if kept else 0) or max(known.values(), default=0)
            known = {digest: dims for digest, dims in known.items() if dims == length}
            self._done(connection, generation, embedder, length, [one.id for one in missing if one.digest in known])
        return [one for one in missing if one.digest not in known]

    def put_vectors(
        self, generation: Generation, embedder: Identity, vectors: Iterable[tuple[Missing, Sequence[float]]], *, now: int
    ) -> None:
        """See ``Index``."""
        found = list(vectors)
        with self._rows.changing() as connection:
            self._keep(connection, embedder, {one.digest: vector for one, vector in found}, now)
            if found:
                length = self._length(connection, generation, found[0][1])
                fitting = [one.id for one, vector in found if len(vector) == length]
                self._done(connection, generation, embedder, length, fitting)

    def adopt_vectors(
        self, generation: Generation, embedder: Identity, vectors: Sequence[tuple[bytes, Sequence[float]]], *, now: int
    ) -> None:
        """See ``Index``."""
        data = dict(vectors)
        sql = (
            "SELECT w.id, c.hash FROM waiting w JOIN chunk c ON c.id = w.id WHERE w.id BETWEEN %s AND %s AND c.hash = ANY (%s)"
        )
        with self._rows.changing() as connection:
            self._keep(connection, embedder, data, now)
            waiting = connection.execute(sql, (generation.first_id, generation.last_id, list(data))).fetchall()
            if waiting:
                length = self._length(connection, generation, data[waiting[0][1]])
                fitting = [id_ for id_, digest in waiting if len(data[digest]) == length]
                self._done(connection, generation, embedder, length, fitting)

    def lines_missing(self, generation: Generation, limit: int) -> list[LinesMissing]:
        """See ``Index``."""
        while self._lines_count:
            with self._connections.reading() as connection:
                kept = self._rows.state(connection).kept(generation)
                if kept is None or not kept.dims:
                    break
                embedder = self._embedder(connection, kept.embedder)
                found, needless = self._lines.missing(connection, kept, embedder, limit)
                if needless:
                    self._lines.done(connection, needless)
            if found or not needless:
                return found
        return []

    def put_lines(self, generation: Generation, lines: Sequence[tuple[LinesMissing, Sequence[Sequence[float] | None]]]) -> None:
        """See ``Index``."""
        with self._rows.changing() as connection:
            kept = self._rows.state(connection).kept(generation)
            if kept is not None and kept.dims:
                self._lines.put(connection, kept.dims, self._embedder(connection, kept.embedder), lines)

    def forget_vectors(self, generation: Generation, embedder: Identity) -> None:
        """See ``Index``."""
        with self._rows.changing() as connection:
            kept = self._rows.state(connection).kept(generation)
            if kept is None:
                return
            number = self._embedder(connection, embedder)
            connection.execute("DELETE FROM vector WHERE agent = %s AND embedder = %s", (self._rows.agent, number))
            sql = "INSERT INTO waiting SELECT id FROM chunk WHERE id BETWEEN %s AND %s ON CONFLICT DO NOTHING"
            connection.execute(sql, (kept.first_id, kept.last_id))
            for table in ("refusal", "line_waiting"):
                connection.execute(f"DELETE FROM {table} WHERE id BETWEEN %s AND %s".encode(), (kept.first_id, kept.last_id))  # noqa: S608 - names of ours
            self._describe(connection, kept, ("", "", ""), 0)

    def evict(self) -> None:
        """See ``Index``."""
        if not self._changed or not self._usable:
            return
        self._changed = False
        with self._rows.changing() as connection:
            state = self._rows.state(connection)
            if self.size(connection) - state.totals.chunks <= self._most_unused:
                return  # a bound that costs little; chunks that share a vector let a few more stay
            used = [self._embedder(connection, one.embedder) for one in (state.live, state.building) if one and one.dims]
            connection.execute(_EVICT, {"agent": self._rows.agent, "embedders": used, "most": self._most_unused})

    def size(self, connection: Connection) -> int:
        """Return how many vectors are stored."""
        sql = "SELECT count(*) FROM vector WHERE agent = %s"
        return _number(connection.execute(sql, (self._rows.agent,))) if self._usable else 0

    def size_of_lines(self, connection: Connection, dims: int) -> int:
        """Return how many vectors of lines are stored."""
        return self._lines.size(connection, dims) if self._usable else 0

    def refuse(self, refused: Sequence[tuple[Missing, str]], embedder: Identity, *, now: int) -> None:
        """See ``Index``."""
        sql = """INSERT INTO refusal SELECT r.id, %s, %s, %s, %s, r.reason FROM unnest(%s::bigint[], %s::text[]) AS r (id, reason)
                 WHERE EXISTS (SELECT 1 FROM waiting w WHERE w.id = r.id) ON CONFLICT (id) DO NOTHING"""
        ids, reasons = [one.id for one, _ in refused], [reason for _, reason in refused]
        with self._rows.changing() as connection:
            connection.execute(sql, (*embedder, now, ids, reasons))
            connection.execute("DELETE FROM waiting WHERE id = ANY (%s)", (ids,))

    def reconsider(self, embedder: Identity | None, *, now: int) -> None:
        """See ``Index``."""
        within = "(SELECT 1 FROM generation g WHERE g.number = r.id >> 40 AND g.agent = %s)"
        sql = f"""WITH again AS (DELETE FROM refusal r WHERE EXISTS {within}
                  AND (%s::text IS NULL OR at <= %s OR (provider, model, fingerprint) <> (%s, %s, %s)) RETURNING r.id)
                  INSERT INTO waiting SELECT id FROM again ON CONFLICT DO NOTHING"""  # noqa: S608 - constants
        who = embedder or (None, None, None)
        if not self._refused():
            return
        with self._rows.changing() as connection:
            connection.execute(sql.encode(), (self._rows.agent, who[0], now - REFUSED_FOR, *who))

    def refusals(self, limit: int) -> dict[str, str]:
        """See ``Index``."""
        sql = """SELECT c.path, c.start_line, r.reason FROM refusal r JOIN chunk c ON c.id = r.id
                 WHERE r.id BETWEEN %s AND %s ORDER BY c.path, c.start_line LIMIT %s"""
        with self._connections.reading() as connection:
            live = self._rows.state(connection).live
            rows = connection.execute(sql, (live.first_id, live.last_id, limit)).fetchall()
        return {f"{path}:{line}": reason for path, line, reason in rows}

    def nearest(
        self, connection: Connection, generation: Generation, vector: Sequence[float], *, audience: str | None, limit: int
    ) -> dict[int, float]:
        """Return the cosines of the nearest ``limit`` chunks, by id. ``audience`` None means all, else only its own notes."""
        if not self._usable or not generation.dims or len(vector) != generation.dims:
            return {}
        who = self._embedder(connection, generation.embedder)
        asked = (_literal(vector), self._rows.agent, who, generation.dims)
        bounds = (generation.first_id, generation.last_id)
        if audience is None:
            found = dict(connection.execute(_NEAREST.encode(), (*asked, _MORE * limit, *bounds, limit)).fetchall())
            if len(found) >= limit:
                return found
        return dict(
            connection.execute(_NEAREST_OF.encode(), (*asked, *bounds, audience, audience, EVERYBODY, limit)).fetchall()
        )

    def nearest_lines(
        self, connection: Connection, generation: Generation, vector: Sequence[float], ids: Sequence[int]
    ) -> dict[int, LineCosines]:
        """Return how near the lines of these chunks are, by id; of those alone whose lines have vectors."""
        if not self._lines_count or not generation.dims or len(vector) != generation.dims:
            return {}
        return self._lines.cosines(connection, vector, self._embedder(connection, generation.embedder), ids)

    def _refused(self) -> bool:
        with self._connections.reading() as connection:
            return connection.execute("SELECT 1 FROM refusal LIMIT 1").fetchone() is not None

    def _keep(self, connection: Connection, embedder: Identity, vectors: dict[bytes, Sequence[float]], now: int) -> None:
        self._changed = True
        if vectors:
            who = self._embedder(connection, embedder, new=True)
            rows = [(self._rows.agent, who, digest, now, _literal(vector)) for digest, vector in vectors.items()]
            connection.cursor().executemany(_KEEP, rows)

    def _length(self, connection: Connection, generation: Generation, first: Sequence[float]) -> int:
        kept = self._rows.state(connection).kept(generation)
        return (kept.dims if kept else 0) or len(first)

    def _done(self, connection: Connection, generation: Generation, embedder: Identity, length: int, ids: list[int]) -> None:
        """Note that chunks have their vectors; the first ones set whose vectors a generation has, and how long they are."""
        kept = self._rows.state(connection).kept(generation)
        if kept is None or not ids:
            return
        if not kept.dims:
            self._describe(connection, kept, embedder, length)
        connection.execute("DELETE FROM waiting WHERE id = ANY (%s)", (ids,))
        self._lines.expect(connection, ids)

    def _describe(self, connection: Connection, generation: Generation, embedder: Identity, length: int) -> None:
        sql = "UPDATE generation SET provider = %s, model = %s, fingerprint = %s, dims = %s WHERE number = %s"
        connection.execute(sql, (*embedder, length, generation.number))

    def _embedder(self, connection: Connection, embedder: Identity, *, new: bool = False) -> int:
        """Return the number under which an embedder's vectors are stored; 0 if there are none."""
        if embedder in self._numbers:
            return self._numbers[embedder]
        if new:
            sql = "INSERT INTO embedder (provider, model, fingerprint) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
            connection.execute(sql, embedder)
        sql = "SELECT id FROM embedder WHERE provider = %s AND model = %s AND fingerprint = %s"
        row = connection.execute(sql, embedder).fetchone()
        if row and not new:  # what this transaction adds may be undone
            self._numbers[embedder] = int(row[0])
        return int(row[0]) if row else 0


def _literal(vector: Sequence[float]) -> str:
    return f"[{','.join(f'{number:.5g}' for number in vector)}]"


def _number(cursor: Any) -> int:
    return int(cursor.fetchone()[0])
