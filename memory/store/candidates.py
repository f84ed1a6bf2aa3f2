"""Candidates of a search, as the index returns them, and the learned similarity threshold."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import date

from memory.notes.sources import Source


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A chunk found by the keyword index, the vector index or both.

    ``keyword`` is BM25 (higher is better), ``vector`` the cosine; None if that index did not find it. ``embedded`` is
    False for a chunk that has no vector yet. ``score`` and ``bonus`` are set by the ranking.
    """

    id: int
    path: str
    source: Source
    start_line: int
    end_line: int
    part: int
    day: date | None
    text: str
    header: str = ""
    embedded: bool = True
    keyword: float | None = None
    vector: float | None = None
    keyword_rank: int | None = None
    vector_rank: int | None = None
    bonus: float = 0.0
    score: float = 0.0


@dataclass(slots=True, kw_only=True)
class Lookup:
    """Candidates of a query. ``coverage`` is the weighted share of the query's words in the best keyword candidate.

    ``total`` is the approximate number of chunks.
    """

    candidates: list[Candidate] = field(default_factory=list)
    coverage: float = 0.0
    total: int = 0
    scan: str = "none"


_REMEMBERED = 100
_ENOUGH = 20


class SimilarityThreshold:
    """Learns the cosine that an answer has at least, from queries that were answered by keywords.

    Cosines of different models are not comparable; ``embedder`` is any value that identifies the model by equality.
    """

    def __init__(self) -> None:
        self._of: object = None
        self._seen: deque[float] = deque(maxlen=_REMEMBERED)

    def learn(self, embedder: object, best: float) -> None:
        """Record the best cosine of a query that was answered by keywords."""
        if embedder != self._of:
            self._of = embedder
            self._seen.clear()
        self._seen.append(best)

    def level(self, embedder: object) -> float | None:
        """Return the lowest of the recorded cosines; None until there are 20."""
        return min(self._seen) if embedder == self._of and len(self._seen) >= _ENOUGH else None
