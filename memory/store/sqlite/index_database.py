"""Opens the index file: schema, optional SQLite features, and handling of damaged files."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from memory.errors import IndexBroken
from memory.settings import VectorStoreSettings
from memory.store.index import Features
from memory.store.sqlite.format_upgrade import CONVERTIBLE, OtherFormat, convert, shrink

if TYPE_CHECKING:
    import apsw


class AllowedFeatures(Struct, frozen=True):
    """Optional features that may be used if present; tests disable some."""

    sqlite_vec: bool = True
    numpy: bool = True
    fts5: bool = True


def detect_features(connection: apsw.Connection, settings: VectorStoreSettings, parts: AllowedFeatures) -> Features:
    """Load sqlite-vec into ``connection`` if allowed and possible, and return the features to use."""
    import apsw

    numpy = parts.numpy and importlib.util.find_spec("numpy") is not None
    note = _load_vec(connection, settings) if settings.enabled and parts.sqlite_vec else "sqlite-vec is switched off"
    vectors: Literal["vec0", "numpy", "none"] = "none"
    if not note:
        vectors = "vec0"
    elif numpy:
        vectors, note = "numpy", f"{note}; vectors are scanned with numpy"
    else:
        note = f"{note}, and numpy is missing: keywords only"
    keywords = parts.fts5 and "ENABLE_FTS5" in apsw.compile_options
    if not keywords:
        note = f"{note}; " * bool(note) + "this SQLite has no FTS5: vectors only"
    return Features(vectors, keywords, numpy, f"apsw {apsw.apsw_version()}, SQLite {apsw.sqlite_lib_version()}", note)


def _load_vec(connection: apsw.Connection, settings: VectorStoreSettings) -> str:
    """Load the extension; return why it could not be, or an empty string."""
    import apsw

    try:
        path = settings.extension_path
        if path is None:
            path = _bundled_extension()
        connection.enable_load_extension(True)  # noqa: FBT003 - apsw takes it by position only
        try:
            connection.load_extension(path)
        finally:
            connection.enable_load_extension(False)  # noqa: FBT003 - the same
        connection.execute("SELECT vec_version()").get  # noqa: B018 - fails if that library is something else
    except ImportError:
        return "sqlite-vec is not installed"
    except apsw.Error as error:
        return f"sqlite-vec cannot be loaded ({error})"
    return ""


def _bundled_extension() -> str:
    """Return the path of the sqlite-vec library without importing the package, which would import numpy.

    Raises ImportError when the package is not installed.
    """
    found = importlib.util.find_spec("sqlite_vec")
    if found is None or found.origin is None:
        raise ImportError("sqlite_vec")
    return str(Path(found.origin).parent / "vec0")


FORMAT = 2
"""Raised when the tables change; a file of a format that cannot be converted is renamed, and the index is rebuilt from the notes."""

_CHECK_SECONDS = 0.5
BUSY_SECONDS = 5
"""How long a transaction waits for that of another process. Those of an index take a fraction of that."""

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS files (
    generation INTEGER NOT NULL, path TEXT NOT NULL, source TEXT NOT NULL, audience TEXT NOT NULL, hash BLOB,
    size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
    settled INTEGER NOT NULL, trouble TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (generation, path)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS chunks (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL, source TEXT NOT NULL, audience TEXT NOT NULL,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, part INTEGER NOT NULL, day TEXT,
    header TEXT NOT NULL, text TEXT NOT NULL, hash BLOB NOT NULL, embedded INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS chunks_by_path ON chunks (path, id);
CREATE INDEX IF NOT EXISTS chunks_by_hash ON chunks (hash);
CREATE INDEX IF NOT EXISTS chunks_by_audience ON chunks (audience) WHERE audience <> '';
CREATE INDEX IF NOT EXISTS chunks_by_day ON chunks (day) WHERE day IS NOT NULL;
CREATE INDEX IF NOT EXISTS chunks_without_vector ON chunks (id) WHERE embedded = 0;
CREATE INDEX IF NOT EXISTS chunks_refused ON chunks (id) WHERE embedded = 2;
CREATE TABLE IF NOT EXISTS refusals (
    id INTEGER PRIMARY KEY, provider TEXT NOT NULL, model TEXT NOT NULL, fingerprint TEXT NOT NULL,
    at INTEGER NOT NULL, reason TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS embedders (
    id INTEGER PRIMARY KEY, provider TEXT NOT NULL, model TEXT NOT NULL, fingerprint TEXT NOT NULL, UNIQUE (provider, model, fingerprint)
);
CREATE TABLE IF NOT EXISTS vectors (
    id INTEGER PRIMARY KEY, embedder INTEGER NOT NULL, hash BLOB NOT NULL, used INTEGER NOT NULL, vector BLOB NOT NULL,
    UNIQUE (embedder, hash)
);
CREATE TABLE IF NOT EXISTS line_vectors (id INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TRIGGER IF NOT EXISTS lines_go_too AFTER DELETE ON vectors BEGIN
    DELETE FROM line_vectors WHERE id >= old.id << 8 AND id < (old.id + 1) << 8;
END;
CREATE TABLE IF NOT EXISTS batch_jobs (
    token TEXT PRIMARY KEY, job TEXT, provider TEXT NOT NULL, model TEXT NOT NULL, fingerprint TEXT NOT NULL,
    texts TEXT NOT NULL, at TEXT NOT NULL
);
"""
_KEYWORD_TABLES = """
CREATE VIRTUAL TABLE IF NOT EXISTS chunks_fts USING fts5(
    header, text, pairs, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE IF NOT EXISTS chunks_trigram USING fts5(
    text, content='', contentless_delete=1, tokenize='trigram remove_diacritics 1');
"""


class Database:
    """An open index file, for use on the thread that opened it.

    ``notice`` is a message for the owner if a damaged file was renamed on opening, or "".
    """

    def __init__(self, path: Path, connection: apsw.Connection, drivers: Features, notice: str = "") -> None:
        self.path = path
        self.connection = connection
        self.drivers = drivers
        self.notice = notice

    @classmethod
    def open(
        cls, path: Path, settings: VectorStoreSettings, *, now: datetime, parts: AllowedFeatures | None = None
    ) -> Database:
        """Open or create the file. A damaged one, or one of another format, is renamed with the date and replaced.

        Raises:
            IndexBroken: no index file can be used at this path.
        """
        import apsw

        notice = ""
        for attempt in (1, 2):
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                return cls._open(path, settings, parts or AllowedFeatures(), notice)
            except (apsw.NotADBError, apsw.CorruptError, OtherFormat) as error:
                if attempt == 2:  # noqa: PLR2004 - a new file failed too
                    raise IndexBroken(f"the memory index {path} cannot be created: {error}", hint="homebody doctor") from error
                reason = f"of another version ({error})" if isinstance(error, OtherFormat) else f"damaged (SQLite: {error})"
                aside = set_aside(path, now).name
                notice = f"The memory index was {reason}; it was renamed to {aside} and is being rebuilt from the notes."
            except (OSError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, apsw.IOError) as error:
                wrong = path if path.is_dir() else path.parent
                raise IndexBroken(f"the memory index {path} cannot be opened: {error}", hint=f"ls -ld {wrong}") from error
        raise AssertionError("unreachable")

    @classmethod
    def _open(cls, path: Path, settings: VectorStoreSettings, parts: AllowedFeatures, notice: str) -> Database:
        import apsw

        connection = apsw.Connection(str(path))
        try:
            connection.set_busy_timeout(BUSY_SECONDS * 1_000)
            connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 16777216")
            _check(connection)
            drivers = detect_features(connection, settings, parts)
            database = cls(path, connection, drivers, notice)
            if not _is_laid_out(
                connection, keywords=drivers.keywords
            ):  # else nothing is written: another process may be writing for long
                with database.writing():
                    converted = _lay_out(connection, keywords=drivers.keywords)
                if converted:
                    shrink(connection)
        except BaseException:  # when interrupted, too: an open connection would lock the file
            connection.close()
            raise
        path.chmod(0o600)
        return database

    @contextlib.contextmanager
    def writing(self, *, wait: bool = True) -> Iterator[None]:
        """Run a transaction; nested calls are part of the outer one.

        While another process writes, it waits some seconds, or not at all; then it raises apsw.BusyError.

        Use it instead of ``with connection``, which holds the GIL during the commit and so blocks the event loop while SQLite
        merges its full-text index and writes to disk.
        """
        if self.connection.in_transaction:
            yield
            return
        with contextlib.nullcontext() if wait else self._impatient():
            self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:  # a failed transaction must not stay open
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def rows(self, sql: str, bindings: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Run a query and yield its rows."""
        return iter(self.connection.execute(sql, bindings))

    def one(self, sql: str, bindings: tuple[Any, ...] = ()) -> Any:
        """Run a query and return the only column of its only row, or the row, or None."""
        return self.connection.execute(sql, bindings).get

    def fold_in(self) -> None:
        """Checkpoint and truncate the write-ahead log, unless another connection is reading it."""
        import apsw

        with contextlib.suppress(apsw.BusyError, apsw.LockedError), self._impatient():
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextlib.contextmanager
    def _impatient(self) -> Iterator[None]:
        self.connection.set_busy_timeout(0)
        try:
            yield
        finally:
            self.connection.set_busy_timeout(BUSY_SECONDS * 1_000)

    def leave_no_trace(self) -> None:
        """Write the file anew without what was removed: SQLite keeps that in free pages, in parts of the full-text index and in the log."""
        if self.drivers.keywords:
            with self.writing():
                self.connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('optimize')")
                self.connection.execute("INSERT INTO chunks_trigram (chunks_trigram) VALUES ('optimize')")
        shrink(self.connection)
        self.fold_in()

    def close(self) -> None:
        """Close the file; SQLite checkpoints its write-ahead log."""
        self.connection.close()


def set_aside(path: Path, now: datetime) -> Path:
    """Rename a damaged index and its log, and return the new path. The files are not opened: SQLite may still hold locks."""
    aside = path.with_name(f"{path.name}.broken-{now:%Y%m%dT%H%M%S}")
    number = 2
    while aside.exists():
        aside, number = path.with_name(f"{path.name}.broken-{now:%Y%m%dT%H%M%S}-{number}"), number + 1
    path.rename(aside)
    for end in ("-wal", "-shm"):
        log = path.with_name(path.name + end)
        if log.exists():
            log.rename(aside.with_name(aside.name + end))
    return aside


def other_layout(connection: apsw.Connection, *, keywords: bool = True) -> str:
    """Return in what the tables of an index differ from those that this version writes; "" if they do not, or are missing."""
    tables = _TABLES + _KEYWORD_TABLES if keywords else _TABLES
    ours = _our_columns(tables)
    present = {name: _columns(connection, name) for name in ours}
    if present["meta"] == ours["meta"]:
        found = connection.execute("SELECT value FROM meta WHERE key = 'format'").get
        if found not in (None, str(FORMAT)):
            return "" if found == CONVERTIBLE else f"format {found}"
    return next((f"other columns in {name}" for name in ours if present[name] and present[name] != ours[name]), "")


def _is_laid_out(connection: apsw.Connection, *, keywords: bool) -> bool:
    """Whether the file is of this version and nothing is missing in it."""
    made = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    if not made.issuperset(re.findall(r"IF NOT EXISTS (\w+)", _TABLES + _KEYWORD_TABLES if keywords else _TABLES)):
        return False
    found = connection.execute("SELECT value FROM meta WHERE key = 'format'").get
    return found == str(FORMAT) and not other_layout(connection, keywords=keywords)


def _lay_out(connection: apsw.Connection, *, keywords: bool) -> bool:
    """Make the tables that are missing, or convert those of an earlier format; return whether it converted them.

    Raises:
        OtherFormat: the file has tables that are not laid out as ours.
    """
    import apsw

    if other := other_layout(connection, keywords=keywords):
        raise OtherFormat(other)
    try:
        connection.execute(_TABLES + _KEYWORD_TABLES if keywords else _TABLES)
        found = connection.execute("SELECT value FROM meta WHERE key = 'format'").get
        if found is None:
            connection.execute("INSERT INTO meta VALUES ('format', ?)", (str(FORMAT),))
        elif found == CONVERTIBLE:
            convert(connection)
    except (apsw.SQLError, apsw.ConstraintError) as error:
        raise OtherFormat(f"SQLite: {error}") from error
    if found == CONVERTIBLE and (other := other_layout(connection, keywords=keywords)):
        raise OtherFormat(other)
    return bool(found == CONVERTIBLE)


@functools.cache
def _our_columns(tables: str) -> dict[str, set[str]]:
    import apsw

    empty = apsw.Connection(":memory:")
    try:
        empty.execute(tables)
        return {name: _columns(empty, name) for name in re.findall(r"TABLE IF NOT EXISTS (\w+)", tables)}
    finally:
        empty.close()


def _columns(connection: apsw.Connection, table: str) -> set[str]:
    return {str(name) for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def _check(connection: apsw.Connection) -> None:
    """Check the file for at most half a second; a large file is checked in part."""
    import apsw

    deadline = time.monotonic() + _CHECK_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
    try:
        verdict = connection.execute("PRAGMA quick_check(1)").get
    except apsw.InterruptError:
        return
    finally:
        connection.set_progress_handler(None)
    if verdict != "ok":
        raise apsw.CorruptError(str(verdict))
