"""Vector store: exact nearest-neighbour search, by sqlite-vec or by numpy in RAM."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from memory.store.chunk_store import Generation
from memory.store.database import Database

_TABLES = ("chunks_vec", "chunks_vec_alt")
_PLAIN = "vectors_plain"
_SLICE = 4_096
_LARGEST_MATRIX = 512 * 1024 * 1024
_MOST_NEIGHBOURS = 4_096


def packed(vector: Sequence[float]) -> bytes:
    """Return a vector as the little-endian 32-bit floats that are stored."""
    return array("f", vector).tobytes()


class Matrix:
    """Vectors of one generation in RAM, loaded in slices until ``complete``. ``rows`` is the expected number."""

    def __init__(self, generation: Generation, rows: int = 0) -> None:
        import numpy as np

        self.holds = (generation.number, generation.table, generation.dims)
        self.complete = False
        self.last_id = 0
        self._np = np
        self._vectors = np.empty((rows, generation.dims), dtype=np.float32)
        self._ids = np.empty(rows, dtype=np.int64)
        self._places: dict[int, int] = {}
        self._count = 0

    def add(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Put vectors in, replacing those of the same ids."""
        for id_, data in rows:
            place = self._places.get(id_)
            if place is None:
                place = self._count
                self._grow(place + 1)
                self._places[id_] = place
                self._ids[place] = id_
                self._count += 1
            self._vectors[place] = self._np.frombuffer(data, dtype=self._np.float32)

    def remove(self, ids: Iterable[int]) -> None:
        """Remove vectors; the last one moves into the gap."""
        for id_ in ids:
            place = self._places.pop(id_, None)
            if place is None:
                continue
            self._count -= 1
            if place != self._count:
                moved = int(self._ids[self._count])
                self._vectors[place] = self._vectors[self._count]
                self._ids[place] = moved
                self._places[moved] = place

    def nearest(self, query: bytes, limit: int, within: set[int] | None) -> dict[int, float]:
        """Return the cosines of the ``limit`` nearest, by id."""
        np = self._np
        scores = self._vectors[: self._count] @ np.frombuffer(query, dtype=np.float32)
        ids = self._ids[: self._count]
        if within is not None:
            mask = np.isin(ids, np.fromiter(within, dtype=np.int64, count=len(within)))
            scores, ids = scores[mask], ids[mask]
        if len(scores) > limit:
            top = np.argpartition(scores, len(scores) - limit)[-limit:]
            scores, ids = scores[top], ids[top]
        return dict(zip(ids.tolist(), scores.tolist(), strict=True))

    def _grow(self, needed: int) -> None:
        have = len(self._ids)
        if needed <= have:
            return
        size = max(1024, needed, have + have // 2)
        vectors = self._np.empty((size, self._vectors.shape[1]), dtype=self._np.float32)
        vectors[:have] = self._vectors
        ids = self._np.empty(size, dtype=self._np.int64)
        ids[:have] = self._ids
        self._vectors, self._ids = vectors, ids


class VectorStore:
    """Stores and searches unit vectors by cosine similarity, which is their dot product."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._matrix: Matrix | None = None
        self._version = -1

    @property
    def usable(self) -> bool:
        """Whether vectors can be stored and searched at all."""
        return self._db.drivers.vectors != "none"

    def scan_of(self, generation: Generation) -> str:
        """Return what a search of this generation would use now: "numpy", "vec0" or "none"."""
        if not self.usable or not generation.table:
            return "none"
        return "numpy" if self._ready(generation) or self._db.drivers.vectors == "numpy" else "vec0"

    def create(self, dims: int, *, beside: str) -> str:
        """Make an empty table for vectors of ``dims`` numbers and return its name, which is not ``beside``."""
        if self._db.drivers.vectors == "numpy":
            return _PLAIN
        name = next(name for name in _TABLES if name != beside)
        connection = self._db.connection
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(
            f"CREATE VIRTUAL TABLE {name} USING vec0(id INTEGER PRIMARY KEY, embedding float[{dims}] distance_metric=cosine)"
        )
        return name

    def fits(self, generation: Generation) -> bool:
        """Whether the generation's table can be used by the driver that runs today."""
        return not generation.table or (generation.table == _PLAIN) == (self._db.drivers.vectors == "numpy")

    def drop(self, table: str) -> None:
        """Remove a table of vectors that is no longer needed."""
        if table in _TABLES and self._db.drivers.vectors == "vec0":
            self._db.connection.execute(f"DROP TABLE IF EXISTS {table}")
        if self._matrix is not None and self._matrix.holds[1] == table:
            self._matrix = None

    def put(self, generation: Generation, rows: Sequence[tuple[int, bytes]]) -> None:
        """Add vectors of chunks that have none yet."""
        self._db.connection.executemany(f"INSERT INTO {generation.table} (id, embedding) VALUES (?, ?)", rows)  # noqa: S608 - a name of ours
        if self._matrix is not None and self._matrix.holds == _key(generation):
            self._matrix.add(rows)

    def removed(self, ids: Iterable[int]) -> None:
        """Remove deleted chunks from RAM; their rows were deleted already."""
        if self._matrix is not None:
            self._matrix.remove(ids)

    def search(self, query: bytes, generation: Generation, *, audience: str | None, limit: int) -> dict[int, float]:
        """Return the cosines of the nearest ``limit`` chunks, by id. ``audience`` None means all, else only its own notes."""
        if not self.usable or not generation.table or len(query) != generation.dims * 4:
            return {}
        if self._db.drivers.vectors == "numpy":
            while self.load_slice(generation):
                pass
        if self._ready(generation):
            assert self._matrix is not None
            return self._matrix.nearest(query, limit, self._ids_of(audience))
        sql = f"SELECT id, 1.0 - distance FROM {generation.table} WHERE embedding MATCH ? AND k = ?"  # noqa: S608 - a name of ours
        bindings: tuple[Any, ...] = (query, min(limit, _MOST_NEIGHBOURS))
        if audience is not None:
            sql += " AND id IN (SELECT id FROM chunks WHERE audience = ?)"
            bindings = (*bindings, audience)
        return dict(self._db.rows(sql, bindings))

    def load_slice(self, generation: Generation) -> bool:
        """Load some more vectors into RAM; return whether there are more."""
        if not self._db.drivers.scan or not generation.table:
            return False
        if not self._current(generation):
            rows = self._db.one(f"SELECT count(*) FROM {generation.table}")  # noqa: S608 - a name of ours
            if rows * generation.dims * 4 > _LARGEST_MATRIX and self._db.drivers.vectors == "vec0":
                return False
            self._matrix = Matrix(generation, rows)
            self._version = self._data_version()
        matrix = self._matrix
        assert matrix is not None
        if matrix.complete:
            return False
        bounds = (max(matrix.last_id, generation.first_id - 1), generation.last_id, _SLICE)
        sql = f"""SELECT v.id, v.embedding FROM (SELECT id FROM chunks WHERE id > ? AND id <= ? AND embedded = 1 ORDER BY id LIMIT ?) c
                  JOIN {generation.table} v ON v.id = c.id"""  # noqa: S608 - a name of ours
        ids = [
            row[0]
            for row in self._db.rows(
                "SELECT id FROM chunks WHERE id > ? AND id <= ? AND embedded = 1 ORDER BY id LIMIT ?", bounds
            )
        ]
        matrix.add((id_, data) for id_, data in self._db.rows(sql, bounds))
        matrix.last_id = ids[-1] if ids else matrix.last_id
        matrix.complete = len(ids) < _SLICE
        return not matrix.complete

    def release(self) -> None:
        """Free the RAM; searches then use the table."""
        self._matrix = None

    def _ready(self, generation: Generation) -> bool:
        return self._current(generation) and self._matrix is not None and self._matrix.complete

    def _current(self, generation: Generation) -> bool:
        matrix = self._matrix
        return matrix is not None and matrix.holds == _key(generation) and self._version == self._data_version()

    def _data_version(self) -> int:
        """A number that changes when another process has written to the file."""
        return int(self._db.one("PRAGMA data_version"))

    def _ids_of(self, audience: str | None) -> set[int] | None:
        if audience is None:
            return None
        return {row[0] for row in self._db.rows("SELECT id FROM chunks WHERE audience = ?", (audience,))}


def _key(generation: Generation) -> tuple[int, str, int]:
    return generation.number, generation.table, generation.dims
