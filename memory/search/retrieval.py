"""Runs a query: candidates from the keyword and vector indexes, ranked and merged into passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from memory.protocol import Hit
from memory.search.passages import Passage, merge_adjacent, one_per_chunk
from memory.search.ranking import (
    REFERENCE_MIN_SCORE,
    REFERENCE_MOST_CANDIDATES,
    REFERENCE_SNIPPET_CHARS,
    fused_ranking,
    reference_ranking,
)
from memory.settings import QuerySettings
from memory.store.candidates import Candidate, Lookup
from memory.store.index import Index
from memory.text.dates import Span, spans, spelt_out
from memory.text.terms import Terms, query_terms

_HARDLY = 0.05
_ANSWERED = 0.6
"""Keyword coverage from which a query counts as answered, so that its best cosine is learned as that of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A parsed query. ``audience`` is as in ``memory.notes.sources.audience_key``; ``most`` and ``min_score`` limit the results."""

    text: str
    terms: Terms
    days: tuple[Span, ...]
    audience: str | None
    vector: Sequence[float] | None
    most: int
    min_score: float | None


@dataclass(slots=True, kw_only=True)
class Retrieval:
    """Results of a query, and all candidates by rank. ``floored`` means that nothing was relevant enough to be returned."""

    hits: tuple[Hit, ...]
    ranked: list[Candidate] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    floored: bool = False
    coverage: float = 0.0
    scan: str = "none"


def build_query(
    text: str,
    settings: QuerySettings,
    *,
    today: date,
    audience: str | None,
    vector: Sequence[float] | None,
    most: int | None = None,
    min_score: float | None = None,
) -> Query:
    """Parse a query."""
    days = tuple(spans(text, today=today))
    return Query(
        text=text,
        terms=query_terms(spelt_out(text, today=today), at_least_any=not days),
        days=days,
        audience=audience,
        vector=vector,
        most=most or settings.max_results,
        min_score=settings.min_score if min_score is None else min_score,
    )


def retrieve(index: Index, question: Query, settings: QuerySettings) -> Retrieval:
    """Run a query on the index. Runs on the index thread."""
    return _reference(index, question, settings) if settings.ranking == "reference" else _fused(index, question, settings)


def _fused(index: Index, question: Query, settings: QuerySettings) -> Retrieval:
    fused = settings.fused
    found = index.lookup(
        question.terms,
        question.vector,
        days=question.days,
        audience=question.audience,
        limit=fused.candidates,
        floor=fused.floor,
    )
    ranked = fused_ranking(found.candidates, fused, question.days)
    if _is_nothing(index, found, fused.floor, question):
        return Retrieval(hits=(), ranked=ranked, floored=True, coverage=found.coverage, scan=found.scan)
    least = question.min_score or 0.0
    kept = [c for c in ranked if c.score >= least and (c.keyword is not None or c.score >= _HARDLY)]
    passages = merge_adjacent(kept, most=question.most, tokens=settings.max_tokens)
    hits = tuple(_hit(passage, settings.snippet_chars) for passage in passages)
    return Retrieval(hits=hits, ranked=ranked, passages=passages, coverage=found.coverage, scan=found.scan)


def _reference(index: Index, question: Query, settings: QuerySettings) -> Retrieval:
    hybrid = settings.hybrid
    limit = min(REFERENCE_MOST_CANDIDATES, question.most * hybrid.candidate_multiplier)
    words = question.terms if hybrid.enabled or question.vector is None else query_terms("")
    found = index.lookup(words, question.vector, days=(), audience=question.audience, limit=limit)
    ranked = reference_ranking(found.candidates, hybrid, by_vector=question.vector is not None)
    least = REFERENCE_MIN_SCORE if question.min_score is None else question.min_score
    passages = one_per_chunk([c for c in ranked if c.score >= least], most=question.most)
    chars = REFERENCE_SNIPPET_CHARS if settings.snippet_chars is None else settings.snippet_chars
    hits = tuple(_hit(passage, chars) for passage in passages)
    return Retrieval(hits=hits, ranked=ranked, passages=passages, scan=found.scan)


def _is_nothing(index: Index, found: Lookup, floor: float, question: Query) -> bool:
    """Return whether no candidate is relevant enough to be returned.

    That is so if no chunk contains the share ``floor`` of the query's words (weighted), none is of a day in the query, and no
    cosine reaches the learned similarity threshold, which differs from model to model. Until it is learned, candidates with
    a vector are returned.
    """
    cosines = [c.vector for c in found.candidates if c.vector is not None]
    if found.coverage >= _ANSWERED and cosines:
        index.similarity_threshold.learn(index.live.embedder, max(cosines))
    if not found.candidates or found.coverage >= floor:
        return False
    if any(c.day and any(c.day in span for span in question.days) for c in found.candidates):
        return False
    if not cosines:
        return True
    level = index.similarity_threshold.level(index.live.embedder)
    return level is not None and max(cosines) < level


def _hit(passage: Passage, snippet_chars: int | None) -> Hit:
    return Hit(
        path=passage.path,
        start_line=passage.start_line,
        end_line=passage.end_line,
        score=round(passage.score, 4),
        snippet=_cut(passage.text, snippet_chars),
        source=passage.source,
    )


def _cut(text: str, chars: int | None) -> str:
    """Truncate a text to ``chars`` characters, at the end of a word if possible."""
    if not chars or len(text) <= chars:
        return text
    blank = max(text.rfind(" ", chars // 2, chars + 1), text.rfind("\n", chars // 2, chars + 1))
    return text[: blank if blank > 0 else chars]
