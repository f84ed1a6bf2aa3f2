"""Tables of the index: files, chunks and generations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from memory.notes.sources import Source, Stamp
from memory.store.chunk_changes import NewChunk, changes
from memory.store.followed_files import FollowedFiles
from memory.store.generations import Generation, IndexedFile
from memory.store.sqlite.index_database import Database
from memory.text.chunks import Chunk
from memory.text.dates import day_of
from memory.text.stems import language_of, stemmed
from memory.text.terms import bigram_text, spaced, trigram_text

_LANGUAGE = "language "
"""Prefix of the keys of ``meta`` that name languages of the notes."""


class _Origin(Struct, frozen=True):
    """Columns that all chunks of a file share."""

    path: str
    source: Source
    audience: str
    day: str | None


class ChunkStore:
    """Writes files and chunks, each change in one transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self.words_changed = 0
        self._languages: frozenset[str] | None = None
        self.followed = FollowedFiles(self._version)
        self.on_drop: Callable[[Sequence[int]], None] = lambda _: None

    def generation(self, role: Literal["live", "building"]) -> Generation | None:
        """Return the generation that searches use, or the one that is being built to replace it, if there is one."""
        value = self._db.one("SELECT value FROM meta WHERE key = ?", (role,))
        return Generation(**json.loads(value)) if value else None

    def mixed(self) -> bool:
        """Whether the tables contain chunks of more than one generation."""
        return bool(self._db.one("SELECT 1 FROM meta WHERE key IN ('building', 'sweeping')"))

    def languages(self) -> tuple[str, ...]:
        """The languages by whose rules words of the notes were stemmed, besides English."""
        if self._languages is None:
            rows = self._db.rows("SELECT substr(key, ?) FROM meta WHERE key LIKE ?", (len(_LANGUAGE) + 1, f"{_LANGUAGE}%"))
            self._languages = frozenset(name for (name,) in rows)
        return tuple(sorted(self._languages))

    def _remember(self, languages: set[str]) -> None:
        if not languages <= set(self.languages()):
            self._db.connection.executemany(
                "INSERT OR IGNORE INTO meta VALUES (?, '1')", [(f"{_LANGUAGE}{name}",) for name in languages]
            )
            self._languages = None

    def keep(self, role: str, generation: Generation | None) -> None:
        """Set the generation that is "live" or "building"."""
        if generation is None:
            self._db.connection.execute("DELETE FROM meta WHERE key = ?", (role,))
        else:
            value = json.dumps(asdict(generation))
            self._db.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (role, value))

    def next_number(self) -> int:
        """Return an unused generation number."""
        number = int(self._db.one("SELECT value FROM meta WHERE key = 'last generation'") or 0) + 1
        self._db.connection.execute("INSERT OR REPLACE INTO meta VALUES ('last generation', ?)", (str(number),))
        return number

    def filed(self, generation: Generation, source: Source, paths: Sequence[str] | None = None) -> dict[str, IndexedFile]:
        """See ``Index``."""
        sql = """SELECT path, hash, size, mtime_ns, ctime_ns, inode, settled, trouble, audience FROM files
                 WHERE generation = ? AND source = ?"""
        values: tuple[Any, ...] = (generation.number, source)
        if paths is not None:
            sql += " AND path IN (SELECT value FROM json_each(?))"
            values = *values, json.dumps(paths)
        return {
            path: IndexedFile(digest, Stamp(*stamp), bool(settled), trouble, audience)
            for path, digest, *stamp, settled, trouble, audience in self._db.rows(sql, values)
        }

    def file_count(self, generation: Generation, source: Source) -> int:
        """See ``Index``."""
        return int(self._db.one("SELECT count(*) FROM files WHERE generation = ? AND source = ?", (generation.number, source)))

    def file_paths(self, generation: Generation, source: Source) -> set[str]:
        """See ``Index``."""
        rows = self._db.rows("SELECT path FROM files WHERE generation = ? AND source = ?", (generation.number, source))
        return {path for (path,) in rows}

    def _version(self) -> int:
        """A number that changes when another process has written to the file. What is stored here makes no file less up to date."""
        return int(self._db.one("PRAGMA data_version"))

    def put(
        self,
        generation: Generation,
        path: str,
        filed: IndexedFile,
        chunks: Sequence[Chunk],
        source: Source = "memory",
        *,
        since: int = 1,
    ) -> int:
        """Index a file from a line on, or index it again. Unchanged chunks keep their vectors. Returns the number of new chunks."""
        with self._db.writing():
            self._file(generation, path, filed, source)
            sql = (
                "SELECT hash, id, start_line, end_line, part FROM chunks WHERE path = ? AND id BETWEEN ? AND ? "
                "AND start_line >= ? ORDER BY id DESC"
            )
            day = day_of(path)
            found = changes(self._db.rows(sql, (path, generation.first_id, generation.last_id, since)), chunks, day)
            self._drop(found.gone)
            if found.moved:
                self._db.connection.executemany(
                    "UPDATE chunks SET start_line = ?2, end_line = ?3, part = ?4 WHERE id = ?1", found.moved
                )
            self._add(generation, _Origin(path, source, filed.audience or "", day.isoformat() if day else None), found.new)
        return len(found.new)

    def note(self, generation: Generation, path: str, filed: IndexedFile, source: Source = "memory") -> None:
        """Update a file's entry (new stamp, audience, or why it cannot be read) without changing the texts of its chunks."""
        with self._db.writing():
            self._file(generation, path, filed, source)

    def remove(self, generation: Generation, paths: Iterable[str]) -> None:
        """Delete files and their chunks."""
        with self._db.writing():
            for path in paths:
                sql = "SELECT id FROM chunks WHERE path = ? AND id BETWEEN ? AND ?"
                self._drop([row[0] for row in self._db.rows(sql, (path, generation.first_id, generation.last_id))])
                self._db.connection.execute("DELETE FROM files WHERE generation = ? AND path = ?", (generation.number, path))

    def forget_files(self) -> None:
        """Mark every file as changed."""
        with self._db.writing():
            self._db.connection.execute("UPDATE files SET settled = 0, hash = NULL")
        self.followed.forget()

    def sweep(self, keep: Sequence[Generation], limit: int) -> bool:
        """Delete up to ``limit`` chunks of other generations than ``keep``; return whether more are left."""
        outside = " AND ".join("id NOT BETWEEN ? AND ?" for _ in keep) or "1"
        bounds = tuple(bound for generation in keep for bound in (generation.first_id, generation.last_id))
        with self._db.writing():
            ids = [row[0] for row in self._db.rows(f"SELECT id FROM chunks WHERE {outside} LIMIT ?", (*bounds, limit))]  # noqa: S608 - no foreign text
            self._drop(ids)
            numbers = ",".join(str(generation.number) for generation in keep) or "0"
            self._db.connection.execute(f"DELETE FROM files WHERE generation NOT IN ({numbers})")  # noqa: S608 - numbers only
            if len(ids) < limit:
                self._db.connection.execute("DELETE FROM meta WHERE key = 'sweeping'")
        return len(ids) == limit

    def _file(self, generation: Generation, path: str, filed: IndexedFile, source: Source) -> None:
        stamp, audience = filed.stamp, filed.audience
        self._db.connection.execute(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(generation.number, path, source, audience, filed.digest),
                *(stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode, filed.settled, filed.trouble),
            ),
        )
        self._db.connection.execute(
            "UPDATE chunks SET audience = ?1 WHERE path = ?2 AND id BETWEEN ?3 AND ?4 AND audience <> ?1",
            (audience, path, generation.first_id, generation.last_id),
        )

    def _add(self, generation: Generation, origin: _Origin, new: Sequence[NewChunk]) -> None:
        if not new:
            return
        last = self._db.one("SELECT max(id) FROM chunks WHERE id BETWEEN ? AND ?", (generation.first_id, generation.last_id))
        first = (last or generation.first_id) + 1
        about = (origin.path, origin.source, origin.audience)
        numbered = [(first + offset, one.digest, one.head, one.chunk) for offset, one in enumerate(new)]
        self._db.connection.executemany(
            "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            (
                (id_, *about, c.start_line, c.end_line, c.part, origin.day, head, c.text, digest)
                for id_, digest, head, c in numbered
            ),
        )
        if not self._db.drivers.keywords:
            return
        self.words_changed += len(new)
        note = language_of("\n".join(c.text for _, _, _, c in numbered))
        spoken = {id_: language_of(c.text) or note for id_, _, _, c in numbered}
        self._remember({language for language in spoken.values() if language})
        self._db.connection.executemany(
            "INSERT INTO chunks_fts (rowid, header, text, pairs) VALUES (?, ?, ?, ?)",
            (
                (
                    id_,
                    stemmed(spaced(head), spoken[id_]),
                    stemmed(spaced(c.words or c.text), spoken[id_]),
                    bigram_text(f"{head}\n{c.words or c.text}"),
                )
                for id_, _, head, c in numbered
            ),
        )
        grams = ((id_, trigram_text(f"{c.heading}\n{c.words or c.text}")) for id_, _, _, c in numbered)
        self._db.connection.executemany(
            "INSERT INTO chunks_trigram (rowid, text) VALUES (?, ?)", ((id_, text) for id_, text in grams if text)
        )

    def _drop(self, ids: Sequence[int]) -> None:
        if not ids:
            return
        rows: list[tuple[Any, ...]] = [(id_,) for id_ in ids]
        connection = self._db.connection
        connection.executemany("DELETE FROM chunks WHERE id = ?", rows)
        if self._db.drivers.keywords:
            self.words_changed += len(ids)
            connection.executemany("DELETE FROM chunks_fts WHERE rowid = ?", rows)
            connection.executemany("DELETE FROM chunks_trigram WHERE rowid = ?", rows)
        self.on_drop(ids)
