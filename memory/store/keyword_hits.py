"""What a search by words finds, and what words weigh: the same whatever stores the index."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from memory.text.stems import forms

TRIGRAM_WEIGHT = 0.5
FEW = 50
"""Up to this many chunks, words are weighted one by one."""
SMALLEST_WEIGHT = 1e-6
"""SQLite's bm25 weight of a word that at least half of the rows contain."""
LARGE = 20_000
MOST_POSTINGS = 70_000
"""Entries of word lists that one search scores. Seven tenths of 100,000 chunks: measured to cost .001 to .003 of nDCG; four tenths
cost up to .019."""
ALIKE = 0.5
"""Weight of a similar word, relative to the word itself."""
FEWEST_WORDS = 3
LOOKED_INTO = 10


class KeywordHits(Struct):
    """Scores by chunk id; higher is better.

    ``coverage`` is the weighted share of the query's words in the best chunk: 1 if one chunk contains all of them. ``weights`` are
    those of the query's words and character pairs (one that no chunk contains weighs as one of a single chunk); ``alike`` are the
    words that were searched instead of one that no chunk contains.
    """

    scores: dict[int, float] = field(default_factory=dict)
    coverage: float = 0.0
    weights: dict[str, float] = field(default_factory=dict)
    alike: Mapping[str, Sequence[str]] = field(default_factory=dict)


def weight_of(count: int, total: int) -> float:
    """Return the weight of a word that so many of all chunks contain: at least 1, higher for rarer words."""
    total = max(total, count)
    return 1.0 + math.log(1.0 + (total - count + 0.5) / (count + 0.5))


def other_forms(word: str) -> tuple[str, ...]:
    """Return forms of a word that have another stem, and its other spellings: they count as much as the word itself."""
    from memory.text.irregular import irregular_forms
    from memory.text.spellings import other_spellings

    return (*irregular_forms(word.lower()), *other_spellings(word))


def has_another_form(word: str, found: Sequence[str]) -> bool:
    """Return whether one of the words found for a word is a form of it, and not only like it."""
    return not set(found).isdisjoint(other_forms(word))


def written(word: str, alike: Mapping[str, Sequence[str]], languages: Sequence[str]) -> Sequence[str]:
    """Return how a word may stand in the index: its stems in the languages of the notes, or the words like it."""
    if word in alike:
        return alike[word]
    return forms(word, languages)
