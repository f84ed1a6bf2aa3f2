"""Chunks that have no vector yet, and how they get one: the part of an SQLite index that embedding needs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from memory.embedding.identity import Identity
from memory.settings import MemorySettings
from memory.store.generations import REFUSED_FOR, Generation, LinesMissing, Missing
from memory.store.packed_vectors import packed
from memory.store.sqlite.chunk_store import ChunkStore
from memory.store.sqlite.index_database import Database
from memory.store.sqlite.line_vectors import LineVectors
from memory.store.sqlite.vector_store import VectorStore


class EmbeddedChunks:
    """Implements what ``Index`` says of missing vectors and refused texts, and of the generations to which they belong."""

    def __init__(self, database: Database, settings: MemorySettings) -> None:
        self.database = database
        self.notes = ChunkStore(database)
        self.vectors = VectorStore(database, most_unused=settings.cache.max_entries if settings.cache.enabled else 0)
        self.lines = LineVectors(database)
        self._lines_count = settings.query.fused.line_vector_weight > 0
        self.notes.on_drop = self.vectors.removed

    @property
    def live(self) -> Generation:
        """See the protocol."""
        live = self.notes.generation("live")
        assert live is not None
        return live

    def building(self) -> Generation | None:
        """See the protocol."""
        return self.notes.generation("building")

    def missing(self, generation: Generation, limit: int) -> list[Missing]:
        """See the protocol."""
        sql = "SELECT id, hash, header, text FROM chunks WHERE embedded = 0 AND id BETWEEN ? AND ? ORDER BY id LIMIT ?"
        rows = self.database.rows(sql, (generation.first_id, generation.last_id, limit))
        return [Missing(id=id_, digest=digest, text=f"{head}\n{text}" if head else text) for id_, digest, head, text in rows]

    def missing_count(self, generation: Generation) -> int:
        """See the protocol."""
        sql = "SELECT count(*) FROM chunks WHERE embedded = 0 AND id BETWEEN ? AND ?"
        return int(self.database.one(sql, (generation.first_id, generation.last_id)))

    def fill_from_cache(
        self, generation: Generation, embedder: Identity, missing: Sequence[Missing], *, now: int
    ) -> list[Missing]:
        """See the protocol."""
        with self.database.writing():
            known = self.vectors.find(embedder, [m.digest for m in missing], now=now)
            length = self.dims_of(generation) or max(map(len, known.values()), default=0)
            known = {digest: data for digest, data in known.items() if len(data) == length}
            self._put(generation, embedder, [(m.id, known[m.digest]) for m in missing if m.digest in known])
        return [m for m in missing if m.digest not in known]

    def put_vectors(
        self, generation: Generation, embedder: Identity, vectors: Sequence[tuple[Missing, Sequence[float]]], *, now: int
    ) -> None:
        """See the protocol."""
        with self.database.writing():
            data = [(m, packed(vector)) for m, vector in vectors]
            self.vectors.keep(embedder, ((m.digest, d) for m, d in data), now=now)
            self._put(generation, embedder, [(m.id, d) for m, d in data])

    def adopt_vectors(
        self, generation: Generation, embedder: Identity, vectors: Sequence[tuple[bytes, Sequence[float]]], *, now: int
    ) -> None:
        """See the protocol."""
        data = {digest: packed(vector) for digest, vector in vectors}
        marks = ",".join("?" * len(data))
        sql = f"SELECT id, hash FROM chunks WHERE embedded = 0 AND id BETWEEN ? AND ? AND hash IN ({marks})"  # noqa: S608 - placeholders only
        with self.database.writing():
            self.vectors.keep(embedder, data.items(), now=now)
            waiting = list(self.database.rows(sql, (generation.first_id, generation.last_id, *data)))
            self._put(generation, embedder, [(id_, data[digest]) for id_, digest in waiting])

    def lines_missing(self, generation: Generation, limit: int) -> list[LinesMissing]:
        """See the protocol."""
        current = self._kept(generation)
        return self.lines.missing(current, limit) if current is not None and self._lines_count else []

    def put_lines(self, generation: Generation, lines: Sequence[tuple[LinesMissing, Sequence[Sequence[float] | None]]]) -> None:
        """See the protocol."""
        current = self._kept(generation)
        if current is not None:
            self.lines.put(current, lines)

    def evict(self) -> None:
        """See the protocol."""
        with self.database.writing():
            self.vectors.evict(g.embedder for g in (self.live, self.building()) if g is not None and g.dims)

    def refuse(self, refused: Sequence[tuple[Missing, str]], embedder: Identity, *, now: int) -> None:
        """See the protocol."""
        with self.database.writing():
            connection = self.database.connection
            connection.executemany(
                "UPDATE chunks SET embedded = 2 WHERE id = ? AND embedded = 0", [(m.id,) for m, _ in refused]
            )
            connection.executemany(
                "INSERT OR REPLACE INTO refusals VALUES (?, ?, ?, ?, ?, ?)", [(m.id, *embedder, now, why) for m, why in refused]
            )

    def reconsider(self, embedder: Identity | None, *, now: int) -> None:
        """See the protocol."""
        with self.database.writing():
            if embedder is None:
                self.database.connection.execute("DELETE FROM refusals")
            else:
                old = "DELETE FROM refusals WHERE at <= ? OR (provider, model, fingerprint) <> (?, ?, ?)"
                self.database.connection.execute(old, (now - REFUSED_FOR, *embedder))
            self.database.connection.execute(
                "UPDATE chunks SET embedded = 0 WHERE embedded = 2 AND id NOT IN (SELECT id FROM refusals)"
            )

    def refusals(self, limit: int) -> dict[str, str]:
        """See the protocol."""
        sql = """SELECT c.path, c.start_line, r.reason FROM refusals r JOIN chunks c ON c.id = r.id
                 WHERE c.embedded = 2 AND c.id BETWEEN ? AND ? ORDER BY c.path, c.start_line LIMIT ?"""
        rows = self.database.rows(sql, (self.live.first_id, self.live.last_id, limit))
        return {f"{path}:{line}": reason for path, line, reason in rows}

    def dims_of(self, generation: Generation) -> int:
        """See the protocol."""
        current = self._kept(generation)
        return current.dims if current is not None else 0

    def forget_vectors(self, generation: Generation, embedder: Identity) -> None:
        """See the protocol."""
        current = self._kept(generation)
        if current is None:
            return
        with self.database.writing():
            self.vectors.forget(embedder)
            bounds = (current.first_id, current.last_id)
            self.database.connection.execute("UPDATE chunks SET embedded = 0 WHERE id BETWEEN ? AND ?", bounds)
            role = "live" if current.number == self.live.number else "building"
            self.notes.keep(role, replace(current, provider="", model="", fingerprint="", dims=0))

    def _put(self, generation: Generation, embedder: Identity, rows: list[tuple[int, bytes]]) -> None:
        """Store vectors; the first one sets the length of the table. Chunks that were deleted meanwhile are skipped."""
        current = self._kept(generation)
        if current is None or not rows:
            return
        if not current.dims:
            role = "live" if current.number == self.live.number else "building"
            provider, model, fingerprint = embedder
            current = replace(current, provider=provider, model=model, fingerprint=fingerprint, dims=len(rows[0][1]))
            self.notes.keep(role, current)
        asked = f"SELECT id FROM chunks WHERE embedded = 0 AND id IN ({','.join('?' * len(rows))})"  # noqa: S608 - placeholders only
        still = {id_ for (id_,) in self.database.rows(asked, tuple(id_ for id_, _ in rows))}
        fitting = [row for row in rows if row[0] in still and len(row[1]) == current.dims]
        self.vectors.put(current, fitting)
        self.lines.changed(current, [id_ for id_, _ in fitting])
        self.database.connection.executemany("UPDATE chunks SET embedded = 1 WHERE id = ?", [(row[0],) for row in fitting])

    def _kept(self, generation: Generation) -> Generation | None:
        """Return the current state of a generation; None if it was dropped."""
        return next((g for g in (self.live, self.building()) if g and g.number == generation.number), None)
