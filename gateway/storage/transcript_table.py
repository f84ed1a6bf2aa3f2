"""Transcripts in PostgreSQL: the lines that a file would hold, each with the byte at which it begins there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from agent.transcript.stored_transcript import HEAD_BYTES, Contents, StoredTranscript, TranscriptStat
from agent.transcript.transcript_file import SUFFIX
from gateway.base.errors import StorageFailed
from gateway.ledger.database import Database
from gateway.storage.reading_connection import ReadingConnection, unusable
from memory.notes.sources import Stamp

if TYPE_CHECKING:
    from agent.timing import Clock
    from memory.notes.transcript_source import Transcripts

Result = TypeVar("Result")
_OPEN, _ARCHIVED, _ASIDE = "open", "archived", "aside"
_FIRST_BATCH: Final = 16
"""Lines that are asked for first: whoever wants the beginning or the end needs few."""
_BATCH: Final = 256
_HEADS: Final = 5_000
"""Beginnings of lines that are asked for at once."""
_MICROSECOND: Final = 1000
"""In nanoseconds."""
_HEAD: Final = "SELECT id, size, written_at FROM transcript WHERE agent = ? AND session = ?"
_APPEND: Final = """
WITH head AS (
    INSERT INTO transcript (agent, session, state, size, written_at) VALUES (?, ?, 'open', ?, ?)
    ON CONFLICT (agent, session) DO UPDATE SET state = 'open', size = transcript.size + excluded.size, written_at = excluded.written_at
    RETURNING id, size
)
INSERT INTO transcript_line (transcript, place, line)
SELECT head.id, head.size - ? + new.place, new.line FROM head, (VALUES {rows}) AS new (place, line) RETURNING place
"""
_ROW: Final = "(?::bigint, ?::bytea)"
_AT_ONCE: Final = 500
"""Lines in one statement."""


class Writer(Protocol):
    """Runs a function in a transaction that is refused where this process may not write any more, and returns once it is stored."""

    def __call__(self, work: Callable[[Database], Result], /) -> Result:
        """Blocking. Raises StorageFailed."""
        ...


class TranscriptTable:
    """Implements ``TranscriptStore`` for one agent. ``grown`` is called by any thread when something was appended."""

    def __init__(self, agent: str, reading: ReadingConnection, write: Writer, clock: Clock) -> None:
        self.agent = agent
        self.reading = reading
        self.clock = clock
        self.grown: Callable[[], None] = lambda: None
        self._write = write

    @property
    def where(self) -> str:
        """See the protocol."""
        return f"PostgreSQL, agent {self.agent}"

    def of(self, session: str) -> TranscriptRows:
        """See the protocol."""
        return TranscriptRows(self, session)

    def all(self) -> list[tuple[StoredTranscript, TranscriptStat]]:
        """See the protocol."""
        query = "SELECT session, state, id, size, written_at FROM transcript WHERE agent = ? AND state <> 'aside'"
        return [
            (TranscriptRows(self, session, archived=state == _ARCHIVED), _stat(head))
            for session, state, *head in self.reading.rows(query, (self.agent,))
        ]

    def searched(self) -> Transcripts:
        """See the protocol."""
        return SearchedRows(self)

    def put_away(self, needed: Collection[str], before: datetime) -> int:
        """See the protocol. The server compresses lines by itself, so that they stay as they are."""
        instant = int(before.timestamp() * 1e6)

        def work(db: Database) -> int:
            old = "SELECT session FROM transcript WHERE agent = ? AND state = 'open' AND written_at < ?"
            sessions = [one for (one,) in db.execute(old, (self.agent, instant)).fetchall() if one not in needed]
            for session in sessions:
                db.execute("UPDATE transcript SET state = 'archived' WHERE agent = ? AND session = ?", (self.agent, session))
            return len(sessions)

        return self.write(work)

    def trim(self, most_bytes: int) -> list[str]:
        """See the protocol. What counts is the length of the lines."""

        def work(db: Database) -> list[str]:
            archived = "FROM transcript WHERE agent = ? AND state = 'archived'"
            [total] = db.execute(f"SELECT coalesce(sum(size), 0) {archived}", (self.agent,)).fetchone() or (0,)
            gone: list[str] = []
            if total <= most_bytes:
                return gone
            kept = db.execute(f"SELECT id, session, size {archived} ORDER BY written_at, id", (self.agent,)).fetchall()
            for number, session, size in kept:
                if total <= most_bytes:
                    break
                db.execute("DELETE FROM transcript WHERE id = ?", (number,))
                total -= size
                gone.append(session)
            return gone

        return self.write(work)

    def write(self, work: Callable[[Database], Result]) -> Result:
        """Run ``work`` in a transaction. Raises OSError."""
        try:
            return self._write(work)
        except StorageFailed as error:
            raise unusable(error) from error


class TranscriptRows:
    """Implements ``StoredTranscript``."""

    def __init__(self, table: TranscriptTable, session: str, *, archived: bool = False) -> None:
        self._table = table
        self.session = session
        self.archived = archived

    @property
    def where(self) -> str:
        """See the protocol."""
        return f"{self._table.where}, session {self.session}"

    def exists(self) -> bool:
        """See the protocol."""
        return bool(self._heads())

    def stat(self) -> TranscriptStat:
        """See the protocol."""
        for head in self._heads():
            return _stat(head)
        raise FileNotFoundError(self.where)

    def contents(self, now: datetime) -> Contents:  # noqa: ARG002  (rows are whole: nothing has to be set aside)
        """See the protocol. Of most lines only the beginning leaves the server."""
        size = 0
        places: list[int] = []
        heads: list[bytes] = []
        more = True
        while more:
            query = self._query("l.place > ?", f"t.size, l.place, substring(l.line FROM 1 FOR {HEAD_BYTES})")
            after = places[-1] if places else -1
            rows = self._table.reading.rows(f"{query} ORDER BY l.place LIMIT {_HEADS}", (*self._key, after))
            for whole, place, head in rows:
                size = whole
                places.append(place)
                heads.append(head)
            more = len(rows) == _HEADS
        return Contents(size, heads, lambda first, end: self._between(places[first:end]))

    def lines(self, start: int = 0) -> Iterator[bytes]:
        """See the protocol."""
        for _, line in self._rows("l.place >= ?", start, "l.place"):
            yield line + b"\n"

    def lines_at(self, places: Sequence[int]) -> list[bytes]:
        """See the protocol."""
        found: dict[int, bytes] = {}
        for begin in range(0, len(places), _BATCH):
            wanted = list(places[begin : begin + _BATCH])
            marks = ", ".join("?" * len(wanted))
            found |= dict(self._table.reading.rows(self._query(f"l.place IN ({marks})"), (*self._key, *wanted)))
        return [found[place] + b"\n" if place in found else b"" for place in places]

    def lines_backwards(self, before: int | None = None) -> Iterator[tuple[int, bytes]]:
        """See the protocol."""
        last = (1 << 62) if before is None else before
        for place, line in self._rows("l.place < ?", last, "l.place DESC"):
            if line:
                yield place, line

    def append(self, data: bytes) -> int:
        """See the protocol."""
        at = int(self._table.clock.now().timestamp() * 1e6)
        size = self._table.write(lambda db: append(db, self._key, data, at))
        self._table.grown()
        return size

    def replace(self, data: bytes, *, aside: str = "") -> str:
        """See the protocol. The former lines get another number, or are deleted with it."""

        def work(db: Database) -> None:
            found = db.execute("SELECT id, state, written_at FROM transcript WHERE agent = ? AND session = ?", self._key)
            number, state, written = found.fetchone()
            if aside:
                rename = "UPDATE transcript SET session = ?, state = 'aside' WHERE id = ?"
                db.execute(rename, (f"{self.session}.{aside}", number))
            else:
                db.execute("DELETE FROM transcript WHERE id = ?", (number,))
            append(db, self._key, data, written)
            db.execute("UPDATE transcript SET state = ? WHERE agent = ? AND session = ?", (state, *self._key))

        self._table.write(work)
        return f"{self.where}.{aside}" if aside else ""

    @property
    def _key(self) -> tuple[str, str]:
        return self._table.agent, self.session

    def _heads(self) -> list[Any]:
        return self._table.reading.rows(_HEAD, self._key)

    def _between(self, places: Sequence[int]) -> list[bytes]:
        """Return the lines at places that follow one another."""
        found: list[bytes] = []
        for begin in range(0, len(places), _BATCH):
            some = places[begin : begin + _BATCH]
            query = f"{self._query('l.place BETWEEN ? AND ?', 'l.line')} ORDER BY l.place"
            found += [line for (line,) in self._table.reading.rows(query, (*self._key, some[0], some[-1]))]
        return found

    def _query(self, which: str, what: str = "l.place, l.line") -> str:
        return (
            f"SELECT {what} FROM transcript t JOIN transcript_line l ON l.transcript = t.id "
            f"WHERE t.agent = ? AND t.session = ? AND {which}"
        )

    def _rows(self, which: str, place: int, order: str) -> Iterator[tuple[int, bytes]]:
        """Yield lines with their places from a place on, in batches: while they are read nothing is held open."""
        batch = _FIRST_BATCH
        while True:
            query = f"{self._query(which)} ORDER BY {order} LIMIT {batch}"
            rows = self._table.reading.rows(query, (*self._key, place))
            yield from rows
            if len(rows) < batch:
                return
            last, line = rows[-1]
            place = last if order.endswith("DESC") else last + len(line) + 1
            batch = _BATCH


class SearchedRows:
    """Implements ``Transcripts`` of memory."""

    folder = None

    def __init__(self, table: TranscriptTable) -> None:
        self._table = table

    def listen(self, grown: Callable[[], None]) -> None:
        """See the protocol."""
        self._table.grown = grown

    def walk(self) -> Iterator[tuple[str, Stamp]]:
        """See the protocol."""
        for stored, stat in sorted(self._table.all(), key=lambda one: one[0].session):
            if not stored.archived:
                yield stored.session + SUFFIX, _as_stamp(stat)

    def read(self, name: str, start: int, most: int) -> bytes:
        """See the protocol. From the middle of a line on it begins with the next."""
        found, size = [], 0
        for line in self._table.of(name.removesuffix(SUFFIX)).lines(start):
            found.append(line)
            size += len(line)
            if size >= most:
                break
        return b"".join(found)[:most]

    def first_line(self, name: str) -> bytes:
        """See the protocol."""
        return next(self._table.of(name.removesuffix(SUFFIX)).lines(), b"").rstrip(b"\n")

    def stamp(self, name: str) -> Stamp:
        """See the protocol."""
        return _as_stamp(self._table.of(name.removesuffix(SUFFIX)).stat())


def _as_stamp(stat: TranscriptStat) -> Stamp:
    return Stamp(stat.size, stat.written_ns, stat.written_ns, stat.identity[0])


def append(db: Database, key: tuple[str, str], data: bytes, at: int) -> int:
    """Add whole lines to a transcript, or make it, and return the length after them."""
    lines = data.split(b"\n")[:-1]
    size = 0
    for begin in range(0, len(lines), _AT_ONCE):
        some = lines[begin : begin + _AT_ONCE]
        length = sum(map(len, some)) + len(some)
        values: list[Any] = [*key, length, at, length]
        place = 0
        for line in some:
            values += [place, line]
            place += len(line) + 1
        found = db.execute(_APPEND.format(rows=", ".join([_ROW] * len(some))), values).fetchall()
        size = max(one for (one,) in found) + len(some[-1]) + 1
    return size


def _stat(head: Sequence[Any]) -> TranscriptStat:
    number, size, written = head
    return TranscriptStat(size, written * _MICROSECOND, (number,))
