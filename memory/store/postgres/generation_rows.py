"""The rows of an agent and its generations, and the files and chunks in these."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from msgspec import Struct

from memory.notes.sources import Source, Stamp
from memory.store.chunk_changes import HashedChunk, changes
from memory.store.generations import INDEXING_VERSION, Generation, IndexedFile
from memory.store.index import STORED, FileChange, Stored, begun
from memory.store.postgres.connections import Connection, Connections
from memory.store.postgres.lexemes import WordList, vocabulary_of, word_list
from memory.store.vocabulary import LENGTHS
from memory.text.dates import day_of
from memory.text.stems import language_of

_FRESH_SECONDS: Final = 0.3
"""A search reads the rows of its agent once. What another gateway has changed is seen after this time at the latest."""
_COLUMNS: Final = "number, tokens, overlap, provider, model, fingerprint, dims, rules"
_FILE: Final = """
INSERT INTO file VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (generation, path) DO UPDATE SET (source, hash, size, mtime_ns, ctime_ns, inode, settled, trouble)
    = (excluded.source, excluded.hash, excluded.size, excluded.mtime_ns, excluded.ctime_ns, excluded.inode,
       excluded.settled, excluded.trouble)
"""
_HELD: Final = (
    "SELECT hash, id, start_line, end_line, part FROM chunk WHERE path = %s AND id BETWEEN %s AND %s AND start_line >= %s "
    "ORDER BY id DESC"
)
_OF_OTHERS: Final = """
SELECT f.audience, c.id FROM unnest(%s::text[], %s::text[]) AS f (path, audience) CROSS JOIN LATERAL (
    SELECT id FROM chunk WHERE path = f.path AND id BETWEEN %s AND %s AND audience <> f.audience OFFSET 0
) AS c
"""
"""The chunks of files that others may see from now on. By the index of paths, also before there are statistics."""
_MOVE: Final = "UPDATE chunk SET start_line = %s, end_line = %s, part = %s WHERE id = %s"
_ADD: Final = "INSERT INTO chunk VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
_ADD_WORDS: Final = "INSERT INTO word_list VALUES (%s, %s, %s, %s, %s, %s, %s::tsvector)"
_DROP: Final = "DELETE FROM word_list WHERE id = ANY (%s) RETURNING size, code_size"
_TABLES: Final = ("chunk", "waiting", "refusal", "line_waiting")


class Totals(Struct, frozen=True):
    """How many chunks a generation has and how many words, how many of them have codes, and how long these are."""

    chunks: int
    size: int
    coded: int
    code_size: int


class AgentState(Struct, frozen=True):
    """The rows of an agent. ``changes`` grows with each change of its index, whoever makes it."""

    changes: int
    languages: tuple[str, ...]
    answers: str | None
    live: Generation
    building: Generation | None
    totals: Totals

    def kept(self, generation: Generation) -> Generation | None:
        """Return the current state of a generation; None if it was dropped."""
        return next((one for one in (self.live, self.building) if one and one.number == generation.number), None)


class GenerationRows:
    """Reads and writes the rows of one agent. Writers of an agent follow one another: each locks its row first."""

    def __init__(self, connections: Connections, agent: str) -> None:
        self._connections = connections
        self.agent = self._agent(agent)
        self._known: set[str] = set()
        self._known_of = 0
        self._read: tuple[float, AgentState] | None = None

    def _agent(self, name: str) -> int:
        with self._connections.writing() as connection:
            connection.execute("INSERT INTO agent (name) VALUES (%s) ON CONFLICT DO NOTHING", (name,))
            (number,) = _one(connection.execute("SELECT id FROM agent WHERE name = %s FOR UPDATE", (name,)))
            return int(number)

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """Run a transaction that changes the index of the agent. No other one of this agent runs meanwhile."""
        self._read = None
        with self._connections.writing() as connection:
            counted = connection.execute("UPDATE agent SET changes = changes + 1 WHERE id = %s", (self.agent,))
            if not counted.rowcount:
                raise psycopg.errors.UndefinedTable("the rows of this agent were deleted")  # as where its tables were
            yield connection
        self._read = None

    def ensure_live(self, tokens: int, overlap: int) -> None:
        """Make an empty live generation, if there is none."""
        with self.changing() as connection:
            if not self._generations(connection, "live"):
                self.add_generation(connection, "live", tokens, overlap)

    def add_generation(self, connection: Connection, role: str, tokens: int, overlap: int) -> Generation:
        """Add an empty generation."""
        add = f"INSERT INTO generation (agent, role, tokens, overlap, rules) VALUES (%s, %s, %s, %s, %s) RETURNING {_COLUMNS}"  # noqa: S608 - constant
        values = (self.agent, role, tokens, overlap, INDEXING_VERSION)
        return Generation(*_one(connection.execute(add.encode(), values)))

    def state(self, connection: Connection) -> AgentState:
        """Read the rows of the agent."""
        sql = f"""SELECT a.changes, a.languages, a.answers, g.role, g.chunks, g.size, g.coded, g.code_size, {_COLUMNS}
                  FROM agent a JOIN generation g ON g.agent = a.id AND g.role <> 'old' WHERE a.id = %s"""  # noqa: S608 - constant
        rows = {row[3]: row for row in connection.execute(sql.encode(), (self.agent,))}
        live = rows["live"]
        building = Generation(*rows["building"][8:]) if "building" in rows else None
        return AgentState(live[0], tuple(sorted(live[1])), live[2], Generation(*live[8:]), building, Totals(*live[4:8]))

    def now(self) -> AgentState:
        """Read the rows of the agent, unless that was done just before and nothing was changed here since."""
        if self._read is not None and time.monotonic() - self._read[0] < _FRESH_SECONDS:
            return self._read[1]
        with self._connections.reading() as connection:
            state = self.state(connection)
        self._read = time.monotonic(), state
        return state

    def filed(self, generation: Generation, source: Source, paths: Sequence[str] | None = None) -> dict[str, IndexedFile]:
        """See ``Index``."""
        sql = """SELECT path, hash, size, mtime_ns, ctime_ns, inode, settled, trouble,
                     (SELECT audience FROM chunk c WHERE c.path = file.path AND c.id BETWEEN %s AND %s LIMIT 1)
                 FROM file WHERE generation = %s AND source = %s"""
        values: list[Any] = [generation.first_id, generation.last_id, generation.number, source]
        if paths is not None:
            sql += " AND path = ANY(%s)"
            values.append(list(paths))
        with self._connections.reading() as connection:
            return {
                path: IndexedFile(digest, Stamp(*stamp), settled, trouble, audience)
                for path, digest, *stamp, settled, trouble, audience in connection.execute(sql, values)
            }

    def file_count(self, generation: Generation, source: Source) -> int:
        """See ``Index``."""
        sql = "SELECT count(*) FROM file WHERE generation = %s AND source = %s"
        with self._connections.reading() as connection:
            [count] = connection.execute(sql, (generation.number, source)).fetchone() or (0,)
        return int(count)

    def file_paths(self, generation: Generation, source: Source) -> set[str]:
        """See ``Index``."""
        sql = "SELECT path FROM file WHERE generation = %s AND source = %s"
        with self._connections.reading() as connection:
            return {path for (path,) in connection.execute(sql, (generation.number, source))}

    def store(self, generation: Generation, files: Sequence[FileChange]) -> Stored:
        """See ``Index``."""
        new = done = 0
        if self._known_of != generation.number:
            self._known, self._known_of = set(), generation.number
        with self.changing() as connection:
            if not connection.execute(
                "SELECT 1 FROM generation WHERE number = %s AND role <> 'old'", (generation.number,)
            ).fetchone():
                return Stored(0, len(files))  # another process has replaced it meanwhile
            gone = [one.path for one in files if one.filed is None]
            self._remove(connection, generation, gone)
            self._open_to(connection, generation, [(one.path, one.filed.audience) for one in files if one.filed is not None])
            for one in files:
                if one.filed is not None and one.chunks is not None:
                    added, complete = self._put(connection, generation, one, one.filed, STORED - new)
                    new += added
                    if not complete:
                        break
                done += 1
            reached = enumerate(files[: done + 1])
            rows = [
                _file_row(generation, one, one.filed if place < done else begun(one.filed))
                for place, one in reached
                if one.filed is not None
            ]
            connection.cursor().executemany(_FILE, rows)
        return Stored(new, done)

    def remove(self, generation: Generation, paths: Sequence[str]) -> None:
        """See ``Index``."""
        with self.changing() as connection:
            self._remove(connection, generation, paths)

    def forget_files(self) -> None:
        """See ``Index``."""
        sql = (
            "UPDATE file SET settled = false, hash = NULL WHERE generation IN (SELECT number FROM generation WHERE agent = %s)"
        )
        with self.changing() as connection:
            connection.execute(sql, (self.agent,))

    def sweep(self, limit: int) -> bool:
        """See ``Index``."""
        with self.changing() as connection:
            old = self._generations(connection, "old")
            for generation in old[:1]:
                sql = "SELECT id FROM chunk WHERE id BETWEEN %s AND %s LIMIT %s"
                ids = [id_ for (id_,) in connection.execute(sql, (generation.first_id, generation.last_id, limit))]
                self._drop(connection, generation, ids)
                if len(ids) == limit:
                    return True
                connection.execute("DELETE FROM generation WHERE number = %s", (generation.number,))
        return len(old) > 1

    def renew_vocabulary(self) -> None:
        """Delete from the vocabulary what no chunk contains any more."""
        words = """INSERT INTO vocabulary SELECT DISTINCT %s::bigint, substr(word, %s::int) FROM ts_stat(%s)
                   WHERE substr(word, %s::int, 1) BETWEEN '1' AND '9' AND length(word) - %s BETWEEN %s AND %s"""
        with self.changing() as connection:
            state = self.state(connection)
            for generation in [one for one in (state.live, state.building) if one]:
                number, before = generation.number, len(f"{generation.number}:") + 1
                connection.execute("DELETE FROM vocabulary WHERE generation = %s", (number,))
                lists = f"SELECT words FROM word_list WHERE id BETWEEN {generation.first_id} AND {generation.last_id}"  # noqa: S608 - numbers
                connection.execute(words, (number, before + 1, lists, before, before, LENGTHS[0], LENGTHS[-1]))
        self._known = set()

    def forget_known_words(self) -> None:
        """Free the RAM of the words that are known to be in the vocabulary; it saves asking for each during a sync."""
        self._known = set()

    def _generations(self, connection: Connection, role: str) -> list[Generation]:
        sql = f"SELECT {_COLUMNS} FROM generation WHERE agent = %s AND role = %s ORDER BY number"  # noqa: S608 - constant
        return [Generation(*row) for row in connection.execute(sql.encode(), (self.agent, role))]

    def _open_to(self, connection: Connection, generation: Generation, files: Sequence[tuple[str, str | None]]) -> None:
        """Set who may see the chunks that files had before."""
        columns = [storable(path) for path, _ in files], [audience for _, audience in files]
        changed: dict[str, list[int]] = {}
        for audience, id_ in connection.execute(_OF_OTHERS, (*columns, generation.first_id, generation.last_id)):
            changed.setdefault(audience, []).append(id_)
        for audience, ids in changed.items():
            connection.execute("UPDATE chunk SET audience = %s WHERE id = ANY (%s)", (audience, ids))
            connection.execute("UPDATE word_list SET audience = %s WHERE id = ANY (%s)", (audience, ids))

    def _put(
        self, connection: Connection, generation: Generation, file: FileChange, filed: IndexedFile, most: int
    ) -> tuple[int, bool]:
        """Store at most so many new chunks of a file; return how many, and whether that is all."""
        bounds = generation.first_id, generation.last_id
        day = day_of(file.path)
        found = changes(connection.execute(_HELD, (file.path, *bounds, file.since)), file.chunks or ())
        complete, found.new = len(found.new) <= most, found.new[:most]
        if complete:
            self._drop(connection, generation, found.gone)
        if found.moved:
            connection.cursor().executemany(_MOVE, [(*place, id_) for id_, *place in found.moved])
        if not found.new:
            return 0, complete
        lists = self._lists(connection, found.new)
        last = _one(connection.execute("SELECT max(id) FROM chunk WHERE id BETWEEN %s AND %s", bounds))[0]
        ids = range((last or generation.first_id) + 1, (last or generation.first_id) + 1 + len(lists))
        about = (storable(file.path), file.source, filed.audience)
        rows = [
            (id_, *about, c.start_line, c.end_line, c.part, day, storable(one.head), storable(c.text), one.digest)
            for id_, one in zip(ids, found.new, strict=True)
            for c in [one.chunk]
        ]
        words = [
            (id_, about[2], new.digest, one.size, len(one.code), storable(one.code), storable(one.literal(generation.number)))
            for id_, new, one in zip(ids, found.new, lists, strict=True)
        ]
        cursor = connection.cursor()
        cursor.executemany(_ADD, rows)
        cursor.executemany(_ADD_WORDS, words)
        connection.execute("INSERT INTO waiting SELECT unnest(%s::bigint[])", (list(ids),))
        self._count(connection, generation, [(one.size, len(one.code)) for one in lists], 1)
        fresh = {storable(word) for word in vocabulary_of(lists, LENGTHS)} - self._known
        sql = "INSERT INTO vocabulary SELECT %s, unnest(%s::text[]) ON CONFLICT DO NOTHING"
        connection.execute(sql, (generation.number, sorted(fresh)))
        self._known |= fresh
        return len(rows), complete

    def _lists(self, connection: Connection, new: Sequence[HashedChunk]) -> list[WordList]:
        """Cut the chunks of a file into words, by the rules of their languages, which are noted."""
        note = language_of("\n".join(one.chunk.text for one in new))
        spoken = [language_of(one.chunk.text) or note for one in new]
        if languages := sorted({language for language in spoken if language}):
            sql = """UPDATE agent SET languages = ARRAY(SELECT DISTINCT unnest(languages || %s::text[]) ORDER BY 1)
                     WHERE id = %s AND NOT languages @> %s::text[]"""
            connection.execute(sql, (languages, self.agent, languages))
        return [
            word_list(one.head, one.chunk.heading, one.chunk.words or one.chunk.text, language)
            for one, language in zip(new, spoken, strict=True)
        ]

    def _remove(self, connection: Connection, generation: Generation, paths: Sequence[str]) -> None:
        if not paths:
            return
        sql = "SELECT id FROM chunk WHERE path = ANY (%s) AND id BETWEEN %s AND %s"
        ids = [id_ for (id_,) in connection.execute(sql, (list(paths), generation.first_id, generation.last_id))]
        self._drop(connection, generation, ids)
        connection.execute("DELETE FROM file WHERE generation = %s AND path = ANY (%s)", (generation.number, list(paths)))

    def _drop(self, connection: Connection, generation: Generation, ids: list[int]) -> None:
        if not ids:
            return
        self._count(connection, generation, connection.execute(_DROP, (ids,)), -1)
        for table in _TABLES:
            connection.execute(f"DELETE FROM {table} WHERE id = ANY (%s)".encode(), (ids,))  # noqa: S608 - names of ours

    def _count(self, connection: Connection, generation: Generation, sizes: Iterable[Any], sign: int) -> None:
        """Add what these chunks have to the totals of a generation, or take it off."""
        rows = list(sizes)
        totals = (len(rows), sum(size for size, _ in rows), sum(code > 0 for _, code in rows), sum(code for _, code in rows))
        sql = """UPDATE generation SET chunks = chunks + %s, size = size + %s, coded = coded + %s, code_size = code_size + %s
                 WHERE number = %s"""
        connection.execute(sql, (*(sign * total for total in totals), generation.number))


def storable(text: str) -> str:
    """Return a text without what PostgreSQL stores in none: the character U+0000, and halves of characters."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _file_row(generation: Generation, file: FileChange, filed: IndexedFile) -> tuple[Any, ...]:
    stamp = filed.stamp
    return (
        *(generation.number, storable(file.path), file.source, filed.digest),
        *(stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode, filed.settled, storable(filed.trouble)),
    )


def _one(cursor: Any) -> Any:
    row = cursor.fetchone()
    assert row is not None
    return row
