"""One search: what both sides propose, ranked and joined, unless nothing comes close."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memory.protocol import Hit
from memory.search.passages import merge_adjacent, one_per_chunk
from memory.search.ranking import (
    REFERENCE_MIN_SCORE,
    REFERENCE_MOST_CANDIDATES,
    REFERENCE_SNIPPET_CHARS,
    fused_ranking,
    reference_ranking,
)
from memory.text.dates import spans, spelt_out
from memory.text.terms import query_terms

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from memory.search.passages import Passage
    from memory.settings import QuerySettings
    from memory.store.candidates import Candidate, Lookup
    from memory.store.index import Index
    from memory.text.dates import Span
    from memory.text.terms import Terms


_HARDLY = 0.05
_ANSWERED = 0.6
"""Share of a question from which on its words count as an answer, so that its vectors show how near an answer is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked, by whom (``audience`` as in ``memory.notes.sources.audience_key``) and how much may come back."""

    text: str
    terms: Terms
    days: tuple[Span, ...]
    audience: str | None
    vector: Sequence[float] | None
    most: int
    min_score: float | None


@dataclass(slots=True, kw_only=True)
class Retrieval:
    """What a search found, and every candidate in its order. ``floored`` says that the nearest was not near enough."""

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
    """Make a question of what somebody typed."""
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
    """Answer a question from the index. Runs on the store's thread."""
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
    """Say whether the nearest is too far off to be shown.

    That is so when no chunk holds ``floor`` of the question's words by weight, none is of a day that it names, and no vector is
    as near as those of questions were whose words were found. How near that is differs from model to model, so it is learned;
    until enough such questions were asked, whatever is near by its vector is shown.
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
    """Return the beginning of a text, ``chars`` characters at most, to the end of a word where there is one."""
    if not chars or len(text) <= chars:
        return text
    blank = max(text.rfind(" ", chars // 2, chars + 1), text.rfind("\n", chars // 2, chars + 1))
    return text[: blank if blank > 0 else chars]
