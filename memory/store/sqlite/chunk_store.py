"""Tables of the index: files, chunks and generations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from memory.notes.sources import Source, Stamp
from memory.store.chunk_changes import ChunkChanges, HashedChunk, changes
from memory.store.followed_files import FollowedFiles
from memory.store.generations import Generation, IndexedFile
from memory.store.index import FileChange
from memory.store.sqlite.index_database import Database
from memory.text.dates import day_of
from memory.text.stems import language_of, stemmed
from memory.text.terms import bigram_text, spaced, trigram_text

_LANGUAGE = "language "
"""Prefix of the keys of ``meta`` that name languages of the notes."""


class ChunkWords(Struct, frozen=True):
    """What the full-text indexes take of a chunk. ``language`` is the one by whose rules its words were stemmed, besides English."""

    language: str
    header: str
    text: str
    pairs: str
    grams: str


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

    def words_of(self, generation: Generation, files: Sequence[FileChange], most: int) -> dict[bytes, ChunkWords]:
        """Return, by hash, what the full-text indexes take of the first new chunks of these files."""
        words: dict[bytes, ChunkWords] = {}
        for file in files if self._db.drivers.keywords else ():
            if file.filed is not None and file.chunks is not None:
                words |= _words(self._changes(generation, file).new[: most - len(words)])
            if len(words) >= most:
                break
        return words

    def put(
        self, generation: Generation, file: FileChange, filed: IndexedFile, words: Mapping[bytes, ChunkWords], *, most: int
    ) -> tuple[int, bool]:
        """Index a file, with at most so many new chunks. Unchanged chunks keep their vectors.

        Returns the number of new chunks, and whether that is all. ``words`` are those of ``words_of``.
        """
        with self._db.writing():
            self._file(generation, file, filed)
            found = self._changes(generation, file)
            complete = len(found.new) <= most
            if complete:
                self._drop(found.gone)
            if found.moved:
                self._db.connection.executemany(
                    "UPDATE chunks SET start_line = ?2, end_line = ?3, part = ?4 WHERE id = ?1", found.moved
                )
            self._add(generation, file, filed.audience or "", found.new[:most], words)
        return min(len(found.new), most), complete

    def _changes(self, generation: Generation, file: FileChange) -> ChunkChanges:
        sql = (
            "SELECT hash, id, start_line, end_line, part FROM chunks WHERE path = ? AND id BETWEEN ? AND ? "
            "AND start_line >= ? ORDER BY id DESC"
        )
        held = self._db.rows(sql, (file.path, generation.first_id, generation.last_id, file.since))
        return changes(held, file.chunks or ())

    def note(self, generation: Generation, file: FileChange, filed: IndexedFile) -> None:
        """Update a file's entry (new stamp, audience, or why it cannot be read) without changing the texts of its chunks."""
        with self._db.writing():
            self._file(generation, file, filed)

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

    def _file(self, generation: Generation, file: FileChange, filed: IndexedFile) -> None:
        stamp, audience = filed.stamp, filed.audience
        self._db.connection.execute(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(generation.number, file.path, file.source, audience, filed.digest),
                *(stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode, filed.settled, filed.trouble),
            ),
        )
        self._db.connection.execute(
            "UPDATE chunks SET audience = ?1 WHERE path = ?2 AND id BETWEEN ?3 AND ?4 AND audience <> ?1",
            (audience, file.path, generation.first_id, generation.last_id),
        )

    def _add(
        self,
        generation: Generation,
        file: FileChange,
        audience: str,
        new: Sequence[HashedChunk],
        words: Mapping[bytes, ChunkWords],
    ) -> None:
        if not new:
            return
        last = self._db.one("SELECT max(id) FROM chunks WHERE id BETWEEN ? AND ?", (generation.first_id, generation.last_id))
        numbered = list(enumerate(new, (last or generation.first_id) + 1))
        day = day_of(file.path)
        about, noted = (file.path, file.source, audience), day.isoformat() if day else None
        self._db.connection.executemany(
            "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            (
                (id_, *about, c.start_line, c.end_line, c.part, noted, one.head, c.text, one.digest)
                for id_, one in numbered
                for c in [one.chunk]
            ),
        )
        if not self._db.drivers.keywords:
            return
        self.words_changed += len(new)
        known = {
            **_words([one for one in new if one.digest not in words]),
            **words,
        }  # another process may have changed the file's chunks
        said = [(id_, known[one.digest]) for id_, one in numbered]
        self._remember({one.language for _, one in said if one.language})
        self._db.connection.executemany(
            "INSERT INTO chunks_fts (rowid, header, text, pairs) VALUES (?, ?, ?, ?)",
            ((id_, one.header, one.text, one.pairs) for id_, one in said),
        )
        self._db.connection.executemany(
            "INSERT INTO chunks_trigram (rowid, text) VALUES (?, ?)", ((id_, one.grams) for id_, one in said if one.grams)
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


def _words(new: Sequence[HashedChunk]) -> dict[bytes, ChunkWords]:
    """Cut chunks of one file into words, by the rules of their languages."""
    note = language_of("\n".join(one.chunk.text for one in new))
    words: dict[bytes, ChunkWords] = {}
    for one in new:
        text = one.chunk.words or one.chunk.text
        language = language_of(one.chunk.text) or note
        words[one.digest] = ChunkWords(
            language,
            stemmed(spaced(one.head), language),
            stemmed(spaced(text), language),
            bigram_text(f"{one.head}\n{text}"),
            trigram_text(f"{one.chunk.heading}\n{text}"),
        )
    return words
