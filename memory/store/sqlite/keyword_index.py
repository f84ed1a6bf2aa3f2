"""Keyword index: BM25 over stemmed words, character bigrams and code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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
from memory.store.sqlite.chunk_store import ChunkStore
from memory.store.sqlite.index_database import Database
from memory.store.vocabulary import LENGTHS, Vocabulary
from memory.text.stems import forms
from memory.text.terms import Terms, fts_string

_CHANGE_THAT_COUNTS = 0.02


class KeywordIndex:
    """Searches by keyword.

    The number of chunks that contain a word is cached until the index has changed by a certain share, or another process has
    written to it. A count of 0 is not cached: the next note may contain the word.
    """

    def __init__(self, database: Database, notes: ChunkStore) -> None:
        self._db = database
        self._notes = notes
        self._counts: dict[str, int] = {}
        self._total = 0
        self._counted_at = (0, -1)
        self._vocabulary = Vocabulary(self._words_state, self._all_words)

    def search(
        self, terms: Terms, generation: Generation, *, audience: str | None, limit: int, floor: float = 0.0
    ) -> KeywordHits:
        """Return the best ``limit`` chunks that contain any of the terms. ``audience`` None means all notes, otherwise its own.

        If their coverage is below ``floor``, words that no chunk contains are replaced by similar words.
        """
        hits = self._search(terms, {}, generation, audience, limit)
        if hits.coverage >= floor or not self._db.drivers.keywords:
            return hits
        languages = self._notes.languages()
        unknown = [word for word in terms.words if not self._count(_any_of(forms(word, languages)))]
        alike = {
            word: found
            for word in unknown
            if (found := [*self._other_forms(word, languages), *self._vocabulary.like(word, languages)])
        }
        wider = self._search(terms, alike, generation, audience, limit) if alike else hits
        return wider if wider.coverage >= floor else hits

    def _other_forms(self, word: str, languages: Sequence[str]) -> list[str]:
        written_so = (forms(form, languages) for form in other_forms(word))
        return [stem for stems in written_so if self._count(_any_of(stems)) for stem in stems]

    def _search(
        self, terms: Terms, alike: Mapping[str, Sequence[str]], generation: Generation, audience: str | None, limit: int
    ) -> KeywordHits:
        hits = KeywordHits()
        if not self._db.drivers.keywords or not terms:
            return hits
        self._recount()
        languages = self._notes.languages()
        by_word = {word: _any_of(written(word, alike, languages)) for word in terms.words}
        by_pair = {pair: f"pairs : {fts_string(pair)}" for pair in (*terms.pairs, *terms.content_bigrams)}
        parts = [*by_word.values(), *(by_pair[pair] for pair in terms.pairs)]
        counts = {part: self._count(part) for part in parts}
        chosen = self._rarest(counts)
        if self._total <= FEW:
            hits.scores = self._weighed(counts, generation, audience, limit)
        elif chosen:
            hits.scores = self._match("chunks_fts", " OR ".join(chosen), generation, audience, limit)
        if terms.code:
            query = " OR ".join(fts_string(code) for code in terms.code)
            for id_, score in self._match("chunks_trigram", query, generation, audience, limit).items():
                hits.scores[id_] = hits.scores.get(id_, 0.0) + TRIGRAM_WEIGHT * score
                hits.coverage = 1.0  # an identifier that is there to the letter is an answer
        best = sorted(hits.scores, key=lambda id_: -hits.scores[id_])[:LOOKED_INTO]
        pairs = terms.content_bigrams if terms.content_bigrams or terms.words else terms.pairs
        judged = {part: counts[part] for part in (*by_word.values(), *(by_pair[pair] for pair in pairs))}
        similar = {by_word[word] for word, found in alike.items() if not has_another_form(word, found)}
        hits.coverage = max(hits.coverage, self._coverage(judged, best, similar))
        hits.alike = alike
        hits.weights = {
            term: self._weight(max(1, counts[part])) for term, part in (by_word | by_pair).items() if part in counts
        }
        return hits

    def total(self) -> int:
        """Return the approximate number of chunks."""
        self._recount()
        return self._total

    def _match(self, table: str, query: str, generation: Generation, audience: str | None, limit: int) -> dict[int, float]:
        where, bindings = f"{table} MATCH ?", [query]
        bounds: list[object] = []
        if self._notes.mixed():
            where += " AND rowid BETWEEN ? AND ?"
            bounds += [generation.first_id, generation.last_id]
        if audience is not None:
            where += " AND rowid IN (SELECT id FROM chunks WHERE audience IN (?, ?) AND audience <> '')"
            bounds += [audience, EVERYBODY]
        # by bm25() itself: with ORDER BY rank, FTS5 sorts in a second statement, which takes two thirds longer
        sql = f"SELECT rowid, -bm25({table}) FROM {table} WHERE {where} ORDER BY bm25({table}) LIMIT ?"  # noqa: S608 - names of ours
        return dict(self._db.rows(sql, (*bindings, *bounds, limit)))

    def _weighed(self, counts: dict[str, int], generation: Generation, audience: str | None, limit: int) -> dict[int, float]:
        """Score like ``_match``, but with a weight above 0 for words that at least half of the chunks contain.

        SQLite gives such words almost no weight, which affects every word if there are only two notes. So each word is searched
        separately, and SQLite's weight (documented for its bm25 function) is replaced by one that is never close to 0.
        """
        scores: dict[int, float] = {}
        for part, count in counts.items():
            if count:
                odds = (max(self._total, count) - count + 0.5) / (count + 0.5)
                scale = math.log(1.0 + odds) / max(math.log(odds), SMALLEST_WEIGHT)
                for id_, score in self._match("chunks_fts", part, generation, audience, -1).items():
                    scores[id_] = scores.get(id_, 0.0) + scale * score
        best = sorted(scores, key=lambda id_: (-scores[id_], id_))[:limit]
        return {id_: scores[id_] for id_ in best}

    def _recount(self) -> None:
        changed, by_another = self._counted_at
        version = int(self._db.one("PRAGMA data_version"))
        allowed = self._total * _CHANGE_THAT_COUNTS if self._total > FEW else 0
        if self._notes.words_changed - changed > allowed or version != by_another or not self._total:
            self._counts.clear()
            self._total = int(self._db.one("SELECT count(*) FROM chunks"))
            self._counted_at = (self._notes.words_changed, version)

    def _count(self, part: str) -> int:
        if not self._counts.get(part):
            self._counts[part] = int(self._db.one("SELECT count(*) FROM chunks_fts WHERE chunks_fts MATCH ?", (part,)))
        return self._counts[part]

    def _coverage(self, counts: dict[str, int], ids: list[int], similar: set[str]) -> float:
        """Return the largest weighted share of the query that one of these chunks contains. ``similar`` are those of similar words."""
        weights = {part: self._weight(count) for part, count in counts.items()}
        held = dict.fromkeys(ids, 0.0)
        marks = ",".join("?" * len(ids))
        for part, weight in weights.items():
            sql = f"SELECT rowid FROM chunks_fts WHERE chunks_fts MATCH ? AND +rowid IN ({marks})"  # noqa: S608 - placeholders only
            for (id_,) in self._db.rows(sql, (part, *ids)) if counts[part] else ():
                held[id_] += weight * (ALIKE if part in similar else 1.0)
        return max(held.values(), default=0.0) / (sum(weights.values()) or 1.0)

    def _weight(self, count: int) -> float:
        return weight_of(count, self._total)

    def _words_state(self) -> object:
        return self._notes.words_changed, int(self._db.one("PRAGMA data_version"))

    def _all_words(self) -> str:
        self._db.connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, chunks_fts, row)")
        rows = self._db.rows("SELECT term FROM temp.vocabulary WHERE length(term) BETWEEN ? AND ?", (LENGTHS[0], LENGTHS[-1]))
        return "".join(f"{term}\n" for (term,) in rows)

    def _rarest(self, counts: dict[str, int]) -> list[str]:
        """Drop the most frequent words if scoring every chunk that contains them would be slow."""
        if self._total <= LARGE:
            return list(counts)
        chosen: list[str] = []
        postings = 0
        for part in sorted(counts, key=lambda part: counts[part]):
            postings += counts[part]
            if len(chosen) >= FEWEST_WORDS and postings > MOST_POSTINGS:
                break
            chosen.append(part)
        return chosen


def _any_of(words: Sequence[str]) -> str:
    """Return the FTS query for any of these words."""
    return fts_string(words[0]) if len(words) == 1 else f"({' OR '.join(map(fts_string, words))})"
