"""The search index of one agent: generations, lookups and missing vectors. Everything here runs on the index thread."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memory.embedding.identity import Identity
from memory.settings import MemorySettings
from memory.store.candidates import AnswerCosines, Candidate, Lookup
from memory.store.chunk_store import INDEXING_VERSION, ChunkStore, Generation
from memory.store.database import AllowedFeatures, Database
from memory.store.keyword_index import KeywordIndex
from memory.store.vector_matrix import packed
from memory.store.vector_store import VectorStore
from memory.text.chunks import is_only_headings
from memory.text.dates import Span
from memory.text.terms import Terms

_FEW = 20
_MISSING_SHARE = 0.1
_MOST_DATED = 60
_LONGEST_SPAN = 31
_COLUMNS = "id, path, source, start_line, end_line, part, day, text, header, embedded"

DONE = 1
"""Value of ``chunks.embedded`` for a chunk with a vector; 0: no vector yet, 2: the embedder refused it."""

_BARE = 0.1
"""Factor for the keyword score of headings without text, so that they rank below notes with content."""

_ANSWERS = "answers"
"""Key of ``meta`` with the cosines that answers had."""
_WRITTEN_EVERY = 20

_REFUSED_FOR = 86_400
"""Seconds after which a refused text is embedded again."""


class Missing(Struct, frozen=True, kw_only=True):
    """A chunk without a vector, and the text to embed."""

    id: int
    digest: bytes
    text: str


class Index:
    """One agent's index file, open."""

    def __init__(self, database: Database, settings: MemorySettings) -> None:
        self.database = database
        self.notes = ChunkStore(database)
        self.keywords = KeywordIndex(database, self.notes)
        self.vectors = VectorStore(database, most_unused=settings.cache.max_entries if settings.cache.enabled else 0)
        self.answers = AnswerCosines()
        self.notes.on_drop = self.vectors.removed
        self._settings = settings
        self._learned = 0

    @classmethod
    def open(cls, path: Path, settings: MemorySettings, *, now: datetime, parts: AllowedFeatures | None = None) -> Index:
        """Open the file, with a live generation in it.

        Raises:
            IndexBroken: no index file can be used at this path.
        """
        index = cls(Database.open(path, settings.store.vector, now=now, parts=parts), settings)
        with index.database.writing():
            live = index.notes.live()
            if live is None:
                chunking = settings.chunking
                index.notes.keep(
                    "live", Generation(index.notes.next_number(), chunking.tokens, chunking.overlap, rules=INDEXING_VERSION)
                )
        index._recall_answers()
        return index

    @property
    def live(self) -> Generation:
        """The generation that searches use."""
        live = self.notes.live()
        assert live is not None
        return live

    def plan(self, embedder: Identity | None) -> list[Generation]:
        """Start, continue or drop the generation that fits the settings; return all that must be kept up to date, live first."""
        live, building = self.live, self.notes.building()
        chunking = (self._settings.chunking.tokens, self._settings.chunking.overlap)
        other_vectors = embedder is not None and live.dims > 0 and live.embedder != embedder and self.vectors.usable
        wanted = (live.tokens, live.overlap, live.rules) != (*chunking, INDEXING_VERSION) or other_vectors
        if building is not None and (not wanted or not self._serves(building, chunking, embedder)):
            self._give_up()
            building = None
        if wanted and building is None:
            with self.database.writing():
                building = Generation(self.notes.next_number(), *chunking, rules=INDEXING_VERSION)
                self.notes.keep("building", building)
        return [live] if building is None else [live, building]

    def switch(self) -> None:
        """Make the new generation the live one, in one transaction."""
        new = self.notes.building()
        if new is None:
            return
        with self.database.writing():
            self.notes.keep("live", new)
            self.notes.keep("building", None)
            self.vectors.release()
            self.database.connection.execute("INSERT OR REPLACE INTO meta VALUES ('sweeping', '1')")

    def sweep(self, limit: int = 500) -> bool:
        """Delete some rows of old generations; return whether more are left."""
        if not self.database.one("SELECT 1 FROM meta WHERE key = 'sweeping'"):
            return False
        return self.notes.sweep([g for g in (self.live, self.notes.building()) if g], limit)

    def missing(self, generation: Generation, limit: int) -> list[Missing]:
        """Return chunks that have no vector yet, oldest first."""
        sql = "SELECT id, hash, header, text FROM chunks WHERE embedded = 0 AND id BETWEEN ? AND ? ORDER BY id LIMIT ?"
        rows = self.database.rows(sql, (generation.first_id, generation.last_id, limit))
        return [Missing(id=id_, digest=digest, text=f"{head}\n{text}" if head else text) for id_, digest, head, text in rows]

    def missing_count(self, generation: Generation) -> int:
        """How many chunks have no vector yet."""
        sql = "SELECT count(*) FROM chunks WHERE embedded = 0 AND id BETWEEN ? AND ?"
        return int(self.database.one(sql, (generation.first_id, generation.last_id)))

    def fill_from_cache(
        self, generation: Generation, embedder: Identity, missing: Sequence[Missing], *, now: int
    ) -> list[Missing]:
        """Take up the vectors of chunks whose texts were embedded before; return the other chunks."""
        with self.database.writing():
            known = self.vectors.find(embedder, [m.digest for m in missing], now=now)
            length = self.dims_of(generation) or max(map(len, known.values()), default=0)
            known = {digest: data for digest, data in known.items() if len(data) == length}
            self._put(generation, embedder, [(m.id, known[m.digest]) for m in missing if m.digest in known])
        return [m for m in missing if m.digest not in known]

    def put_vectors(
        self, generation: Generation, embedder: Identity, vectors: Sequence[tuple[Missing, Sequence[float]]], *, now: int
    ) -> None:
        """Store new vectors, also those of chunks that were deleted meanwhile."""
        with self.database.writing():
            data = [(m, packed(vector)) for m, vector in vectors]
            self.vectors.keep(embedder, ((m.digest, d) for m, d in data), now=now)
            self._put(generation, embedder, [(m.id, d) for m, d in data])

    def adopt_vectors(
        self, generation: Generation, embedder: Identity, vectors: Sequence[tuple[bytes, Sequence[float]]], *, now: int
    ) -> None:
        """Store vectors of an earlier batch job, by the hash of their texts."""
        data = {digest: packed(vector) for digest, vector in vectors}
        marks = ",".join("?" * len(data))
        sql = f"SELECT id, hash FROM chunks WHERE embedded = 0 AND id BETWEEN ? AND ? AND hash IN ({marks})"  # noqa: S608 - placeholders only
        with self.database.writing():
            self.vectors.keep(embedder, data.items(), now=now)
            waiting = list(self.database.rows(sql, (generation.first_id, generation.last_id, *data)))
            self._put(generation, embedder, [(id_, data[digest]) for id_, digest in waiting])

    def evict(self) -> None:
        """Delete vectors that no chunk needs, beyond the number that may be kept."""
        with self.database.writing():
            self.vectors.evict(g.embedder for g in (self.live, self.notes.building()) if g is not None and g.dims)

    def refuse(self, refused: Sequence[tuple[Missing, str]], embedder: Identity, *, now: int) -> None:
        """Mark chunks that the embedder refused, with the reason. They are found by keyword, and embedded again in a day."""
        with self.database.writing():
            connection = self.database.connection
            connection.executemany(
                "UPDATE chunks SET embedded = 2 WHERE id = ? AND embedded = 0", [(m.id,) for m, _ in refused]
            )
            connection.executemany(
                "INSERT OR REPLACE INTO refusals VALUES (?, ?, ?, ?, ?, ?)", [(m.id, *embedder, now, why) for m, why in refused]
            )

    def reconsider(self, embedder: Identity | None, *, now: int) -> None:
        """Make refused chunks eligible again: after a day, or for another embedder; all of them if ``embedder`` is None."""
        with self.database.writing():
            if embedder is None:
                self.database.connection.execute("DELETE FROM refusals")
            else:
                old = "DELETE FROM refusals WHERE at <= ? OR (provider, model, fingerprint) <> (?, ?, ?)"
                self.database.connection.execute(old, (now - _REFUSED_FOR, *embedder))
            self.database.connection.execute(
                "UPDATE chunks SET embedded = 0 WHERE embedded = 2 AND id NOT IN (SELECT id FROM refusals)"
            )

    def refusals(self, limit: int) -> dict[str, str]:
        """Return why chunks of the live generation were refused, by path and line."""
        sql = """SELECT c.path, c.start_line, r.reason FROM refusals r JOIN chunks c ON c.id = r.id
                 WHERE c.embedded = 2 AND c.id BETWEEN ? AND ? ORDER BY c.path, c.start_line LIMIT ?"""
        rows = self.database.rows(sql, (self.live.first_id, self.live.last_id, limit))
        return {f"{path}:{line}": reason for path, line, reason in rows}

    def dims_of(self, generation: Generation) -> int:
        """Return how long a generation's vectors are; 0 while it has none."""
        current = self._kept(generation)
        return current.dims if current is not None else 0

    def forget_vectors(self, generation: Generation, embedder: Identity) -> None:
        """Delete the vectors of an embedder, because the model behind the name has changed."""
        current = self._kept(generation)
        if current is None:
            return
        with self.database.writing():
            self.vectors.forget(embedder)
            bounds = (current.first_id, current.last_id)
            self.database.connection.execute("UPDATE chunks SET embedded = 0 WHERE id BETWEEN ? AND ?", bounds)
            role = "live" if current.number == self.live.number else "building"
            self.notes.keep(role, replace(current, provider="", model="", fingerprint="", dims=0))

    def answers_by_vector(self, embedder: Identity | None) -> bool:
        """Whether the live generation has vectors of this embedder for all but a few chunks."""
        live = self.live
        if embedder is None or not live.dims or live.embedder != embedder or not self.vectors.usable:
            return False
        total = self.keywords.total()
        allowed = max(min(_FEW, total // 2), int(total * _MISSING_SHARE))
        sql = "SELECT count(*) FROM (SELECT 1 FROM chunks WHERE embedded = 0 AND id BETWEEN ? AND ? LIMIT ?)"
        return bool(self.database.one(sql, (live.first_id, live.last_id, allowed + 1)) <= allowed)

    def lookup(
        self,
        terms: Terms,
        vector: Sequence[float] | None,
        *,
        days: Sequence[Span],
        audience: str | None,
        limit: int,
        floor: float = 0.0,
    ) -> Lookup:
        """Return candidates from the keyword and vector indexes, with their texts, and notes of the days in the query."""
        live = self.live
        words = self.keywords.search(terms, live, audience=audience, limit=limit, floor=floor)
        cosines = self.vectors.search(vector, live, audience=audience, limit=limit) if vector is not None else {}
        ids = {*words.scores, *cosines, *self._dated(live, days, audience)}
        candidates = self.fetch(sorted(ids))
        for candidate in candidates:
            candidate.keyword = words.scores.get(candidate.id)
            if candidate.keyword is not None and is_only_headings(candidate.text):
                candidate.keyword *= _BARE
            candidate.vector = cosines.get(candidate.id)
        scan = self.vectors.scan_of(live) if vector is not None else "none"
        return Lookup(
            candidates=candidates,
            coverage=words.coverage,
            total=self.keywords.total(),
            scan=scan,
            weights=words.weights,
            languages=self.notes.languages(),
            alike=words.alike,
        )

    def learn_answer(self, cosine: float) -> None:
        """Record the best cosine of a query that was answered by keywords. Some are written down, for the next start."""
        self.answers.learn(self.live.embedder, cosine)
        self._learned += 1
        if self._learned % _WRITTEN_EVERY == 0:
            self._write_answers()

    def _write_answers(self) -> None:
        with self.database.writing():
            told = json.dumps({"embedder": self.live.embedder, "cosines": [round(one, 4) for one in self.answers.known()]})
            self.database.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_ANSWERS, told))

    def texts(self, count: int) -> list[str]:
        """Return the texts of some notes, spread over all of them and the same every time."""
        live = self.live
        sql = "SELECT id FROM chunks WHERE id BETWEEN ? AND ? AND source = 'memory' AND embedded = 1 ORDER BY id"
        ids = [id_ for (id_,) in self.database.rows(sql, (live.first_id, live.last_id))]
        return [chunk.text for chunk in self.fetch(ids[:: max(1, len(ids) // count)][:count])]

    def best_cosine(self, vector: Sequence[float]) -> float | None:
        """Return the cosine of the nearest chunk, or None."""
        return max(self.vectors.search(vector, self.live, audience=None, limit=1).values(), default=None)

    def learn_answers(self, embedder: Identity, cosines: Sequence[float]) -> None:
        """Take these as cosines of answers, and write them down."""
        if self.live.embedder == embedder:
            for cosine in cosines:
                self.answers.learn(embedder, cosine)
            self._write_answers()

    def _recall_answers(self) -> None:
        value = self.database.one("SELECT value FROM meta WHERE key = ?", (_ANSWERS,))
        if value:
            told = json.loads(value)
            self.answers.recall(tuple(told["embedder"]), told["cosines"])

    def fetch(self, ids: Sequence[int]) -> list[Candidate]:
        """Return chunks by id, with their texts."""
        marks = ",".join("?" * len(ids))
        rows = self.database.rows(f"SELECT {_COLUMNS} FROM chunks WHERE id IN ({marks})", tuple(ids))  # noqa: S608 - placeholders only
        return [_candidate(*row) for row in rows]

    def at_line(self, path: str, line: int) -> list[Candidate]:
        """Return the live chunks that contain a line of a file."""
        live = self.live
        sql = f"SELECT {_COLUMNS} FROM chunks WHERE path = ? AND id BETWEEN ? AND ? AND start_line <= ? AND end_line >= ?"  # noqa: S608 - constant
        return [_candidate(*row) for row in self.database.rows(sql, (path, live.first_id, live.last_id, line, line))]

    def close(self) -> None:
        """Close the file."""
        self.database.close()

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
        still = [row for row in rows if self.database.one("SELECT 1 FROM chunks WHERE id = ? AND embedded = 0", (row[0],))]
        fitting = [row for row in still if len(row[1]) == current.dims]
        self.vectors.put(current, fitting)
        self.database.connection.executemany("UPDATE chunks SET embedded = 1 WHERE id = ?", [(row[0],) for row in fitting])

    def _kept(self, generation: Generation) -> Generation | None:
        """Return the current state of a generation; None if it was dropped."""
        return next((g for g in (self.live, self.notes.building()) if g and g.number == generation.number), None)

    def _serves(self, building: Generation, chunking: tuple[int, int], embedder: Identity | None) -> bool:
        fits_vectors = not building.dims or building.embedder == embedder
        return (building.tokens, building.overlap, building.rules) == (*chunking, INDEXING_VERSION) and fits_vectors

    def _give_up(self) -> None:
        with self.database.writing():
            self.notes.keep("building", None)
            self.vectors.release()
            self.database.connection.execute("INSERT OR REPLACE INTO meta VALUES ('sweeping', '1')")

    def _dated(self, live: Generation, days: Sequence[Span], audience: str | None) -> list[int]:
        ids: list[int] = []
        for span in days:
            if span.days > _LONGEST_SPAN:
                continue
            where = "day BETWEEN ? AND ? AND id BETWEEN ? AND ?"
            after = timedelta(days=span.days == 1)  # what is told the day after
            bindings: list[Any] = [span.first.isoformat(), (span.last + after).isoformat(), live.first_id, live.last_id]
            if audience is not None:
                where += " AND audience = ?"
                bindings.append(audience)
            sql = f"SELECT id FROM chunks WHERE {where} ORDER BY day DESC, id LIMIT ?"  # noqa: S608 - constants only
            ids += [row[0] for row in self.database.rows(sql, (*bindings, _MOST_DATED))]
        return ids


def _candidate(*row: Any) -> Candidate:
    id_, path, source, start, end, part, day, text, head, embedded = row
    return Candidate(
        id=id_,
        path=path,
        source=source,
        start_line=start,
        end_line=end,
        part=part,
        day=date.fromisoformat(day) if day else None,
        text=text,
        header=head,
        embedded=embedded == DONE,
    )
