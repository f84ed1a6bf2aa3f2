"""Vectors, each stored once under its embedder and the hash of its text, and nearest-neighbour search over those of the notes.

A vector outlives its chunk: if the text comes back, or the chunk size changes, nothing is embedded again. Beyond a number of
vectors that no chunk needs, those that were used longest ago are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from memory.notes.sources import EVERYBODY
from memory.store.generations import Generation
from memory.store.packed_vectors import packed
from memory.store.sqlite.index_database import Database

if TYPE_CHECKING:
    from memory.embedding.identity import Identity
    from memory.store.sqlite.vector_matrix import Matrix

_SLICE = 4_096
_LARGEST_MATRIX = 512 * 1024 * 1024
_ASK_AT_ONCE = 500


class VectorStore:
    """Stores packed vectors. ``most_unused`` is how many may be kept that no chunk needs."""

    def __init__(self, database: Database, *, most_unused: int) -> None:
        self._db = database
        self._most_unused = most_unused
        self._matrix: Matrix | None = None
        self._holds: tuple[object, ...] = ()
        self._last_id = 0
        self._complete = False
        self._version = -1
        self._changed = True

    @property
    def usable(self) -> bool:
        """Whether vectors can be searched at all."""
        return self._db.drivers.vectors != "none"

    def size(self) -> int:
        """Return the number of vectors."""
        return int(self._db.one("SELECT count(*) FROM vectors"))

    def find(self, embedder: Identity, digests: Sequence[bytes], *, now: int) -> dict[bytes, bytes]:
        """Return the known vectors among ``digests``, and mark them as used now."""
        who = self._embedder(embedder)
        found: dict[bytes, bytes] = {}
        for start in range(0, len(digests) if who else 0, _ASK_AT_ONCE):
            part = digests[start : start + _ASK_AT_ONCE]
            where = f"embedder = ? AND hash IN ({','.join('?' * len(part))})"
            found.update(self._db.rows(f"SELECT hash, vector FROM vectors WHERE {where}", (who, *part)))  # noqa: S608 - placeholders only
            self._db.connection.execute(f"UPDATE vectors SET used = ? WHERE {where}", (now, who, *part))  # noqa: S608 - the same
        return found

    def keep(self, embedder: Identity, vectors: Iterable[tuple[bytes, bytes]], *, now: int) -> None:
        """Store vectors, by the hashes of their texts."""
        self._changed = True
        who = self._embedder(embedder) or self._new_embedder(embedder)
        self._db.connection.executemany(
            """INSERT INTO vectors (embedder, hash, used, vector) VALUES (?, ?, ?, ?)
               ON CONFLICT (embedder, hash) DO UPDATE SET used = excluded.used, vector = excluded.vector""",
            ((who, digest, now, vector) for digest, vector in vectors),
        )

    def forget(self, embedder: Identity) -> None:
        """Delete all vectors of an embedder."""
        self._db.connection.execute("DELETE FROM vectors WHERE embedder = ?", (self._embedder(embedder),))
        self.release()

    def evict(self, used_by: Iterable[Identity]) -> None:
        """Delete the vectors used longest ago that no chunk needs, beyond the number that may be kept.

        ``used_by`` are the embedders whose vectors are searched.
        """
        if not self._changed:
            return
        self._changed = False
        if self.size() - int(self._db.one("SELECT count(*) FROM chunks")) <= self._most_unused:
            return  # a bound that costs little; chunks that share a vector let a few more stay
        marks = [who for who in map(self._embedder, used_by) if who]
        needed = f"embedder IN ({','.join('?' * len(marks))}) AND hash IN (SELECT hash FROM chunks)"  # noqa: S608 - placeholders only
        count = int(self._db.one(f"SELECT count(*) FROM vectors WHERE NOT ({needed})", tuple(marks)))  # noqa: S608 - placeholders only
        sql = f"DELETE FROM vectors WHERE id IN (SELECT id FROM vectors WHERE NOT ({needed}) ORDER BY used, id LIMIT ?)"  # noqa: S608 - the same
        self._db.connection.execute(sql, (*marks, max(0, count - self._most_unused)))

    def scan_of(self, generation: Generation) -> str:
        """Return what a search of this generation would use now: "numpy", "vec0" or "none"."""
        if not self.usable or not generation.dims:
            return "none"
        return "numpy" if self._ready(generation) or self._db.drivers.vectors == "numpy" else "vec0"

    def put(self, generation: Generation, rows: Sequence[tuple[int, bytes]]) -> None:
        """Take up the vectors of chunks that had none; they are stored already."""
        if self._matrix is not None and self._holds == _key(generation):
            self._matrix.add(rows)

    def removed(self, ids: Iterable[int]) -> None:
        """Remove deleted chunks from RAM."""
        self._changed = True
        if self._matrix is not None:
            self._matrix.remove(ids)

    def search(self, query: Sequence[float], generation: Generation, *, audience: str | None, limit: int) -> dict[int, float]:
        """Return the cosines of the nearest ``limit`` chunks, by id. ``audience`` None means all, else only its own notes."""
        if not self.usable or not generation.dims or len(query) != generation.dims:
            return {}
        if self._db.drivers.vectors == "numpy":
            while self.load_slice(generation):
                pass
        if self._ready(generation):
            assert self._matrix is not None
            return self._matrix.nearest(query, limit, self._ids_of(audience))
        sql = """SELECT c.id, 1.0 - vec_distance_cosine(vec_int8(v.vector), vec_int8(?)) AS cosine
                 FROM vectors v JOIN chunks c ON c.hash = v.hash AND c.id BETWEEN ? AND ?
                 WHERE v.embedder = ? AND length(v.vector) = ?"""
        bindings: list[Any] = [packed(query), generation.first_id, generation.last_id]
        bindings += [self._embedder(generation.embedder), generation.dims]
        if audience is not None:
            sql += " AND c.audience IN (?, ?)"
            bindings += [audience, EVERYBODY]
        return dict(self._db.rows(f"{sql} ORDER BY cosine DESC LIMIT ?", (*bindings, limit)))

    def load_slice(self, generation: Generation) -> bool:
        """Load some more vectors into RAM, where they are searched several times faster; return whether there are more."""
        if not self._db.drivers.scan or not generation.dims:
            return False
        if not self._current(generation) and not self._begin(generation):
            return False
        if self._complete:
            return False
        assert self._matrix is not None
        who = self._embedder(generation.embedder)
        last = self._db.one(
            "SELECT max(id) FROM (SELECT id FROM vectors WHERE id > ? ORDER BY id LIMIT ?)", (self._last_id, _SLICE)
        )
        if last is not None:
            sql = """SELECT c.id, v.vector FROM vectors v JOIN chunks c ON c.hash = v.hash AND c.id BETWEEN ? AND ?
                     WHERE v.id > ? AND v.id <= ? AND v.embedder = ? AND length(v.vector) = ?"""
            bounds = (generation.first_id, generation.last_id, self._last_id, last)
            self._matrix.add(self._db.rows(sql, (*bounds, who, generation.dims)))
            self._last_id = last
        self._complete = last is None
        return not self._complete

    def release(self) -> None:
        """Free the RAM; searches then read the table."""
        self._matrix, self._holds = None, ()

    def _begin(self, generation: Generation) -> bool:
        """Begin to load; return False if the vectors are too many for that."""
        from memory.store.sqlite.vector_matrix import Matrix

        rows = int(self._db.one("SELECT count(*) FROM chunks WHERE embedded = 1"))
        if rows * generation.dims > _LARGEST_MATRIX and self._db.drivers.vectors == "vec0":
            return False
        self._matrix, self._holds = Matrix(generation.dims, rows), _key(generation)
        self._last_id, self._complete, self._version = 0, False, self._data_version()
        return True

    def _ready(self, generation: Generation) -> bool:
        return self._complete and self._current(generation)

    def _current(self, generation: Generation) -> bool:
        return self._matrix is not None and self._holds == _key(generation) and self._version == self._data_version()

    def _data_version(self) -> int:
        """A number that changes when another process has written to the file."""
        return int(self._db.one("PRAGMA data_version"))

    def _embedder(self, embedder: Identity) -> int:
        """Return the number under which an embedder's vectors are stored; 0 if there are none."""
        sql = "SELECT id FROM embedders WHERE provider = ? AND model = ? AND fingerprint = ?"
        return int(self._db.one(sql, embedder) or 0)

    def _new_embedder(self, embedder: Identity) -> int:
        self._db.connection.execute("INSERT INTO embedders (provider, model, fingerprint) VALUES (?, ?, ?)", embedder)
        return self._embedder(embedder)

    def _ids_of(self, audience: str | None) -> set[int] | None:
        if audience is None:
            return None
        sql = "SELECT id FROM chunks WHERE audience IN (?, ?) AND audience <> ''"
        return {row[0] for row in self._db.rows(sql, (audience, EVERYBODY))}


def _key(generation: Generation) -> tuple[object, ...]:
    return generation.number, generation.embedder, generation.dims
