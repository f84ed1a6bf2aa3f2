"""Search by words in PostgreSQL: BM25 over the word lists, computed as SQLite's FTS5 computes it, and codes by their pieces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from memory.notes.sources import EVERYBODY
from memory.store.generations import Generation
from memory.store.keyword_hits import (
    ALIKE,
    FEW,
    FEWEST_WORDS,
    LARGE,
    LOOKED_INTO,
    MOST_POSTINGS,
    SMALLEST_WEIGHT,
    TRIGRAM_WEIGHT,
    KeywordHits,
    has_another_form,
    other_forms,
    weight_of,
    written,
)
from memory.store.postgres.connections import Connection, Connections
from memory.store.postgres.generation_rows import AgentState, storable
from memory.store.postgres.lexemes import MOST_OFTEN, all_pieces, any_count, lexeme, words_of
from memory.store.vocabulary import Vocabulary
from memory.text.folding import folded
from memory.text.stems import forms
from memory.text.terms import Terms

_K1, _B = 1.2, 0.75
_HITS: Final = """
WITH lexeme AS (
    SELECT * FROM unnest(%(words)s::int[], %(parts)s::int[], %(counts)s::float8[], %(lexemes)s::text[]) AS l (word, part, count, lexeme)
), hit AS MATERIALIZED (
    SELECT l.word, l.part, l.count, w.id, w.size, w.audience
    FROM lexeme l CROSS JOIN LATERAL (SELECT id, size, audience FROM word_list WHERE words @@ l.lexeme::tsquery) w
), frequency AS MATERIALIZED (
    SELECT word, count(*)::float8 AS chunks, sum(count(*)) OVER (ORDER BY count(*), word) AS read,
           row_number() OVER (ORDER BY count(*), word) AS place
    FROM hit GROUP BY word
), weight AS MATERIALIZED (
    SELECT word, CASE WHEN %(total)s <= %(few)s THEN ln(1 + odds) ELSE greatest(ln(odds), %(smallest)s::float8) END AS weight
    FROM (SELECT *, (greatest(%(total)s, chunks) - chunks + 0.5::float8) / (chunks + 0.5::float8) AS odds FROM frequency) f
    WHERE %(total)s <= %(large)s OR place <= %(fewest)s OR read <= %(most)s
), best AS (
    SELECT id, sum(weight * count * %(k1)s::float8 / (count + %(short)s::float8 + %(long)s::float8 * size)) AS score,
           array_agg(DISTINCT part) AS parts
    FROM hit JOIN weight USING (word) WHERE %(audience)s::text IS NULL OR audience IN (%(audience)s, %(everybody)s)
    GROUP BY id ORDER BY score DESC, id LIMIT %(limit)s
)
SELECT id, score, parts, NULL FROM best
UNION ALL SELECT NULL, NULL, ARRAY[part], count(DISTINCT id) FROM hit GROUP BY part
"""
"""One lexeme is a word that occurs ``count`` times. Numbers are float8, as numeric takes several times as long."""
_COUNT: Final = """
SELECT l.place, (SELECT count(*) FROM word_list WHERE words @@ l.query::tsquery) FROM unnest(%s::int[], %s::text[]) AS l (place, query)
"""
_CODES: Final = "SELECT id, audience, code FROM word_list WHERE words @@ %s::tsquery AND strpos(code, %s) > 0"


class _Part(Struct, frozen=True):
    """A word or pair of a query, and the words of the index of which any will do. ``similar``: these are only like it."""

    term: str
    words: tuple[str, ...]
    judged: bool
    similar: bool = False


class WordSearch:
    """Searches the word lists of one agent."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._state: AgentState | None = None
        self._vocabulary = Vocabulary(self._vocabulary_state, self._all_words)

    def search(
        self, connection: Connection, state: AgentState, terms: Terms, *, audience: str | None, limit: int, floor: float
    ) -> KeywordHits:
        """Return the best ``limit`` chunks that contain any of the terms. ``audience`` None means all notes, otherwise its own.

        If their coverage is below ``floor``, words that no chunk contains are replaced by similar words.
        """
        hits = self._search(connection, state, terms, {}, audience=audience, limit=limit)
        if hits.coverage >= floor:
            return hits
        alike = self._alike(connection, state, terms)
        wider = self._search(connection, state, terms, alike, audience=audience, limit=limit) if alike else hits
        return wider if wider.coverage >= floor else hits

    def _alike(self, connection: Connection, state: AgentState, terms: Terms) -> dict[str, list[str]]:
        """Return words of the index that are like those of the query that no chunk contains."""
        known = self._counted(connection, state.live, [_flat(forms(word, state.languages)) for word in terms.words])
        unknown = [word for word, count in zip(terms.words, known, strict=True) if not count]
        self._state = state
        alike: dict[str, list[str]] = {}
        for word in unknown:
            others = other_forms(word)
            stems = [forms(form, state.languages) for form in others]
            counts = self._counted(connection, state.live, [_flat(written_so) for written_so in stems])
            found = [stem for written_so, count in zip(stems, counts, strict=True) if count for stem in written_so]
            found += self._vocabulary.like(word, state.languages)
            if found:
                alike[word] = found
        return alike

    def _search(
        self,
        connection: Connection,
        state: AgentState,
        terms: Terms,
        alike: Mapping[str, Sequence[str]],
        *,
        audience: str | None,
        limit: int,
    ) -> KeywordHits:
        hits, total = KeywordHits(alike=alike), state.totals.chunks
        if not terms or not total:
            return hits
        parts = list(_parts(terms, alike, state.languages))
        counts = dict.fromkeys(range(len(parts)), 0)
        held: dict[int, list[int]] = {}
        if parts:
            values = _values(parts, state, audience, limit)
            for id_, score, found, count in connection.execute(_HITS.encode(), values):
                if id_ is None:
                    counts[found[0]] = count
                else:
                    hits.scores[id_], held[id_] = score, found
        for id_, score in self._codes(connection, state, terms, audience, limit).items():
            hits.scores[id_] = hits.scores.get(id_, 0.0) + TRIGRAM_WEIGHT * score
            hits.coverage = 1.0  # an identifier that is there to the letter is an answer
        best = sorted(hits.scores, key=lambda id_: -hits.scores[id_])[:LOOKED_INTO]
        weights = {place: weight_of(counts[place], total) for place, part in enumerate(parts) if part.judged}
        whole = sum(weights.values()) or 1.0
        for id_ in best:
            shares = (weights.get(place, 0.0) * (ALIKE if parts[place].similar else 1.0) for place in held.get(id_, ()))
            hits.coverage = max(hits.coverage, sum(shares) / whole)
        hits.weights = {part.term: weight_of(max(1, counts[place]), total) for place, part in enumerate(parts)}
        return hits

    def _codes(
        self, connection: Connection, state: AgentState, terms: Terms, audience: str | None, limit: int
    ) -> dict[int, float]:
        """Score the chunks whose codes contain a code of the query, as BM25 scores a phrase of pieces."""
        totals = state.totals
        scores: dict[int, float] = {}
        mean = totals.code_size / max(1, totals.coded)
        for code in map(folded, terms.code if totals.coded else ()):
            rows = connection.execute(_CODES, (storable(all_pieces(state.live.number, code)), storable(code))).fetchall()
            odds = (max(totals.coded, len(rows)) - len(rows) + 0.5) / (len(rows) + 0.5)
            weight = max(math.log(odds), SMALLEST_WEIGHT)
            for id_, whose, text in rows:
                if audience is None or whose in {audience, EVERYBODY}:
                    count = text.count(code)
                    share = count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * len(text) / (mean or 1.0)))
                    scores[id_] = scores.get(id_, 0.0) + weight * share
        return {id_: scores[id_] for id_ in sorted(scores, key=lambda id_: (-scores[id_], id_))[:limit]}

    def _counted(self, connection: Connection, generation: Generation, words: Sequence[Sequence[str]]) -> list[int]:
        """Return how many chunks contain any of each group of words."""
        queries = [" | ".join(any_count(generation.number, word) for word in group) for group in words]
        asked = [(place, storable(query)) for place, query in enumerate(queries) if query]
        counts = [0] * len(words)
        if asked:
            for place, count in connection.execute(_COUNT, tuple(map(list, zip(*asked, strict=True)))):
                counts[place] = count
        return counts

    def _vocabulary_state(self) -> object:
        assert self._state is not None
        return self._state.live.number, self._state.changes

    def _all_words(self) -> str:
        assert self._state is not None
        with self._connections.reading() as connection:
            sql = "SELECT coalesce(string_agg(word, E'\\n') || E'\\n', '') FROM vocabulary WHERE generation = %s"
            row = connection.execute(sql, (self._state.live.number,)).fetchone()
            return str(row[0]) if row else ""


def _parts(terms: Terms, alike: Mapping[str, Sequence[str]], languages: Sequence[str]) -> Iterator[_Part]:
    for word in terms.words:
        how = _flat(written(word, alike, languages))
        if word in alike:
            how = tuple(dict.fromkeys((*alike[word], *how)))  # words of the vocabulary have no endings any more
        yield _Part(word, how, judged=True, similar=word in alike and not has_another_form(word, alike[word]))
    judged = terms.content_bigrams if terms.content_bigrams or terms.words else terms.pairs
    for pair in terms.pairs:
        yield _Part(pair, tuple(words_of(pair)), judged=pair in judged)


def _flat(written_so: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for one in written_so for word in words_of(one)))


def _values(parts: Sequence[_Part], state: AgentState, audience: str | None, limit: int) -> dict[str, Any]:
    """Return the parameters of ``_HITS``."""
    number, totals = state.live.number, state.totals
    words = [(place, word) for place, part in enumerate(parts) for word in part.words]
    rows = [
        (at, place, float(count), storable(lexeme(number, word, count)))
        for at, (place, word) in enumerate(words)
        for count in range(1, MOST_OFTEN + 1)
    ]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    mean = totals.size / max(1, totals.chunks) or 1.0
    return {
        **dict(zip(("words", "parts", "counts", "lexemes"), columns, strict=True)),
        "total": float(totals.chunks),
        "few": FEW,
        "large": LARGE,
        "fewest": FEWEST_WORDS,
        "most": MOST_POSTINGS,
        "smallest": SMALLEST_WEIGHT,
        "k1": _K1 + 1,
        "short": _K1 * (1 - _B),
        "long": _K1 * _B / mean,
        "audience": audience,
        "everybody": EVERYBODY,
        "limit": limit,
    }
