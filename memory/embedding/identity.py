"""Identity of an embedder: decides whether cached vectors can be reused and whether an index must be rebuilt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from memory.embedding.protocol import Embedder

_TELLS_WHO = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"})
"""Headers that identify the caller and do not change vectors: a new key must not rebuild an index."""


_EDGE = 64 << 10


class CacheKey(NamedTuple):
    """The primary key of the embedding cache, in this order."""

    provider: str
    model: str
    fingerprint: str
    text_hash: str


def text_hash(text: str) -> str:
    """SHA-256 of a text, as hex. Lone surrogates count as question marks, as they do when sent."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def cache_key(embedder: Embedder, text: str) -> CacheKey:
    """Say under which key the passage vector of ``text`` by ``embedder`` is cached."""
    return CacheKey(embedder.provider, embedder.model, embedder.fingerprint, text_hash(text))


def fingerprint(
    provider: str, model: str, *, base_url: str = "", dimensions: int | None = None, headers: Iterable[str] = (), file: str = ""
) -> str:
    """Hash everything that changes the vectors of a text: the address, the model, its file, and the names of request headers.

    Keys and header values stay out, so that a changed key costs nothing.
    """
    names = sorted({name.casefold() for name in headers} - _TELLS_WHO)
    parts = [provider, base_url.rstrip("/"), model, dimensions, names, file]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def file_identity(path: Path) -> str:
    """Identify a model file by its size and a hash of its first and last bytes; hashing all of it would take a second."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_EDGE)
            file.seek(max(0, size - _EDGE))
            return hashlib.sha256(str(size).encode() + head + file.read(_EDGE)).hexdigest()
    except OSError:
        return "unreadable"


Identity = tuple[str, str, str]
"""Provider, model and fingerprint of an embedder."""


def identity_of(embedder: Embedder) -> Identity:
    """Return the identity of an embedder. It changes when a fallback takes over."""
    return embedder.provider, embedder.model, embedder.fingerprint
