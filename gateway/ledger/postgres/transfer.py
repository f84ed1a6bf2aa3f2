"""Copies a whole ledger between PostgreSQL and an SQLite file, and compares each row afterwards."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Final

import apsw
import psycopg
from psycopg import sql

from gateway.base.atomic_file import sync
from gateway.base.errors import StorageFailed
from gateway.ledger.postgres.engine import PostgresEngine, lock
from gateway.ledger.postgres.postgres_connection import connected, place, storable
from gateway.ledger.postgres.postgres_errors import storage_error
from gateway.ledger.postgres.postgres_schema import OWN_ROWS, version_of
from gateway.ledger.schema import migrate

ORDER: Final = {
    "meta": "name",
    "turn": "rowid",
    "tool_call": "turn, call_id",
    "inbox": "id",
    "cursor": "account, name",
    "outbox": "id",
    "pairing": "rowid",
    "approved": "rowid",
    "spending": "id",
    "aside": "id",
    "moved": "rowid",
    "approval": "rowid",
    "hook": "id",
    "subagent": "rowid",
    "job": "rowid",
    "job_run": "rowid",
    "unasked": "id",
}
"""All tables, those first that others refer to, and the order of their rows."""
_AT_A_TIME: Final = 1000
_NUMBERED: Final = ("inbox", "outbox", "aside", "unasked")
"""Tables of the file whose numbers are never used twice."""
_LEFT_OUT: Final = (*OWN_ROWS, "log", "syncs")
"""Rows of ``meta`` that are about one engine."""
Counts = dict[str, int]
Told = Callable[[str, int], None]
Connection = psycopg.Connection[Any]


def _nothing(_there: Connection) -> Counts:
    return {}


def to_file(
    url: str,
    schema: str,
    file: Path,
    epoch: str,
    told: Told = lambda *_: None,
    *,
    also: Callable[[Connection], Counts] = _nothing,
) -> Counts:
    """Write the ledger as it is now into a new file. A gateway may use it meanwhile. Returns the number of rows by table. Blocking.

    ``also`` reads more of the same moment.

    Raises:
        StorageFailed: it cannot be read or written, or what was written differs; the file is deleted then.
    """
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    try:
        with connected(url, schema) as there, there.transaction():
            there.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            _must_be_there(there, schema, place(url, schema))
            here = apsw.Connection(str(file))
            try:
                here.pragma("foreign_keys", "OFF")
                migrate(here, epoch, str(file))
                counts = _fill_file(here, there, told)
                _compare(here, there)
            finally:
                here.close()
            counts |= also(there)
    except BaseException as error:  # also when interrupted: half a ledger is none
        file.unlink()
        raise _translated(error, place(url, schema), file) from error
    sync(file)
    return counts


def from_file(
    file: Path,
    url: str,
    schema: str,
    token: str,
    told: Told = lambda *_: None,
    *,
    keep: bool = True,
    also: Callable[[Connection], Counts] = _nothing,
) -> Counts:
    """Write the ledger in a file, which nobody has open, into a database that holds none, or the same. Returns the rows by table. Blocking.

    All of it is one transaction, which is undone where ``keep`` is false. The file is brought to the present version first. ``also`` writes
    more in that transaction.

    Raises:
        StorageFailed: the database has a ledger or cannot hold one, or what was written differs; nothing is changed then.
    """
    try:
        here = apsw.Connection(str(file))
        try:
            here.pragma("foreign_keys", "OFF")
            migrate(here, token, str(file))

            def fill(there: Connection) -> Counts:
                held = holds_rows(there)
                counts = _counts(here) if held else _fill_database(here, there, told)
                try:
                    _compare(here, there)
                except StorageFailed as error:
                    raise (_another(place(url, schema), held) if held else error) from error
                return counts | also(there)

            counts = into_database(url, schema, token, fill, keep=keep)
        finally:
            here.close()
    except (psycopg.Error, apsw.Error, OSError) as error:
        raise _translated(error, place(url, schema), file) from error
    return counts


def into_database(url: str, schema: str, token: str, fill: Callable[[Connection], Counts], *, keep: bool = True) -> Counts:
    """Run ``fill`` in one transaction of a database that is opened as a gateway opens it. Raises psycopg.Error.

    The transaction is undone where ``keep`` is false.
    """
    with connected(url, schema) as there:
        fresh = there.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is None
    engine = PostgresEngine(url, schema, token, lambda _: None)
    try:
        with engine.db.connection.transaction(force_rollback=not keep):
            counts = fill(engine.db.connection)
            _describe(engine.db.connection)
            return counts
    finally:
        if fresh and not keep:
            engine.db.connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
        engine.close()


def _describe(there: psycopg.Connection[Any]) -> None:
    """Have the server count what its tables hold: until it does so by itself it takes full ones for small."""
    tables = there.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
    there.execute(sql.SQL("ANALYZE {}").format(sql.SQL(", ").join(sql.Identifier(name) for (name,) in tables)))


def _must_be_there(there: psycopg.Connection[Any], schema: str, where: str) -> None:
    if not version_of(there, schema, where):
        raise StorageFailed(
            "there is no ledger in this database", where=where, hint="Is it the right one, and the right schema?"
        )


def _fill_file(here: apsw.Connection, there: psycopg.Connection[Any], told: Told) -> Counts:
    counts = {}
    with here:
        here.execute("DELETE FROM meta")
        for table in ORDER:
            columns = _columns(here, table)
            insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
            counts[table] = 0
            for rows in _parts(_rows_there(there, table, columns)):
                here.executemany(insert, rows)
                counts[table] += len(rows)
                told(table, counts[table])
        for table in _NUMBERED:
            found = there.execute("SELECT pg_sequence_last_value(pg_get_serial_sequence(%s, 'id'))", (table,)).fetchone()
            here.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
            here.execute("INSERT INTO sqlite_sequence VALUES (?, ?)", (table, (found or (0,))[0] or 0))
    return counts


def holds_rows(there: Connection) -> str:
    """Return a table of the ledger that has rows, "" if none has."""
    for table in ORDER:
        if table != "meta" and there.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone():
            return table
    return ""


def _another(where: str, table: str) -> StorageFailed:
    return StorageFailed(
        f"the database holds a ledger already, which is not the one in the file (its table {table} has rows)",
        where=where,
        hint="Move the file away to go on with the database, or name an empty schema for it: homebody config set storage.schemaName NAME",
    )


def _counts(here: apsw.Connection) -> Counts:
    return {table: sum(1 for _ in _rows_here(here, table, _columns(here, table))) for table in ORDER}


def _fill_database(here: apsw.Connection, there: psycopg.Connection[Any], told: Told) -> Counts:
    there.execute("DELETE FROM meta WHERE NOT name = ANY(%s)", (list(OWN_ROWS),))
    counts = {}
    for table in ORDER:
        columns = _columns(here, table)
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        counts[table] = 0
        for rows in _parts(_rows_here(here, table, columns)):
            with (
                there.cursor() as cursor,
                cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)) as writing,
            ):
                for row in rows:
                    writing.write_row(row)
            counts[table] += len(rows)
            told(table, counts[table])
        if ORDER[table] == "id" and table != "hook" and (last := _last_number(here, table)):
            there.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", (table, last))
    return counts


def _last_number(here: apsw.Connection, table: str) -> int:
    found = [one for (one,) in here.execute(f"SELECT max(id) FROM {table}")]
    found += [one for (one,) in here.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))]
    return max(int(str(one or 0)) for one in found)


def _compare(here: apsw.Connection, there: psycopg.Connection[Any]) -> None:
    """Raises StorageFailed for the first row that is not the same on both sides."""
    for table in ORDER:
        columns = _columns(here, table)
        pairs = zip_longest(_rows_here(here, table, columns), _rows_there(there, table, columns))
        for number, (ours, theirs) in enumerate(pairs, 1):
            if ours != theirs:
                raise StorageFailed(
                    f"row {number} of the table {table} is not the same on both sides", hint="Nothing was changed."
                )


def _columns(here: apsw.Connection, table: str) -> list[str]:
    return [str(name) for (name,) in here.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def _rows_here(here: apsw.Connection, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for row in here.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {ORDER[table]}"):
        if table != "meta" or row[0] not in _LEFT_OUT:
            yield tuple(storable(value) for value in row)


def _rows_there(there: psycopg.Connection[Any], table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    query = sql.SQL("SELECT {} FROM {} ORDER BY {}").format(names, sql.Identifier(table), sql.SQL(ORDER[table]))
    with there.cursor(f"all_{table}") as cursor:
        cursor.itersize = _AT_A_TIME
        for row in cursor.execute(query):
            if table != "meta" or row[0] not in _LEFT_OUT:
                yield tuple(row)


def _parts(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    while part := list(islice(rows, _AT_A_TIME)):
        yield part


def _translated(error: BaseException, where: str, file: Path) -> BaseException:
    if isinstance(error, psycopg.Error):
        return storage_error(error, where) or error
    if isinstance(error, OSError):
        return StorageFailed.from_os(error, "copy the ledger", file)
    if isinstance(error, apsw.Error):
        return StorageFailed(f"the ledger cannot be copied: {error}", where=str(file))
    return error


@contextlib.contextmanager
def held_alone(url: str, schema: str) -> Iterator[Connection]:
    """Keep gateways away from a ledger as long as the context lasts. Blocking. Raises StorageFailed where one uses it."""
    where = place(url, schema)
    try:
        there = connected(url, schema)
        try:
            lock(there, schema, where, hint="Stop every gateway that uses it first, also on other machines: homebody stop")
            yield there
        finally:
            there.close()
    except psycopg.Error as error:
        raise storage_error(error, where) or error from error


def rename(there: Connection, url: str, schema: str, new: str, put: Callable[[], Callable[[], None]]) -> None:
    """Give the schema of a ledger that ``there`` holds alone another name, and have ``put`` do what belongs to it: both, or nothing.

    ``put`` returns what undoes it. Blocking. Closes the connection where it fails. Raises StorageFailed and psycopg.Error.
    """
    undo: Callable[[], None] | None = None
    try:
        with there.transaction():
            there.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(sql.Identifier(schema), sql.Identifier(new)))
            undo = put()
    except BaseException as error:  # also when interrupted
        there.close()  # what is not committed is undone
        if undo is not None:
            if not _is_renamed(url, schema, new):
                undo()
            elif isinstance(error, psycopg.Error):  # the answer alone was lost
                return
        raise


def _is_renamed(url: str, schema: str, new: str) -> bool:
    """Look whether a commit happened whose answer was lost, once the connection that it was sent on has ended there."""
    try:
        with held_alone(url, schema) as there:
            return there.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (new,)).fetchone() is not None
    except (StorageFailed, psycopg.Error) as error:
        raise StorageFailed(
            f"the connection was lost at the last step, and it is not known whether the database was left: {error}",
            where=place(url, schema),
            hint="When it answers again: `homebody storage migrate --to postgresql` compares both sides. Then run this command again.",
        ) from error
