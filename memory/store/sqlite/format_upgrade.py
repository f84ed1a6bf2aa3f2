"""Converts an index file of an earlier format in place, so that nothing is embedded again: embedding may cost money."""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING

from memory.store.packed_vectors import packed

if TYPE_CHECKING:
    import apsw

CONVERTIBLE = "1"
_HALF = b"h"
"""Prefix of vectors that format 1 kept as 16-bit floats; without it they are 32-bit floats."""
_NEW_EMBEDDER = "INSERT OR IGNORE INTO embedders (provider, model, fingerprint)"
_TABLES = ("chunks_vec", "chunks_vec_alt", "vectors_plain")


class OtherFormat(Exception):
    """Raised for a file whose tables are neither ours nor of a format that can be converted."""


def convert(connection: apsw.Connection) -> None:
    """Convert the file, which is of the format ``CONVERTIBLE``, and whose new tables exist already. Runs inside a transaction."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    for role in ("live", "building"):
        _take_generation(connection, role, tables)
    connection.execute(f"{_NEW_EMBEDDER} SELECT provider, model, fingerprint FROM embedding_cache")  # noqa: S608 - constants only
    connection.executemany(
        "INSERT OR IGNORE INTO vectors (embedder, hash, used, vector) VALUES (?, ?, ?, ?)", _cached(connection)
    )
    connection.execute("UPDATE chunks SET embedded = 0 WHERE embedded = 1 AND hash NOT IN (SELECT hash FROM vectors)")
    for name in {*_TABLES, "embedding_cache"} & tables:
        connection.execute(f"DROP TABLE {name}")
    connection.execute("UPDATE meta SET value = '2' WHERE key = 'format'")


def shrink(connection: apsw.Connection) -> None:
    """Give back the space of what was dropped. It may fail: a full disk has no room for the copy that this needs."""
    import apsw

    try:
        connection.execute("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
    except (apsw.FullError, apsw.IOError, apsw.BusyError):
        return


def _take_generation(connection: apsw.Connection, role: str, tables: set[str]) -> None:
    """Take the vectors of a generation out of its own table, and drop the table's name from its description."""
    value = connection.execute("SELECT value FROM meta WHERE key = ?", (role,)).get
    if value is None:
        return
    generation = json.loads(value)
    table = generation.pop("table", "")
    connection.execute("UPDATE meta SET value = ? WHERE key = ?", (json.dumps(generation), role))
    if table not in tables & set(_TABLES):
        return
    who = (generation["provider"], generation["model"], generation["fingerprint"])
    connection.execute(f"{_NEW_EMBEDDER} VALUES (?, ?, ?)", who)
    sql = f"SELECT c.hash, v.embedding FROM chunks c JOIN {table} v ON v.id = c.id WHERE c.embedded = 1"  # noqa: S608 - a name of ours
    connection.executemany(
        """INSERT OR IGNORE INTO vectors (embedder, hash, used, vector)
           SELECT id, ?, ?, ? FROM embedders WHERE provider = ? AND model = ? AND fingerprint = ?""",
        ((digest, 0, packed(array("f", data)), *who) for digest, data in connection.execute(sql)),
    )


def _cached(connection: apsw.Connection) -> Iterator[tuple[object, ...]]:
    sql = """SELECT e.id, c.hash, c.used, c.vector FROM embedding_cache c JOIN embedders e
             ON e.provider = c.provider AND e.model = c.model AND e.fingerprint = c.fingerprint"""
    for who, digest, used, kept in connection.execute(sql):
        yield who, digest, used, packed(_widened(kept))


def _widened(kept: bytes) -> array[float]:
    if len(kept) % 2 == 0:
        return array("f", kept)
    return array("f", struct.unpack(f"<{len(kept) // 2}e", kept[len(_HALF) :]))
