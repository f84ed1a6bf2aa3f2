"""Candidates of a search, as the index returns them, and the learned similarity threshold."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date

    from memory.notes.sources import Source


@dataclass(slots=True, kw_only=True)
class Candidate:
    """A chunk that one side or the other proposed.

    ``keyword`` is BM25 (higher is better), ``vector`` the cosine; None where that side did not propose it. ``embedded`` is
    False for a chunk whose vector is still to come. ``score`` and ``bonus`` are set by the ranking.
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
    """What both sides propose. ``coverage`` is the share of the question that the best keyword hit holds.

    ``total`` is about how many chunks there are.
    """

    candidates: list[Candidate] = field(default_factory=list)
    coverage: float = 0.0
    total: int = 0
    scan: str = "none"


_REMEMBERED = 100
_ENOUGH = 20


class SimilarityThreshold:
    """Remembers the best cosine of questions that were answered by their words. Cosines of two models do not compare.

    ``embedder`` is whatever tells one model from another by equality.
    """

    def __init__(self) -> None:
        self._of: object = None
        self._seen: deque[float] = deque(maxlen=_REMEMBERED)

    def learn(self, embedder: object, best: float) -> None:
        """Take note of a question that was answered, and how near the nearest vector was to it."""
        if embedder != self._of:
            self._of = embedder
            self._seen.clear()
        self._seen.append(best)

    def level(self, embedder: object) -> float | None:
        """Return how near the least near of them was; None until there are enough."""
        return min(self._seen) if embedder == self._of and len(self._seen) >= _ENOUGH else None
