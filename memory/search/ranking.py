"""Hybrid ranking of keyword and vector candidates: the fused ranking, and the reference formula."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import TypeVar

from memory.settings import FusedSettings, HybridSettings
from memory.store.candidates import Candidate
from memory.text.dates import Span, evenly

K = TypeVar("K")

REFERENCE_MIN_SCORE = 0.35
REFERENCE_SNIPPET_CHARS = 700
REFERENCE_MOST_CANDIDATES = 200

_DAY_AFTER = 0.5
_PASSAGE = 0.5
"""What is left of the weight of a passage's vector where its lines have vectors."""
_LINE, _PAIR = 0.4, 0.6
"""Shares of the nearest line and of the nearest two in a row."""
_STEP = 0.001
"""By which share of the best score those that are in an order of time follow one another."""
_LEAST_SPREAD = 0.2
"""Smallest range of cosines that is scaled to 0..1, so that of two almost equal cosines neither becomes 0."""


def assign_ranks(candidates: Sequence[Candidate]) -> None:
    """Set the keyword and vector rank of each candidate; 1 is the best."""
    by_keyword = sorted((c for c in candidates if c.keyword is not None), key=lambda c: (-(c.keyword or 0.0), c.id))
    by_vector = sorted((c for c in candidates if c.vector is not None), key=lambda c: (-(c.vector or 0.0), c.id))
    for rank, candidate in enumerate(by_keyword, 1):
        candidate.keyword_rank = rank
    for rank, candidate in enumerate(by_vector, 1):
        candidate.vector_rank = rank


def fused_ranking(candidates: Sequence[Candidate], settings: FusedSettings, days: Sequence[Span]) -> list[Candidate]:
    """Rank by the weighted sum of both scores, each scaled to 0..1, and of how well lines match, plus a bonus for days in the query.

    The sum is scaled so that the best one is at most 1. Unlike ranks, scaled scores keep the distances between candidates. If one
    side has no candidates, the other has all the weight; a chunk without a vector is ranked by its keyword score. Where lines have
    vectors, half of the vector weight goes to their cosines; a chunk whose lines have none counts as near as its own vector
    is. Scores are comparable within one search only.
    """
    assign_ranks(candidates)
    words, vectors = _words_scaled(candidates, settings.candidates), _vectors_scaled(candidates)
    lines, pairs = _lines_scaled(candidates)
    word_weight, vector_weight = _shares(settings.text_weight if words else 0.0, settings.vector_weight if vectors else 0.0)
    if lines:
        vector_weight *= _PASSAGE
    for candidate in candidates:
        word = words.get(candidate.id, 0.0)
        vector = vectors.get(candidate.id, 0.0 if candidate.embedded else word)
        line = candidate.line
        near = settings.line_weight * line.share + settings.phrase_weight * line.phrases + settings.time_weight * line.timed
        if lines:
            near += settings.line_vector_weight * (
                _LINE * lines.get(candidate.id, vector) + _PAIR * pairs.get(candidate.id, vector)
            )
        candidate.score = word_weight * word + vector_weight * vector + near
    best = max((1.0, *(candidate.score for candidate in candidates)))
    for candidate in candidates:
        candidate.bonus = settings.date_bonus * _day_match(candidate.day, days)
        candidate.score = candidate.score / best + candidate.bonus
        if candidate.source == "sessions":
            candidate.score *= settings.transcript_weight
    return sorted(candidates, key=_order)


def spread_over_days(
    ranked: Sequence[Candidate], days: Sequence[Span], most: int, *, itself: Sequence[date] = ()
) -> list[Candidate]:
    """Put candidates of a time of several days that have no word of the query in another order.

    First come ``most`` days from all of that time, in their order; or those nearest to the days that it was counted to, nearest first.
    """
    silent = [
        c for c in ranked if c.line.share == 0.0 and c.day is not None and any(span.days > 1 and c.day in span for span in days)
    ]
    firsts = {c.day: c for c in sorted(silent, key=lambda c: (c.path, c.start_line, c.part), reverse=True) if c.day is not None}
    told = sorted(firsts, key=lambda day: (min(abs(day - one) for one in itself), day)) if itself else sorted(firsts)
    chosen = [firsts[day] for day in (told[:most] if itself else evenly(told, most))]
    ids = {c.id for c in chosen}
    best = max((c.score for c in silent), default=0.0)
    for place, candidate in enumerate([*chosen, *(c for c in silent if c.id not in ids)]):
        candidate.score = best * (1.0 - _STEP * place)
    return sorted(ranked, key=_order)


def reference_ranking(candidates: Sequence[Candidate], settings: HybridSettings, *, by_vector: bool) -> list[Candidate]:
    """Rank by the reference formula: cosine times ``vectorWeight`` plus 1 / (1 + rank) times ``textWeight``, ranks from 0.

    Without vectors (``by_vector`` False) keywords have all the weight; otherwise no result could reach the reference threshold.
    """
    assign_ranks(candidates)
    vector_weight, word_weight = _shares(settings.vector_weight if by_vector else 0.0, settings.text_weight)
    for candidate in candidates:
        word = 0.0 if candidate.keyword_rank is None else 1.0 / candidate.keyword_rank
        candidate.bonus = 0.0
        candidate.score = vector_weight * (candidate.vector or 0.0) + word_weight * word
    return sorted(candidates, key=_order)


def _day_match(day: date | None, days: Sequence[Span]) -> float:
    """Return how well a note's day matches the days in the query: 1 for one of them, 0.5 for the day after a single day.

    Events of the evening are often noted the next day.
    """
    if day is None:
        return 0.0
    if any(day in span for span in days):
        return 1.0
    return _DAY_AFTER if any(span.days == 1 and (day - span.last).days == 1 for span in days) else 0.0


def _order(candidate: Candidate) -> tuple[float, str, int, int]:
    return -candidate.score, candidate.path, candidate.start_line, candidate.part


def _words_scaled(candidates: Sequence[Candidate], most: int) -> dict[int, float]:
    """Scale keyword scores from the worst candidate to the best, or from 0 if the list is not full."""
    values = {c.id: c.keyword for c in candidates if c.keyword is not None}
    return _scaled(values, min(values.values(), default=0.0) if len(values) >= most else 0.0)


def _vectors_scaled(candidates: Sequence[Candidate]) -> dict[int, float]:
    """Scale cosines from the worst candidate to the best, over a range of at least ``_LEAST_SPREAD``."""
    return scaled_cosines({c.id: c.vector for c in candidates if c.vector is not None})


def _lines_scaled(candidates: Sequence[Candidate]) -> tuple[dict[int, float], dict[int, float]]:
    """Scale the cosines of the nearest lines, and those of the nearest two in a row, like those of passages.

    A passage of a single line has none: it counts with its own cosine among them. Empty if no candidate's lines have vectors.
    """
    if all(candidate.lines is None for candidate in candidates):
        return {}, {}
    own = {c.id: c.vector for c in candidates if c.vector is not None}
    lines = own | {c.id: c.lines.line for c in candidates if c.lines is not None}
    pairs = own | {c.id: c.lines.pair for c in candidates if c.lines is not None}
    return scaled_cosines(lines), scaled_cosines(pairs)


def scaled_cosines(values: dict[K, float]) -> dict[K, float]:
    """Scale cosines from the worst to the best, over a range of at least ``_LEAST_SPREAD``."""
    return _scaled(values, min(min(values.values(), default=0.0), max(values.values(), default=0.0) - _LEAST_SPREAD))


def _scaled(values: dict[K, float], low: float) -> dict[K, float]:
    high = max(values.values(), default=low)
    if high <= low:
        return dict.fromkeys(values, 1.0)
    return {id_: (value - low) / (high - low) for id_, value in values.items()}


def _shares(first: float, second: float) -> tuple[float, float]:
    total = first + second
    return (first / total, second / total) if total > 0 else (0.5, 0.5)
