"""Candidates of a search, as the index returns them, and the cosines that answers have."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

from msgspec import Struct, field

from memory.notes.sources import Source


class LineMatch(NamedTuple):
    """How well the best line of a passage matches a query, in numbers from 0 to 1.

    ``share`` is the weighted share of the query's words in it, where those of the lines beside it count half. ``phrases`` tells how
    many of its words follow one another as in the query; three pairs are 1. ``timed`` is the share of the best line that also names
    a time, if the query asks when something was.
    """

    share: float
    phrases: float
    timed: float


NO_MATCH = LineMatch(0.0, 0.0, 0.0)
MOST_DATED, MOST_TOLD_LATER = 60, 20
"""Chunks of a time in a query that are candidates whatever they say, and those of the day after a single day, when some is told."""
BARE = 0.1
"""Factor for the keyword score of headings without text, so that they rank below notes with content."""


class LineCosines(NamedTuple):
    """The cosine of the nearest line of a passage (short lines count as one), and that of the nearest two in a row, by their mean.

    ``each`` are those of all of them, in their order.
    """

    line: float
    pair: float
    each: tuple[float, ...] = ()


class Candidate(Struct, kw_only=True):
    """A chunk found by the keyword index, the vector index or both.

    ``keyword`` is BM25 (higher is better), ``vector`` the cosine; None if that index did not find it. ``embedded`` is False for
    a chunk that has no vector yet; ``lines`` is None where lines have none. ``line`` is measured by
    ``memory.search.line_matches``; ``score`` and ``bonus`` are set by the ranking.
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
    lines: LineCosines | None = None
    keyword_rank: int | None = None
    vector_rank: int | None = None
    line: LineMatch = NO_MATCH
    bonus: float = 0.0
    score: float = 0.0


class Lookup(Struct, kw_only=True):
    """Candidates of a query. ``coverage`` is the weighted share of the query's words in the best keyword candidate.

    ``total`` is the approximate number of chunks, ``weights`` those of the query's words, ``languages`` those of the notes besides
    English, ``alike`` the words that were searched instead of one that no chunk contains.
    """

    candidates: list[Candidate] = field(default_factory=list)
    coverage: float = 0.0
    total: int = 0
    scan: str = "none"
    weights: dict[str, float] = field(default_factory=dict)
    languages: tuple[str, ...] = ()
    alike: Mapping[str, Sequence[str]] = field(default_factory=dict)


_REMEMBERED = 100
ENOUGH = 20
_LOW, _HIGHEST, _LOWEST = 0.05, 2.0, -3.0
"""Quantile of the answers' cosines that counts as 0, and the bounds of what is told of another cosine."""


class AnswerCosines:
    """Learns which cosines answers have in this index: at first from questions made of its lines, then from queries that were answered.

    Cosines of different models, languages and notes are not comparable; ``embedder`` is any value that identifies the model by
    equality.
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

    def place(self, embedder: object, cosine: float) -> float | None:
        """Say where a cosine is among those of answers: 0 at a low one, 1 at the median; None until 20 are known."""
        if embedder != self._of or len(self._seen) < ENOUGH:
            return None
        ordered = sorted(self._seen)
        low, median = ordered[int(_LOW * len(ordered))], ordered[len(ordered) // 2]
        if median <= low:
            return 1.0 if cosine >= low else _LOWEST
        return max(_LOWEST, min(_HIGHEST, (cosine - low) / (median - low)))

    def median(self, embedder: object) -> float | None:
        """Return the median of the cosines that answers have; None until 20 are known."""
        return sorted(self._seen)[len(self._seen) // 2] if self.count(embedder) >= ENOUGH else None

    def count(self, embedder: object) -> int:
        """Return how many cosines are known of a model."""
        return len(self._seen) if embedder == self._of else 0

    def known(self) -> list[float]:
        """Return what was learned, for the next start."""
        return list(self._seen)

    def recall(self, embedder: object, cosines: Sequence[float]) -> None:
        """Take up what was learned before this start."""
        self._of, self._seen = embedder, deque(cosines, maxlen=_REMEMBERED)
