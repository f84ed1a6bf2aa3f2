"""The index of one agent in PostgreSQL: generations, lookups and batch jobs. Everything here runs on the index thread."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from memory.embedding.batch.protocol import BatchJob
from memory.embedding.identity import Identity
from memory.notes.sources import EVERYBODY, Source
from memory.settings import MemorySettings
from memory.store.candidates import BARE, MOST_DATED, MOST_TOLD_LATER, AnswerCosines, Candidate, Lookup
from memory.store.followed_files import FollowedFiles
from memory.store.generations import Generation, IndexedFile, allowed_missing
from memory.store.index import SWEPT, Features, FileChange, IndexCounts, Stored
from memory.store.postgres.connections import Connection, Connections
from memory.store.postgres.embedded_rows import EmbeddedRows
from memory.store.postgres.generation_rows import GenerationRows
from memory.store.postgres.word_search import WordSearch
from memory.text.chunks import is_only_headings
from memory.text.dates import Span, day_after, evenly, of_each_day, spread
from memory.text.terms import Terms

_WRITTEN_EVERY: Final = 20
_CHUNK: Final = """
SELECT c.id, c.path, c.source, c.start_line, c.end_line, c.part, c.day, c.text, c.header,
       NOT EXISTS (SELECT 1 FROM waiting w WHERE w.id = c.id) AND NOT EXISTS (SELECT 1 FROM refusal r WHERE r.id = c.id)
FROM chunk c WHERE
"""
_DAYS: Final = """
WITH RECURSIVE noted (day) AS (
    SELECT min(day) FROM chunk WHERE day BETWEEN %s AND %s
    UNION ALL SELECT (SELECT min(day) FROM chunk WHERE day > noted.day AND day <= %s) FROM noted WHERE day IS NOT NULL
) SELECT day FROM noted WHERE day IS NOT NULL
"""
"""The days of a time that have notes, each found in the index of days without a look at the others' chunks."""
_OF_DAYS: Final = """
SELECT noted.day, c.id FROM unnest(%s::date[]) AS noted (day) CROSS JOIN LATERAL (
    SELECT id FROM chunk WHERE day = noted.day AND id BETWEEN %s AND %s AND (%s::text IS NULL OR audience IN (%s, %s)) ORDER BY id LIMIT %s
) AS c
"""
_JOB: Final = "token, job, provider, model, fingerprint, texts, at"


class PostgresIndex(EmbeddedRows):
    """Implements ``Index`` for an agent, on tables that exist."""

    def __init__(self, connections: Connections, agent: str, settings: MemorySettings, features: Features) -> None:
        cache = settings.cache
        rows = GenerationRows(connections, agent)
        super().__init__(
            connections,
            rows,
            usable=features.vectors != "none",
            lines=settings.query.fused.line_vector_weight > 0,
            most_unused=cache.max_entries if cache.enabled else 0,
        )
        self.where = f"{connections.where}, agent {agent}"
        self.features = features
        self.answers = AnswerCosines()
        self._chunking = settings.chunking.tokens, settings.chunking.overlap
        self._words = WordSearch(connections)
        self._learned = 0
        self._followed = FollowedFiles(lambda: rows.now().changes)
        self.last_followed, self.follows, self.set_followed = self._followed.last, self._followed.still, self._followed.remember
        rows.ensure_live(*self._chunking)
        if answers := rows.now().answers:
            known = json.loads(answers)
            self.answers.recall(tuple(known["embedder"]), known["cosines"])

    @property
    def live(self) -> Generation:
        """See the protocol."""
        return self._rows.now().live

    def building(self) -> Generation | None:
        """See the protocol."""
        return self._rows.now().building

    def dims_of(self, generation: Generation) -> int:
        """See the protocol."""
        kept = self._rows.now().kept(generation)
        return kept.dims if kept else 0

    def plan(self, embedder: Identity | None) -> list[Generation]:
        """See the protocol."""
        with self._rows.changing() as connection:
            state = self._rows.state(connection)
            live, building = state.live, state.building
            other_vectors = embedder is not None and live.dims > 0 and live.embedder != embedder and self._usable
            wanted = not live.is_cut(*self._chunking) or other_vectors
            if building is not None and not (wanted and self._serves(building, embedder)):
                connection.execute("UPDATE generation SET role = 'old' WHERE number = %s", (building.number,))
                building = None
            if wanted and building is None:
                building = self._rows.add_generation(connection, "building", *self._chunking)
        return [live] if building is None else [live, building]

    def switch(self) -> None:
        """See the protocol."""
        with self._rows.changing() as connection:
            building = self._rows.state(connection).building
            if building is not None:
                old = "UPDATE generation SET role = 'old' WHERE agent = %s AND role = 'live'"
                connection.execute(old, (self._rows.agent,))
                connection.execute("UPDATE generation SET role = 'live' WHERE number = %s", (building.number,))

    def sweep(self, limit: int = SWEPT) -> bool:
        """See the protocol."""
        with self._connections.reading() as connection:
            sql = "SELECT 1 FROM generation WHERE agent = %s AND role = 'old'"
            if connection.execute(sql, (self._rows.agent,)).fetchone() is None:
                return False
        self._changed = True
        return self._rows.sweep(limit)

    def filed(self, generation: Generation, source: Source, paths: Sequence[str] | None = None) -> dict[str, IndexedFile]:
        """See the protocol."""
        return self._rows.filed(generation, source, paths)

    def file_count(self, generation: Generation, source: Source) -> int:
        """See the protocol."""
        return self._rows.file_count(generation, source)

    def file_paths(self, generation: Generation, source: Source) -> set[str]:
        """See the protocol."""
        return self._rows.file_paths(generation, source)

    def store(self, generation: Generation, changes: Sequence[FileChange]) -> Stored:
        """See the protocol."""
        self._changed = True
        self._followed.forget()  # changes of this process are counted as those of others are
        return self._rows.store(generation, changes)

    def remove(self, generation: Generation, paths: Sequence[str]) -> None:
        """See the protocol."""
        self._changed = True
        self._followed.forget()
        self._rows.remove(generation, paths)

    def forget_files(self) -> None:
        """See the protocol."""
        self._rows.forget_files()

    def answers_by_vector(self, embedder: Identity | None) -> bool:
        """See the protocol."""
        state = self._rows.now()
        live = state.live
        if embedder is None or not live.dims or live.embedder != embedder or not self._usable:
            return False
        allowed = allowed_missing(state.totals.chunks)
        return self.missing_count(live, allowed + 1) <= allowed

    def load_slice(self) -> bool:
        """See the protocol. Nothing is held in RAM."""
        return False

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
        """See the protocol."""
        state = self._rows.now()
        live = state.live
        with self._connections.reading() as connection:
            words = self._words.search(connection, state, terms, audience=audience, limit=limit, floor=floor)
            cosines = self.nearest(connection, live, vector, audience=audience, limit=limit) if vector is not None else {}
            dated = self._dated(connection, live, days, audience)
            ids = sorted({*words.scores, *cosines, *dated})
            candidates = self._fetch(connection, ids)
            lines = self.nearest_lines(connection, live, vector, ids) if cosines and vector is not None else {}
        for candidate in candidates:
            candidate.keyword = words.scores.get(candidate.id)
            if candidate.keyword is not None and is_only_headings(candidate.text):
                candidate.keyword *= BARE
            candidate.vector = cosines.get(candidate.id)
            candidate.lines = lines.get(candidate.id)
        return Lookup(
            candidates=candidates,
            coverage=words.coverage,
            total=state.totals.chunks,
            scan="pgvector" if vector is not None and self._usable and live.dims else "none",
            weights=words.weights,
            languages=state.languages,
            alike=words.alike,
        )

    def at_line(self, path: str, line: int) -> list[Candidate]:
        """See the protocol."""
        with self._connections.reading() as connection:
            live = self._rows.state(connection).live
            where = "c.path = %s AND c.id BETWEEN %s AND %s AND c.start_line <= %s AND c.end_line >= %s"
            return _candidates(
                connection.execute(f"{_CHUNK} {where}".encode(), (path, live.first_id, live.last_id, line, line))
            )

    def texts(self, count: int) -> list[str]:
        """See the protocol."""
        sql = """SELECT id FROM chunk c WHERE id BETWEEN %s AND %s AND source = 'memory'
                 AND NOT EXISTS (SELECT 1 FROM waiting w WHERE w.id = c.id) AND NOT EXISTS (SELECT 1 FROM refusal r WHERE r.id = c.id)
                 ORDER BY id"""
        with self._connections.reading() as connection:
            live = self._rows.state(connection).live
            ids = [id_ for (id_,) in connection.execute(sql, (live.first_id, live.last_id))]
            return [one.text for one in self._fetch(connection, ids[:: max(1, len(ids) // count)][:count])]

    def best_cosine(self, vector: Sequence[float]) -> float | None:
        """See the protocol."""
        with self._connections.reading() as connection:
            live = self._rows.state(connection).live
            return max(self.nearest(connection, live, vector, audience=None, limit=1).values(), default=None)

    def learn_answer(self, cosine: float) -> None:
        """See the protocol."""
        live = self.live
        self.answers.learn(live.embedder, cosine)
        self._learned += 1
        if self._learned % _WRITTEN_EVERY == 0:
            self._write_answers(live.embedder)

    def learn_answers(self, embedder: Identity, cosines: Sequence[float]) -> None:
        """See the protocol."""
        if self.live.embedder == embedder:
            for cosine in cosines:
                self.answers.learn(embedder, cosine)
            self._write_answers(embedder)

    def pending_jobs(self, embedder: Identity) -> list[BatchJob]:
        """See the protocol."""
        sql = f"SELECT {_JOB} FROM batch_job WHERE agent = %s AND (provider, model, fingerprint) = (%s, %s, %s) ORDER BY at"  # noqa: S608 - constant
        with self._connections.reading() as connection:
            rows = connection.execute(sql.encode(), (self._rows.agent, *embedder)).fetchall()
        names = _JOB.split(", ")
        return [
            BatchJob(
                **dict(zip(names[:5], row[:5], strict=True)), texts=tuple(json.loads(row[5])), at=datetime.fromisoformat(row[6])
            )
            for row in rows
        ]

    def keep_job(self, record: BatchJob) -> None:
        """See the protocol."""
        sql = f"""INSERT INTO batch_job (agent, {_JOB}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
                  ON CONFLICT (agent, token) DO UPDATE SET job = excluded.job, texts = excluded.texts, at = excluded.at"""  # noqa: S608 - constant
        row = (record.token, record.job, record.provider, record.model, record.fingerprint)
        with self._connections.writing() as connection:
            connection.execute(sql.encode(), (self._rows.agent, *row, json.dumps(record.texts), record.at.isoformat()))

    def close_job(self, token: str) -> None:
        """See the protocol."""
        with self._connections.writing() as connection:
            connection.execute("DELETE FROM batch_job WHERE agent = %s AND token = %s", (self._rows.agent, token))

    def counts(self) -> IndexCounts:
        """See the protocol."""
        sql = """SELECT (SELECT count(*) FROM waiting WHERE id BETWEEN %s AND %s),
                        (SELECT count(*) FROM refusal WHERE id BETWEEN %s AND %s),
                        (SELECT count(*) FROM batch_job WHERE agent = %s),
                        (SELECT chunks FROM generation WHERE agent = %s AND role = 'building')"""
        with self._connections.reading() as connection:
            state = self._rows.state(connection)
            bounds, agent = (state.live.first_id, state.live.last_id), self._rows.agent
            row = connection.execute(sql, (*bounds, *bounds, agent, agent)).fetchone() or (0, 0, 0, 0)
            stored, of_lines = self.size(connection), self.size_of_lines(connection, state.live.dims)
        chunks, (waiting, refused, jobs, building) = state.totals.chunks, row
        return IndexCounts(
            chunks=chunks,
            vectors=chunks - waiting - refused,
            refused=refused,
            cached_vectors=stored,
            line_vectors=of_lines,
            pending_jobs=jobs,
            building_chunks=building or 0,
        )

    def fold_in(self) -> None:
        """See the protocol. What was added to the index of words since is put into its place, and the planner is told what there is."""
        self._rows.forget_known_words()
        with self._connections.reading() as connection:
            connection.execute("SELECT gin_clean_pending_list('word_list_by_word')")
            connection.execute("ANALYZE chunk; ANALYZE word_list" + "; ANALYZE vector; ANALYZE line_vectors" * self._usable)

    def leave_no_trace(self) -> None:
        """See the protocol. Tables are written anew; copies in PostgreSQL's log and backups are its owner's."""
        self._rows.renew_vocabulary()
        with self._connections.reading() as connection:
            for table in ("chunk", "word_list", "vocabulary", "refusal", *("line_vectors", "vector") * self._usable):
                connection.execute(f"VACUUM FULL {table}".encode())

    def close(self) -> None:
        """See the protocol."""
        self._connections.detach()

    def _serves(self, building: Generation, embedder: Identity | None) -> bool:
        return building.is_cut(*self._chunking) and (not building.dims or building.embedder == embedder)

    def _write_answers(self, embedder: Identity) -> None:
        value = json.dumps({"embedder": embedder, "cosines": [round(one, 4) for one in self.answers.known()]})
        with self._connections.writing() as connection:
            connection.execute("UPDATE agent SET answers = %s WHERE id = %s", (value, self._rows.agent))

    def _fetch(self, connection: Connection, ids: Sequence[int]) -> list[Candidate]:
        return _candidates(connection.execute(f"{_CHUNK} c.id = ANY (%s) ORDER BY c.id".encode(), (list(ids),)))

    def _dated(self, connection: Connection, live: Generation, days: Sequence[Span], audience: str | None) -> list[int]:
        within = live.first_id, live.last_id
        ids: list[int] = []
        for span in days:
            if span.days == 1:
                for day, most in ((span.first, MOST_DATED), (day_after(span.last), MOST_TOLD_LATER)):
                    ids += [
                        id_ for _, id_ in connection.execute(_OF_DAYS, ([day], *within, audience, audience, EVERYBODY, most))
                    ]
            elif audience is not None:
                sql = "SELECT day, id FROM chunk WHERE day BETWEEN %s AND %s AND id BETWEEN %s AND %s AND audience IN (%s, %s) ORDER BY id"
                ids += spread(connection.execute(sql, (span.first, span.last, *within, audience, EVERYBODY)), MOST_DATED)
            else:
                with_notes = [day for (day,) in connection.execute(_DAYS, (span.first, span.last, span.last))]
                chosen, each = evenly(with_notes, MOST_DATED), of_each_day(len(with_notes), MOST_DATED)
                ids += spread(connection.execute(_OF_DAYS, (chosen, *within, None, None, None, each)), MOST_DATED)
        return ids


def _candidates(rows: Any) -> list[Candidate]:
    names = ("id", "path", "source", "start_line", "end_line", "part", "day", "text", "header", "embedded")
    return [Candidate(**dict(zip(names, row, strict=True))) for row in rows]
