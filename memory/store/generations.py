"""What every index consists of: generations of files and chunks, whose ids are numbered by generation."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from msgspec import Struct

from memory.notes.sources import Stamp

_SHIFT = 40
"""A chunk id is the generation number, shifted left by this, plus a counter: a generation is a range of ids."""

INDEXING_VERSION = 3
"""Version of the chunking and indexing rules. When it is raised, notes are indexed again in a new generation."""

DONE, REFUSED = 1, 2
"""Values of ``chunks.embedded`` for a chunk with a vector, and one that the embedder refused; 0: no vector yet."""

REFUSED_FOR = 86_400
"""Seconds after which a refused text is embedded again."""

_FEW = 20
_MISSING_SHARE = 0.1


class Generation(Struct, frozen=True):
    """One complete state of the index: chunk size, and the embedder of its vectors (``provider`` is "" without vectors)."""

    number: int
    tokens: int
    overlap: int
    provider: str = ""
    model: str = ""
    fingerprint: str = ""
    dims: int = 0
    rules: int = 1

    @property
    def first_id(self) -> int:
        """The lowest id that a chunk of it can have."""
        return self.number << _SHIFT

    @property
    def last_id(self) -> int:
        """The highest."""
        return ((self.number + 1) << _SHIFT) - 1

    @property
    def embedder(self) -> tuple[str, str, str]:
        """Whose vectors it has."""
        return self.provider, self.model, self.fingerprint

    def is_cut(self, tokens: int, overlap: int) -> bool:
        """Whether its notes are cut into chunks of this size, by the present rules."""
        return (self.tokens, self.overlap, self.rules) == (tokens, overlap, INDEXING_VERSION)


class IndexedFile(Struct, frozen=True):
    """Index entry of a file. ``settled`` is False if it was written so recently that its stamp may not show another change.

    ``audience``: who besides the owner may see it (see ``NoteSources.audience_of``); None if that is not stored, as nothing of it is.
    """

    digest: bytes | None
    stamp: Stamp
    settled: bool
    trouble: str
    audience: str | None = ""


class Followed(Struct):
    """What is known of the files of a source that a generation is up to date to."""

    marks: array[int]
    """One number for each file that is indexed as it is on disk, in the order in which they are found; 0 for any other."""
    troubles: dict[str, str]
    """What is wrong with which of the files."""


class Missing(Struct, frozen=True, kw_only=True):
    """A chunk without a vector, and the text to embed."""

    id: int
    digest: bytes
    text: str


class LinesMissing(Struct, frozen=True, kw_only=True):
    """A passage whose lines have no vectors: the texts to embed. ``key`` is known to the index alone."""

    key: int
    texts: Sequence[str]


def allowed_missing(total: int) -> int:
    """Return how many of the chunks may lack a vector while vectors are searched."""
    return max(min(_FEW, total // 2), int(total * _MISSING_SHARE))
