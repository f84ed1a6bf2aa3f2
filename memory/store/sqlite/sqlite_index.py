"""The index of one agent in an SQLite file: generations, lookups and missing vectors. Everything here runs on the index thread."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from memory.embedding.batch.protocol import BatchJob
from memory.embedding.identity import Identity
from memory.notes.sources import EVERYBODY
from memory.settings import MemorySettings
from memory.store.candidates import BARE, MOST_DATED, MOST_TOLD_LATER, AnswerCosines, Candidate, Lookup
from memory.store.generations import DONE, INDEXING_VERSION, Generation, allowed_missing
from memory.store.index import STORED, SWEPT, FileChange, IndexCounts, Stored, begun
from memory.store.sqlite.batch_jobs import BatchJobs
from memory.store.sqlite.embedded_chunks import EmbeddedChunks
from memory.store.sqlite.index_database import AllowedFeatures, Database
from memory.store.sqlite.keyword_index import KeywordIndex
from memory.text.chunks import is_only_headings
from memory.text.dates import Span, day_after, evenly, of_each_day, spread
from memory.text.terms import Terms

_DAYS = """
WITH RECURSIVE noted (day) AS (
    SELECT min(day) FROM chunks WHERE day BETWEEN ? AND ?
    UNION ALL SELECT (SELECT min(day) FROM chunks WHERE day > noted.day AND day <= ?) FROM noted WHERE day IS NOT NULL
) SELECT day FROM noted WHERE day IS NOT NULL
"""
"""The days of a time that have notes, each found in the index of days without a look at the others' chunks."""
_DAYS_OF_AUDIENCE = """
SELECT day, id FROM chunks WHERE day BETWEEN ? AND ? AND id BETWEEN ? AND ? AND audience IN (?, ?) AND audience <> '' ORDER BY id
"""
"""Those of one audience are few beside the owner's; the last condition is that of their index."""
_COLUMNS = "id, path, source, start_line, end_line, part, day, text, header, embedded"

_ANSWERS = "answers"
"""Key of ``meta`` with the cosines that answers had."""
_WRITTEN_EVERY = 20


class SqliteIndex(EmbeddedChunks):
    """Implements ``Index``: one agent's index file, open."""

    def __init__(self, database: Database, settings: MemorySettings) -> None:
        super().__init__(database, settings)
        self.features = database.drivers
        self._jobs = BatchJobs(database)
        self.keywords = KeywordIndex(database, self.notes)
        self.answers = AnswerCosines()
        self.filed, self.file_count, self.file_paths = self.notes.filed, self.notes.file_count, self.notes.file_paths
        self.last_followed, self.follows = self.notes.followed.last, self.notes.followed.still
        self.set_followed = self.notes.followed.remember
        self.remove, self.forget_files = self.notes.remove, self.notes.forget_files
        self._settings = settings
        self._learned = 0

    @classmethod
    def open(cls, path: Path, settings: MemorySettings, *, now: datetime, parts: AllowedFeatures | None = None) -> SqliteIndex:
        """Open the file, with a live generation in it.

        Raises:
            IndexBroken: no index file can be used at this path.
        """
        index = cls(Database.open(path, settings.store.vector, now=now, parts=parts), settings)
        if index.notes.generation("live") is None:
            index._begin()
        index._recall_answers()
        return index

    def _begin(self) -> None:
        with self.database.writing():
            if self.notes.generation("live") is None:  # no other process has been faster
                chunking = self._settings.chunking
                first = Generation(self.notes.next_number(), chunking.tokens, chunking.overlap, rules=INDEXING_VERSION)
                self.notes.keep("live", first)

    @property
    def where(self) -> str:
        """See the protocol."""
        return str(self.database.path)

    def store(self, generation: Generation, changes: Sequence[FileChange]) -> Stored:
        """See the protocol."""
        words = self.notes.words_of(generation, changes, STORED)  # before the transaction, which keeps other processes waiting
        new = done = 0
        with self.database.writing():
            for one in changes:
                if one.filed is None:
                    self.notes.remove(generation, [one.path])
                elif one.chunks is None:
                    self.notes.note(generation, one, one.filed)
                else:
                    added, complete = self.notes.put(generation, one, one.filed, words, most=STORED - new)
                    new += added
                    if not complete:
                        self.notes.note(generation, one, begun(one.filed))
                        break
                done += 1
        return Stored(new, done)

    def plan(self, embedder: Identity | None) -> list[Generation]:
        """See the protocol."""
        live, building = self.live, self.building()
        chunking = (self._settings.chunking.tokens, self._settings.chunking.overlap)
        other_vectors = embedder is not None and live.dims > 0 and live.embedder != embedder and self.vectors.usable
        wanted = not live.is_cut(*chunking) or other_vectors
        if building is not None and (not wanted or not self._serves(building, chunking, embedder)):
            self._give_up()
            building = None
        if wanted and building is None:
            with self.database.writing():
                building = Generation(self.notes.next_number(), *chunking, rules=INDEXING_VERSION)
                self.notes.keep("building", building)
        return [live] if building is None else [live, building]

    def switch(self) -> None:
        """See the protocol."""
        new = self.building()
        if new is None:
            return
        with self.database.writing():
            self.notes.keep("live", new)
            self.notes.keep("building", None)
            self.vectors.release()
            self.database.connection.execute("INSERT OR REPLACE INTO meta VALUES ('sweeping', '1')")

    def sweep(self, limit: int = SWEPT) -> bool:
        """See the protocol."""
        if not self.database.one("SELECT 1 FROM meta WHERE key = 'sweeping'"):
            return False
        return self.notes.sweep([g for g in (self.live, self.building()) if g], limit)

    def answers_by_vector(self, embedder: Identity | None) -> bool:
        """See the protocol."""
        live = self.live
        if embedder is None or not live.dims or live.embedder != embedder or not self.vectors.usable:
            return False
        allowed = allowed_missing(self.keywords.total())
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
        """See the protocol."""
        live = self.live
        words = self.keywords.search(terms, live, audience=audience, limit=limit, floor=floor)
        cosines = self.vectors.search(vector, live, audience=audience, limit=limit) if vector is not None else {}
        ids = {*words.scores, *cosines, *self._dated(live, days, audience)}
        candidates = self.fetch(sorted(ids))
        lines = self.lines.cosines(vector, live, sorted(ids)) if cosines and vector is not None and self._lines_count else {}
        for candidate in candidates:
            candidate.keyword = words.scores.get(candidate.id)
            if candidate.keyword is not None and is_only_headings(candidate.text):
                candidate.keyword *= BARE
            candidate.vector = cosines.get(candidate.id)
            candidate.lines = lines.get(candidate.id)
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
        """See the protocol."""
        self.answers.learn(self.live.embedder, cosine)
        self._learned += 1
        if self._learned % _WRITTEN_EVERY == 0:
            import apsw

            with contextlib.suppress(apsw.BusyError):  # a search waits for no other process; they are written later
                self._write_answers(wait=False)

    def _write_answers(self, *, wait: bool = True) -> None:
        with self.database.writing(wait=wait):
            value = json.dumps({"embedder": self.live.embedder, "cosines": [round(one, 4) for one in self.answers.known()]})
            self.database.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_ANSWERS, value))

    def texts(self, count: int) -> list[str]:
        """See the protocol."""
        live = self.live
        sql = "SELECT id FROM chunks WHERE id BETWEEN ? AND ? AND source = 'memory' AND embedded = 1 ORDER BY id"
        ids = [id_ for (id_,) in self.database.rows(sql, (live.first_id, live.last_id))]
        return [chunk.text for chunk in self.fetch(ids[:: max(1, len(ids) // count)][:count])]

    def best_cosine(self, vector: Sequence[float]) -> float | None:
        """See the protocol."""
        return max(self.vectors.search(vector, self.live, audience=None, limit=1).values(), default=None)

    def learn_answers(self, embedder: Identity, cosines: Sequence[float]) -> None:
        """See the protocol."""
        if self.live.embedder == embedder:
            for cosine in cosines:
                self.answers.learn(embedder, cosine)
            self._write_answers()

    def _recall_answers(self) -> None:
        value = self.database.one("SELECT value FROM meta WHERE key = ?", (_ANSWERS,))
        if value:
            fields = json.loads(value)
            self.answers.recall(tuple(fields["embedder"]), fields["cosines"])

    def fetch(self, ids: Sequence[int]) -> list[Candidate]:
        """Return chunks by id, with their texts."""
        marks = ",".join("?" * len(ids))
        rows = self.database.rows(f"SELECT {_COLUMNS} FROM chunks WHERE id IN ({marks})", tuple(ids))  # noqa: S608 - placeholders only
        return [_candidate(*row) for row in rows]

    def at_line(self, path: str, line: int) -> list[Candidate]:
        """See the protocol."""
        live = self.live
        sql = f"SELECT {_COLUMNS} FROM chunks WHERE path = ? AND id BETWEEN ? AND ? AND start_line <= ? AND end_line >= ?"  # noqa: S608 - constant
        return [_candidate(*row) for row in self.database.rows(sql, (path, live.first_id, live.last_id, line, line))]

    def load_slice(self) -> bool:
        """See the protocol."""
        return self.vectors.load_slice(self.live)

    def pending_jobs(self, embedder: Identity) -> list[BatchJob]:
        """See the protocol."""
        return self._jobs.pending(embedder)

    def keep_job(self, record: BatchJob) -> None:
        """See the protocol."""
        self._jobs.keep(record)

    def close_job(self, token: str) -> None:
        """See the protocol."""
        self._jobs.close(token)

    def counts(self) -> IndexCounts:
        """See the protocol."""
        live, building, one = self.live, self.building(), self.database.one
        within = "SELECT count(*) FROM chunks WHERE id BETWEEN ? AND ?"
        bounds = (live.first_id, live.last_id)
        return IndexCounts(
            chunks=one(within, bounds),
            vectors=one(f"{within} AND embedded = 1", bounds),
            refused=one(f"{within} AND embedded = 2", bounds),
            cached_vectors=self.vectors.size(),
            line_vectors=self.lines.size(),
            pending_jobs=self._jobs.count(),
            building_chunks=one(within, (building.first_id, building.last_id)) if building else 0,
        )

    def fold_in(self) -> None:
        """See the protocol."""
        self.database.fold_in()

    def leave_no_trace(self) -> None:
        """See the protocol."""
        self.database.leave_no_trace()

    def close(self) -> None:
        """See the protocol."""
        self.database.close()

    def _serves(self, building: Generation, chunking: tuple[int, int], embedder: Identity | None) -> bool:
        return building.is_cut(*chunking) and (not building.dims or building.embedder == embedder)

    def _give_up(self) -> None:
        with self.database.writing():
            self.notes.keep("building", None)
            self.vectors.release()
            self.database.connection.execute("INSERT OR REPLACE INTO meta VALUES ('sweeping', '1')")

    def _dated(self, live: Generation, days: Sequence[Span], audience: str | None) -> list[int]:
        ids: list[int] = []
        for span in days:
            first, last = span.first.isoformat(), span.last.isoformat()
            if span.days == 1:
                ids += self._of_day(first, live, audience, MOST_DATED)
                ids += self._of_day(day_after(span.last).isoformat(), live, audience, MOST_TOLD_LATER)
            elif audience is not None:
                found = self.database.rows(_DAYS_OF_AUDIENCE, (first, last, live.first_id, live.last_id, audience, EVERYBODY))
                ids += spread(found, MOST_DATED)
            else:
                with_notes = [day for (day,) in self.database.rows(_DAYS, (first, last, last))]
                each = of_each_day(len(with_notes), MOST_DATED)
                chosen = evenly(with_notes, MOST_DATED)
                ids += spread(((day, id_) for day in chosen for id_ in self._of_day(day, live, None, each)), MOST_DATED)
        return ids

    def _of_day(self, day: str, live: Generation, audience: str | None, most: int) -> list[int]:
        sql = "SELECT id FROM chunks WHERE day = ?1 AND id BETWEEN ?2 AND ?3 AND (?4 IS NULL OR audience = ?4) ORDER BY id LIMIT ?5"
        return [id_ for (id_,) in self.database.rows(sql, (day, live.first_id, live.last_id, audience, most))]


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
