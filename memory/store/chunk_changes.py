"""What a changed file changes in an index: which of its chunks are new, which only moved, and which are gone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from memory.text.chunks import Chunk
from memory.text.dates import day_of, header

Placed = tuple[int, int, int, int]
"""Id, first line, last line and part of a chunk in the index."""


class HashedChunk(Struct, frozen=True):
    """A chunk with the hash of what is embedded and its heading with the day."""

    digest: bytes
    head: str
    chunk: Chunk


class ChunkChanges(Struct):
    """New chunks; those that are elsewhere in the file now, with their new places; the ids of those that are gone."""

    new: list[HashedChunk] = field(default_factory=list)
    moved: list[Placed] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)


def hashed(chunks: Iterable[Chunk], path: str) -> list[HashedChunk]:
    """Hash the chunks of a file."""
    day = day_of(path)
    found: list[HashedChunk] = []
    for chunk in chunks:
        head = header(day, chunk.heading)
        said = f"{head}\n{chunk.text}" + f"\x00{chunk.words}" * bool(chunk.words)
        found.append(HashedChunk(hashlib.sha256(said.encode("utf-8", "replace")).digest()[:16], head, chunk))
    return found


def changes(held: Iterable[tuple[bytes, int, int, int, int]], chunks: Sequence[HashedChunk]) -> ChunkChanges:
    """Compare the chunks of a file with those that the index holds of it (hash, id, first line, last line, part; newest first)."""
    old: dict[bytes, list[Placed]] = {}
    for digest, *row in held:
        old.setdefault(digest, []).append((row[0], row[1], row[2], row[3]))
    found = ChunkChanges()
    for one in chunks:
        if not old.get(one.digest):
            found.new.append(one)
            continue
        known, chunk = old[one.digest].pop(), one.chunk
        if known[1:] != (chunk.start_line, chunk.end_line, chunk.part):
            found.moved.append((known[0], chunk.start_line, chunk.end_line, chunk.part))
    found.gone = [row[0] for rows in old.values() for row in rows]
    return found
