"""How near, by an embedder's vectors, an answer is to its question: learned from questions whose words were found."""

from __future__ import annotations

from collections import deque

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
