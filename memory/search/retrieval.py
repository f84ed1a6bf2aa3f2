"""Runs a query: candidates from the keyword and vector indexes, ranked, merged into passages, and explained."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

from msgspec import Struct, field, structs

from memory.protocol import Hit
from memory.search.best_lines import FileLines, best_lines
from memory.search.line_matches import LineMatches
from memory.search.passages import Passage, cut_by, merge_adjacent, one_per_chunk
from memory.search.ranking import (
    REFERENCE_MIN_SCORE,
    REFERENCE_MOST_CANDIDATES,
    REFERENCE_SNIPPET_CHARS,
    fused_ranking,
    reference_ranking,
    spread_over_days,
)
from memory.settings import QuerySettings
from memory.store.candidates import Candidate, Lookup
from memory.store.index import Index
from memory.store.keyword_hits import weight_of
from memory.text.asking_words import asking_words
from memory.text.dates import Span, day_after, day_words, spans, spelt_out, time_words
from memory.text.figure_dates import Order
from memory.text.folding import folded
from memory.text.terms import Terms, query_terms
from memory.text.times import asks_what, asks_when
from memory.text.written_days import names_a_day

_LONGEST_SEASON = 92
_YEAR = re.compile(r"(?:19|20)\d\d")
_HARDLY = 0.05
_LEAST_OF_FLOOR, _WHOLE_FLOOR_FROM = 0.6, 100
"""The floor applies in full from so many chunks on. With fewer, fewer lines hold words of a question by chance, and fewer words of one that
they answer: the floor falls with the logarithm of their number, to this share of it."""
_IN_ORDER, _BY_COSINE = 0.15, 0.15
"""How much words in the order of the query, and a cosine, count for relevance, beside the share of words."""
_SHORT_SPAN, _FEW_WORDS = 7, 2
"""Days of a time whose notes are relevant whatever they say, and words from which on those of a longer time are judged by them."""
_ALL_WORDS = 0.999
_LEAST_OF_WORDS, _HALF, _MOST_SILENT = 0.25, 0.5, 4
"""Least share of the other words of a query, and of the best such share, by which a note of a day in it answers it, and how many notes of
a range of days come first without them."""
_ALIKE_BELOW = 0.3
"""Keyword coverage below which unknown words are searched in other forms; more would find something for every question."""
_MOST_NEAREST, _NEAREST_TOKENS = 3, 240
"""Passages and tokens at most of what is told of a question that nothing is relevant to."""
_HALF_WAY = 0.5
"""How much of the way from the cosines of other passages to those of answers one has to be nearer, for the nearest to be told of."""
_FEWEST_OTHERS, _OF_FEW = 8, 2
"""How many other passages there must be to judge that, and how many are told of where there are fewer."""
_ANSWERED = 0.6
"""Keyword coverage from which a query counts as answered, so that its best cosine is learned as that of an answer."""


class Query(Struct, frozen=True, kw_only=True):
    """A parsed query. ``audience`` is as in ``memory.notes.sources.audience_key``; ``most`` and ``min_score`` limit the results.

    ``may_see`` says of the path of a note whether that audience may see it now: an index that was not updated since may say otherwise.

    ``searched`` are the terms and the months of a month or season in the query, as headers have them; ``besides`` are the terms
    without the names of months, seasons and years, which notes of that time need not have, and without those of single days in
    figures or counted from today. Neither have words that only ask what was done at a time. ``unsaid`` tells that the terms lack a
    word for a month, season or year, which counts where it has no notes; ``of_a_day`` that such a day is named, and ``literals``
    are its figures. ``exact`` are single days and ranges of days, and ``phrases`` what it says of them; ``itself`` are the days that
    it counts to where some before and after are meant as well. Without ``most`` the settings say how many, and a short time brings each
    of its days.
    """

    text: str
    terms: Terms
    searched: Terms
    besides: Terms
    unsaid: bool
    of_a_day: bool
    literals: tuple[str, ...]
    days: tuple[Span, ...]
    exact: tuple[Span, ...]
    phrases: tuple[str, ...]
    itself: tuple[date, ...]
    audience: str | None
    may_see: Callable[[str], bool]
    vector: Sequence[float] | None
    most: int | None
    min_score: float | None


class Retrieval(Struct, kw_only=True):
    """Results of a query, and all candidates by rank. ``floored`` means that nothing reached the ``floor`` of relevance.

    ``nearest`` are then lines of passages that are nearly as near the query in meaning as answers are, and nearer than others.
    """

    hits: tuple[Hit, ...]
    nearest: tuple[Hit, ...] = ()
    ranked: list[Candidate] = field(default_factory=list)
    passages: Sequence[Passage | FileLines] = ()
    floored: bool = False
    floor: float = 0.0
    coverage: float = 0.0
    scan: str = "none"


def build_query(
    text: str,
    settings: QuerySettings,
    *,
    today: date,
    order: Order = "unknown",
    audience: str | None,
    may_see: Callable[[str], bool] = lambda _: True,
    vector: Sequence[float] | None,
    most: int | None = None,
    min_score: float | None = None,
) -> Query:
    """Parse a query. ``order`` is that of its dates in figures with slashes."""
    days = tuple(spans(text, today=today, order=order))
    terms = query_terms(spelt_out(text, today=today, order=order), at_least_any=not days)
    day = day_words(text, today=today, order=order)
    rest = query_terms(day.rest, at_least_any=not days)
    if days:
        whole_year = any(span.days > _LONGEST_SEASON for span in days)  # a year is in most notes of it: its words do
        code = (code for code in (*day.literals, *day.years, *rest.code) if not (whole_year and _YEAR.fullmatch(code)))
        terms = structs.replace(terms, code=tuple(dict.fromkeys(code)))
    time = time_words(text, today=today, order=order)
    said = _without(terms, time.beside)
    besides = _without(_without(rest if day.exact else said, time.beside), time.names)
    unsaid = bool(time.names) and (said != terms or besides == said)
    asked = frozenset(folded(word) for word in besides.words)
    if days and asks_what(asked):
        said, besides = _without(said, asked), _without(besides, asked)
    elif len(besides.words) >= _FEW_WORDS:  # what it asks for may be told of some days before or after
        days = tuple(spans(text, today=today, order=order, widely=True))
    if besides:
        said = _without(said, time.parts)
    return Query(
        text=text,
        terms=said,
        searched=structs.replace(said, words=(*said.words, *(m for m in time.months if m.lower() not in time.names))),
        besides=besides,
        unsaid=unsaid,
        of_a_day=day.named,
        literals=day.literals,
        days=days,
        exact=day.exact,
        phrases=day.phrases,
        itself=day.itself,
        audience=audience,
        may_see=may_see,
        vector=vector,
        most=most,
        min_score=settings.min_score if min_score is None else min_score,
    )


def _without(terms: Terms, words: frozenset[str]) -> Terms:
    return structs.replace(terms, words=tuple(word for word in terms.words if folded(word) not in words)) if words else terms


def retrieve(index: Index, question: Query, settings: QuerySettings) -> Retrieval:
    """Run a query on the index. Runs on the index thread."""
    return _reference(index, question, settings) if settings.ranking == "reference" else _fused(index, question, settings)


def _fused(index: Index, question: Query, settings: QuerySettings) -> Retrieval:
    fused = settings.fused
    found = index.lookup(
        question.searched,
        question.vector,
        days=question.days,
        audience=question.audience,
        limit=fused.candidates,
        floor=min(fused.floor, _ALIKE_BELOW),
    )
    _leave_to_readers(question, found)
    overview = _asks_for_a_time(question, found)
    if overview:
        _leave_to_the_time(question, found)
    matches = LineMatches(
        question.besides if overview else question.terms,
        found.weights,
        found.languages,
        alike=found.alike,
        asks_when=asks_when(folded(question.text)),
    )
    for candidate in found.candidates:
        candidate.line = matches.measure(candidate.text)
    ranked = fused_ranking(found.candidates, fused, question.days)
    most = question.most or settings.max_results
    if overview:
        if question.most is None and not question.besides and any(span.days <= _SHORT_SPAN for span in question.days):
            most = max(most, _SHORT_SPAN + any(not _is_of(c, question.days) for c in ranked))
        ranked = spread_over_days(ranked, question.days, most, itself=question.itself)
    floor = floor_of(fused.floor, found.total)
    if _is_nothing(index, found, floor, question, matches):
        nearest = _nearest(index, ranked, matches, settings)
        return Retrieval(
            hits=(), nearest=nearest, ranked=ranked, floored=True, floor=floor, coverage=found.coverage, scan=found.scan
        )
    least = question.min_score or 0.0
    kept = [c for c in ranked if c.score >= least and (c.keyword is not None or c.score >= _HARDLY)]
    first = _asked_for(question, kept, found)
    if overview and not first and not question.besides:
        first = list(dict.fromkeys(c.path for c in kept))[:most]  # of that time or with its words: each gets a line at least
    passages: Sequence[Passage | FileLines]
    tokens = settings.max_tokens
    if settings.pieces == "lines":
        passages = best_lines(kept, matches, most=most, tokens=tokens, transcript_weight=fused.transcript_weight, first=first)
        passages = [passage for passage in passages if passage.score >= least]
    else:
        place = {path: place for place, path in enumerate(first)}
        kept.sort(key=lambda c: place.get(c.path, len(first)))
        passages = merge_adjacent(kept, most=most, tokens=tokens, cut=cut_by(matches))
    hits = tuple(_hit(passage, settings.snippet_chars) for passage in passages)
    return Retrieval(hits=hits, ranked=ranked, passages=passages, floor=floor, coverage=found.coverage, scan=found.scan)


def _leave_to_readers(question: Query, found: Lookup) -> None:
    if question.audience is not None:
        found.candidates[:] = [candidate for candidate in found.candidates if question.may_see(candidate.path)]


def _nearest(index: Index, ranked: Sequence[Candidate], matches: LineMatches, settings: QuerySettings) -> tuple[Hit, ...]:
    """Return lines of the nearest candidates, if one is more like an answer than like the other candidates; without vectors there are none.

    What is nearest to a question that nothing answers is one of many as near, and farther than answers are, whose median was learned. How
    near answers are, and how near all else is, differs by model and by language of the question: so it is the way between them that counts.
    Of few passages that cannot be told: of those the nearest are returned.
    """
    by_meaning = sorted((c for c in ranked if c.vector is not None), key=_nearness, reverse=True)
    if len(by_meaning) < _MOST_NEAREST + _FEWEST_OTHERS:
        out = min(len(by_meaning), _OF_FEW)
    else:
        answers = index.answers.median(index.live.embedder)
        others = statistics.fmean(sorted((c.vector or 0.0 for c in by_meaning), reverse=True)[_MOST_NEAREST:])
        near = answers is not None and _nearness(by_meaning[0]) - others >= _HALF_WAY * (answers - others)
        out = _MOST_NEAREST if near else 0
    lines = best_lines(by_meaning[:out], matches, most=out, tokens=min(settings.max_tokens, _NEAREST_TOKENS)) if out else []
    return tuple(_hit(one, settings.snippet_chars) for one in lines)


def _nearness(candidate: Candidate) -> float:
    """Return the mean of the cosines of a passage and of its nearest line."""
    whole = candidate.vector or 0.0
    return (whole + (candidate.lines.line if candidate.lines is not None else whole)) / 2


def _asks_for_a_time(question: Query, found: Lookup) -> bool:
    """Return whether a query has hardly a word but those for a time of several days, or none but those for a day, which has notes."""
    besides = question.besides
    single = any(span.days == 1 for span in question.exact)
    if besides.pairs or besides.code or len(besides.words) >= _FEW_WORDS or (besides.words and single):
        return False
    if question.of_a_day and not besides:
        return True
    return any(c.day and any(c.day in span and (span.days > 1 or single) for span in question.days) for c in found.candidates)


def _leave_to_the_time(question: Query, found: Lookup) -> None:
    """Leave out of the candidates of a query for a time alone what is of other times and neither has a word for it nor its figures."""
    if question.besides:
        return
    said = LineMatches(question.terms, found.weights, found.languages, alike=found.alike)
    kept = []
    for candidate in found.candidates:
        candidate.vector = candidate.lines = None
        of_it = _is_of(candidate, question.days)
        if (
            of_it
            or any(literal in candidate.text for literal in question.literals)
            or said.measure(candidate.text).share >= _ALL_WORDS
        ):
            kept.append(candidate)
    found.candidates[:] = kept


def _is_of(candidate: Candidate, days: Sequence[Span]) -> bool:
    day = candidate.day
    return day is not None and any(day in span or (span.days == 1 and day == day_after(span.last)) for span in days)


def _asked_for(question: Query, ranked: Sequence[Candidate], found: Lookup) -> list[str]:
    """Return the paths of what comes first, if there are notes of the days that a query names.

    That is what has its other words, or half as many of them as any, if it is of these days or names one of them; then what else is of
    them: of several days some, so that there is room for what was written on others.
    """
    of_it = [c for c in ranked if c.day is not None and any(c.day in span for span in question.exact)]
    if not of_it:
        return []
    if not question.besides:
        return list(dict.fromkeys(c.path for c in of_it))
    days = {day for span in question.exact for day in (span.first, span.last)}
    phrases = [phrase.casefold() for phrase in question.phrases]
    matches = LineMatches(question.besides, found.weights, found.languages, alike=found.alike)
    ids = {c.id for c in of_it}
    shares: dict[int, float] = {}
    for candidate in ranked:
        if candidate.id in ids or names_a_day(candidate.text, days) or _has(candidate.text, phrases):
            shares[candidate.id] = matches.share_of(candidate.text)
    enough = max(_LEAST_OF_WORDS, _HALF * max(shares.values()))
    speaking = [c for c in ranked if shares.get(c.id, 0.0) >= enough]
    speaking.sort(key=lambda c: shares[c.id] < _ALL_WORDS)
    short = [span for span in question.exact if span.days <= _SHORT_SPAN]
    silent = [c.path for c in of_it if c.day is not None and any(c.day in span for span in short)]
    alone = [c.path for c in of_it if any(c.day == span.first == span.last for span in short)]
    paths = dict.fromkeys(c.path for c in speaking)
    paths |= dict.fromkeys(alone) | dict.fromkeys(list(dict.fromkeys(silent))[:_MOST_SILENT])
    return list(paths)


def _has(text: str, phrases: Sequence[str]) -> bool:
    folded_text = text.casefold() if phrases else ""
    return any(phrase in folded_text for phrase in phrases)


def _reference(index: Index, question: Query, settings: QuerySettings) -> Retrieval:
    hybrid = settings.hybrid
    most = question.most or settings.max_results
    limit = min(REFERENCE_MOST_CANDIDATES, most * hybrid.candidate_multiplier)
    words = question.terms if hybrid.enabled or question.vector is None else query_terms("")
    found = index.lookup(words, question.vector, days=(), audience=question.audience, limit=limit)
    _leave_to_readers(question, found)
    ranked = reference_ranking(found.candidates, hybrid, by_vector=question.vector is not None)
    least = REFERENCE_MIN_SCORE if question.min_score is None else question.min_score
    passages = one_per_chunk([c for c in ranked if c.score >= least], most=most)
    chars = REFERENCE_SNIPPET_CHARS if settings.snippet_chars is None else settings.snippet_chars
    hits = tuple(_hit(passage, chars) for passage in passages)
    return Retrieval(hits=hits, ranked=ranked, passages=passages, scan=found.scan)


def floor_of(floor: float, chunks: int) -> float:
    """Return the floor for a memory of so many chunks."""
    return floor * max(_LEAST_OF_FLOOR, min(1.0, math.log1p(chunks) / math.log1p(_WHOLE_FLOOR_FROM)))


def _is_nothing(index: Index, found: Lookup, floor: float, question: Query, matches: LineMatches) -> bool:
    """Return whether no candidate is relevant enough to be returned.

    That is so if no line contains the share ``floor`` of the query's words (weighted by what they tell; words in their order count
    more). A note of a day or a week in the query is relevant whatever it says; one of a longer time if the query has hardly a word
    besides, or a passage holds that share of them, with its day and heading or without the name of that time. A cosine counts by its
    place among those that answers have in this index, and until that is learned, candidates with a vector are returned.
    """
    cosines = [c.vector for c in found.candidates if c.vector is not None]
    if found.coverage >= _ANSWERED and cosines:
        index.learn_answer(max(cosines))
    spans = [span for span in question.days if any(c.day and c.day in span for c in found.candidates)]
    if question.of_a_day and not spans and floor > 0.0:
        return _tells_nothing_of_the_day(index, found, floor, question)
    said = _said(question.terms, found) if question.unsaid and not spans else 1.0
    if not found.candidates or found.coverage * said >= 1.0 or floor <= 0.0:
        return False
    if spans and (min(span.days for span in spans) <= _SHORT_SPAN or len(question.besides.words) < _FEW_WORDS):
        return False
    evidence = _evidence(found, question, matches) * said
    if question.terms.pairs or spans:
        evidence = max(evidence, found.coverage * said)
    if spans and question.besides != question.terms:
        others = LineMatches(question.besides, found.weights, found.languages, alike=found.alike)
        dated = [c for c in found.candidates if c.day and any(c.day in span for span in spans)]
        evidence = max(evidence, *(others.share_of(f"{c.header}\n{c.text}") for c in dated))
    return _is_too_little(index, evidence, cosines, floor)


def _tells_nothing_of_the_day(index: Index, found: Lookup, floor: float, question: Query) -> bool:
    """Return whether no candidate is relevant to a query that names a day of which there is no note.

    One is that has the day's figures or all words for it, or enough of the others: a note that was written later may tell of that day.
    """
    if any(literal in c.text for c in found.candidates for literal in question.literals):
        return False
    if not question.besides:
        return all(c.line.share < _ALL_WORDS for c in found.candidates)
    matches = LineMatches(question.besides, found.weights, found.languages, alike=found.alike)
    measured = [matches.measure(c.text) for c in found.candidates]
    evidence = max((one.share + _IN_ORDER * one.phrases for one in measured), default=0.0) * _said(question.besides, found)
    return _is_too_little(index, evidence, [c.vector for c in found.candidates if c.vector is not None], floor)


def _evidence(found: Lookup, question: Query, matches: LineMatches) -> float:
    """Return how much of the query the best line has, by what its words tell, with what it has of them in the order of the query."""
    texts = [c.text for c in found.candidates]
    shares = matches.telling_shares(texts, asking_words(question.text), rare=weight_of(2, found.total))
    return max(share + _IN_ORDER * c.line.phrases for share, c in zip(shares, found.candidates, strict=True))


def _is_too_little(index: Index, evidence: float, cosines: Sequence[float], floor: float) -> bool:
    if not cosines:
        return evidence < floor
    place = index.answers.place(index.live.embedder, max(cosines))
    return place is not None and evidence + _BY_COSINE * place < floor


def _said(terms: Terms, found: Lookup) -> float:
    """Return the share of a query's words that is left if it has one more, which no note has."""
    known = sum(found.weights.get(word, 0.0) for word in (*terms.words, *terms.content_bigrams))
    return known / (known + weight_of(1, found.total))


def _hit(passage: Passage | FileLines, snippet_chars: int | None) -> Hit:
    return Hit(
        path=passage.path,
        start_line=passage.start_line,
        end_line=passage.end_line,
        score=round(passage.score, 4),
        snippet=_cut(passage.text, snippet_chars),
        source=passage.source,
        pieces=passage.pieces,
    )


def _cut(text: str, chars: int | None) -> str:
    """Truncate a text to ``chars`` characters, at the end of a word if possible."""
    if not chars or len(text) <= chars:
        return text
    blank = max(text.rfind(" ", chars // 2, chars + 1), text.rfind("\n", chars // 2, chars + 1))
    return text[: blank if blank > 0 else chars]


def hit_facts(hit: Hit) -> dict[str, Any]:
    """Return a result as JSON values, as the ``memory_search`` tool gives them."""
    return {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": hit.score,
        "snippet": hit.snippet,
        "source": hit.source,
    }


_MOST_EXPLAINED = 20


def explain_search(recalled: Retrieval, settings: QuerySettings) -> dict[str, Any]:
    """Return the top candidates of a search as JSON values: keyword and vector rank and score, date bonus, whether it was shown."""
    shown = {chunk.id for passage in recalled.passages for chunk in passage.chunks}
    return {
        "ranking": settings.ranking,
        "coverage": round(recalled.coverage, 3),
        "floor": round(recalled.floor, 3),
        "floored": recalled.floored,
        "scan": recalled.scan,
        "candidates": [
            {
                "place": place,
                "path": c.path,
                "startLine": c.start_line,
                "endLine": c.end_line,
                "score": round(c.score, 4),
                "keywordRank": c.keyword_rank,
                "keywordScore": _rounded(c.keyword),
                "vectorRank": c.vector_rank,
                "vectorScore": _rounded(c.vector),
                "lineShare": round(c.line.share, 4),
                "phrases": round(c.line.phrases, 4),
                "timedShare": round(c.line.timed, 4),
                "dateBonus": c.bonus,
                "shown": c.id in shown,
            }
            for place, c in enumerate(recalled.ranked[:_MOST_EXPLAINED], 1)
        ],
    }


def explain_line(index: Index, recalled: Retrieval, path: str, line: int) -> dict[str, Any]:
    """Explain whether one line of a note was found by a search, and why. Runs on the index thread."""
    chunks = index.at_line(path, line)
    if not chunks:
        filed = index.filed(index.live, "memory", [path]).get(path)
        reason = (
            "the file is not indexed yet; run homebody memory index"
            if filed is None
            else filed.trouble or "the line is not indexed"
        )
        return {"found": False, "reason": reason}
    ids = {chunk.id for chunk in chunks}
    places = [place for place, c in enumerate(recalled.ranked, 1) if c.id in ids]
    if not places:
        reason = "it shares no distinctive word with the question"
        if recalled.scan != "none":
            waiting = any(not chunk.embedded for chunk in chunks)
            reason += "; its vector has not been made yet" if waiting else ", and its vector is not among the nearest"
        return {"found": False, "reason": reason}
    best = recalled.ranked[places[0] - 1]
    shown = any(p.path == path and first <= line <= last for p in recalled.passages for first, last in p.pieces)
    reason = "it is in the results" if shown else f"it was ranked {places[0]}, too low to be included"
    if recalled.floored:
        reason = f"it was ranked {places[0]}, but nothing was relevant enough to be returned"
    return {"found": shown, "place": places[0], "score": round(best.score, 4), "reason": reason}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
