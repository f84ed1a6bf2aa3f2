"""LRU cache of embeddings, by the hash of their text."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Sequence

from memory.store.database import Database

_ASK_AT_ONCE = 500
_HALF = b"h"
"""Prefix of vectors stored as 16-bit floats; without it they are 32-bit floats."""


class EmbeddingCache:
    """Keyed by provider, model, fingerprint and text hash; the least recently used entries are evicted first.

    Vectors are stored in half precision: the index holds them in full, and the cache is only used when a text comes back.
    """

    def __init__(self, database: Database, *, enabled: bool, most: int) -> None:
        self._db = database
        self._enabled = enabled and most > 0
        self._most = most

    def find(self, embedder: tuple[str, str, str], digests: Sequence[bytes], *, now: int) -> dict[bytes, bytes]:
        """Return the known vectors among ``digests``, and mark them as recently used."""
        if not self._enabled:
            return {}
        found: dict[bytes, bytes] = {}
        for start in range(0, len(digests), _ASK_AT_ONCE):
            part = digests[start : start + _ASK_AT_ONCE]
            where = f"provider = ? AND model = ? AND fingerprint = ? AND hash IN ({','.join('?' * len(part))})"
            bindings = (*embedder, *part)
            rows = self._db.rows(f"SELECT hash, vector FROM embedding_cache WHERE {where}", bindings)  # noqa: S608 - placeholders only
            found.update((digest, _widened(vector)) for digest, vector in rows)
            self._db.connection.execute(f"UPDATE embedding_cache SET used = ? WHERE {where}", (now, *bindings))  # noqa: S608 - the same
        return found

    def keep(self, embedder: tuple[str, str, str], vectors: Iterable[tuple[bytes, bytes]], *, now: int) -> None:
        """Add vectors, and evict the least recently used beyond the limit."""
        if not self._enabled:
            return
        self._db.connection.executemany(
            "INSERT OR REPLACE INTO embedding_cache VALUES (?, ?, ?, ?, ?, ?)",
            ((*embedder, digest, _halved(vector), now) for digest, vector in vectors),
        )
        excess = int(self._db.one("SELECT count(*) FROM embedding_cache")) - self._most
        if excess > 0:
            self._db.connection.execute(
                "DELETE FROM embedding_cache WHERE rowid IN (SELECT rowid FROM embedding_cache ORDER BY used, rowid LIMIT ?)",
                (excess,),
            )

    def forget(self, embedder: tuple[str, str, str]) -> None:
        """Delete all vectors of an embedder."""
        self._db.connection.execute(
            "DELETE FROM embedding_cache WHERE provider = ? AND model = ? AND fingerprint = ?", embedder
        )

    def size(self) -> int:
        """Return the number of cached vectors."""
        return int(self._db.one("SELECT count(*) FROM embedding_cache"))


def _halved(vector: bytes) -> bytes:
    numbers = array("f", vector)
    return _HALF + struct.pack(f"<{len(numbers)}e", *numbers)


def _widened(kept: bytes) -> bytes:
    if len(kept) % 2 == 0:
        return kept
    return array("f", struct.unpack(f"<{len(kept) // 2}e", kept[len(_HALF) :])).tobytes()
