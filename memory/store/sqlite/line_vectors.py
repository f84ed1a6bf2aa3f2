"""Vectors of the lines of passages, which decide between the candidates of a search."""

from __future__ import annotations

from collections.abc import Sequence

from memory.store.candidates import LineCosines
from memory.store.generations import Generation, LinesMissing
from memory.store.packed_vectors import line_cosines, packed
from memory.store.sqlite.index_database import Database
from memory.text.line_groups import MOST_GROUPS, group_texts

_SHIFT = 8
"""The id of a line's vector is that of its passage's vector, shifted left by this, plus its number from 1. Number 0, which is empty,
says that the lines of a passage are done."""
_SLICE = 500
assert MOST_GROUPS < 1 << _SHIFT


class LineVectors:
    """Stores the vectors of lines beside those of their passages, which they leave with. Only notes have them, not transcripts."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._looked_at: dict[int, int] = {}

    def changed(self, generation: Generation, ids: Sequence[int]) -> None:
        """Look again at chunks that have a vector now."""
        if ids:
            self._looked_at[generation.number] = min(min(ids) - 1, self._looked_at.get(generation.number, min(ids)))

    def missing(self, generation: Generation, limit: int) -> list[LinesMissing]:
        """Return passages with a vector whose lines have none. What was looked at and needs nothing is not looked at again."""
        sql = """SELECT c.id, v.id, c.text FROM chunks c LEFT JOIN vectors v ON v.hash = c.hash AND c.embedded = 1
                     AND c.source = 'memory' AND v.embedder =
                     (SELECT id FROM embedders WHERE provider = ? AND model = ? AND fingerprint = ?)
                     AND NOT EXISTS (SELECT 1 FROM line_vectors l WHERE l.id = v.id << ?)
                 WHERE c.id > ? AND c.id <= ? ORDER BY c.id LIMIT ?"""
        found: dict[int, LinesMissing] = {}
        while generation.dims and not found:
            after = self._looked_at.get(generation.number, generation.first_id - 1)
            rows = list(self._db.rows(sql, (*generation.embedder, _SHIFT, after, generation.last_id, _SLICE)))
            for id_, key, text in rows:
                if key and key not in found and (texts := group_texts(text)):
                    found[key] = LinesMissing(key=key, texts=texts)
                if not found:
                    self._looked_at[generation.number] = id_
                elif len(found) == limit:
                    break
            if len(rows) < _SLICE:
                break
        return list(found.values())

    def put(self, generation: Generation, lines: Sequence[tuple[LinesMissing, Sequence[Sequence[float] | None]]]) -> None:
        """Store the vectors of the lines of some passages; one that the embedder refused is None."""
        asked = f"SELECT id FROM vectors WHERE id IN ({','.join('?' * len(lines))})"  # noqa: S608 - placeholders only
        still = {id_ for (id_,) in self._db.rows(asked, tuple(one.key for one, _ in lines))}
        rows: list[tuple[int, bytes]] = []
        for one, vectors in lines:
            if one.key not in still:
                continue
            base = one.key << _SHIFT
            rows.append((base, b""))
            rows += [
                (base + number, packed(vector))
                for number, vector in enumerate(vectors, 1)
                if vector is not None and len(vector) == generation.dims
            ]
        with self._db.writing():
            self._db.connection.executemany("INSERT OR REPLACE INTO line_vectors VALUES (?, ?)", rows)

    def size(self) -> int:
        """Return how many vectors are stored."""
        return int(self._db.one("SELECT count(*) FROM line_vectors WHERE length(vector) > 0"))

    def cosines(self, query: Sequence[float], generation: Generation, ids: Sequence[int]) -> dict[int, LineCosines]:
        """Return how near the lines of these chunks are, of those that have vectors of lines."""
        sql = f"""SELECT c.id, l.vector FROM chunks c JOIN vectors v ON v.hash = c.hash AND v.embedder =
                      (SELECT id FROM embedders WHERE provider = ? AND model = ? AND fingerprint = ?)
                  JOIN line_vectors l ON l.id > (v.id << ?) AND l.id < ((v.id + 1) << ?) AND length(l.vector) = ?
                  WHERE c.id IN ({",".join("?" * len(ids))}) ORDER BY c.id, l.id"""  # noqa: S608 - placeholders only
        bindings = (*generation.embedder, _SHIFT, _SHIFT, generation.dims, *ids)
        fits = generation.dims and len(query) == generation.dims
        return line_cosines(query, list(self._db.rows(sql, bindings)) if fits else ())
