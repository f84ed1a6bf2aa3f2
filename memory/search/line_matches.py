"""How closely the lines of a passage match a query: whether its words stand together, and in its order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from memory.store.candidates import NO_MATCH, LineMatch
from memory.text.folding import folded
from memory.text.irregular import irregular_forms
from memory.text.stems import ARABIC, stem
from memory.text.terms import Terms, spaced
from memory.text.times import tells_time

_NEIGHBOUR = 0.5
"""Weight of a word of the line before or after, relative to one of the line itself: an answer follows its question."""
_ALIKE = 0.5
"""Weight of a word that is only like one of the query."""
_MOST_PHRASES = 3
_CUT = 2
_SHORTEST = 2
_ARABIC_PREFIX = "(?:[وفبك]?ال|لل)?"
_GAP = re.compile(r"(?:[\W_]+[^\W_]{1,4})?[\W_]+\Z")
"""What may stand between the words of a phrase: marks, and one short word."""


class LineMatches:
    """Measures passages against one query.

    ``weights`` are those of the query's words and character pairs, higher for rarer ones; ``languages`` those of the index, by
    whose rules words are stemmed besides English; ``alike`` are words that stand for one that no note contains.
    """

    def __init__(
        self,
        terms: Terms,
        weights: Mapping[str, float],
        languages: Sequence[str] = (),
        *,
        alike: Mapping[str, Sequence[str]] = MappingProxyType({}),
        asks_when: bool = False,
    ) -> None:
        self._asks_when = asks_when
        self._languages = ("", *languages)
        self._keys: dict[str, str] = {}
        self._weights: dict[str, float] = {}
        order: list[str] = []
        for word in terms.words:
            name = stem(folded(word), "")
            for form in (word, *irregular_forms(word.lower())):
                self._keys |= {key: name for key in self._forms(folded(form)) if key not in self._keys}
            self._weights[name] = max(weights.get(word, 0.0), self._weights.get(name, 0.0))
            order.append(name)
        self._pairs = [folded(pair) for pair in terms.content_bigrams]
        self._weights |= {folded(pair): weights.get(pair, 0.0) for pair in terms.content_bigrams}
        self._phrases = set(pairwise(order))
        self._total = sum(self._weights.values())
        for word in set(terms.words) & set(alike):
            name = stem(folded(word), "")
            self._keys |= dict.fromkeys(alike[word], name)
            if not set(alike[word]) & set(irregular_forms(word.lower())):  # "chose" is no less than "choose"
                self._weights[name] *= _ALIKE
        starts = "|".join(map(re.escape, sorted({_start(key) for key in self._keys})))
        before = _ARABIC_PREFIX if ARABIC in languages else ""
        self._pattern = re.compile(rf"(?<![^\W_]){before}(?:{starts})[^\W_]*") if starts else None

    def measure(self, text: str) -> LineMatch:
        """Return how well the best line of ``text`` matches."""
        if not self._total:
            return NO_MATCH
        text_lines = folded(spaced(text)).split("\n")
        lines = [self._line(line) for line in text_lines]
        share = timed = 0.0
        for number, (words, _) in enumerate(lines):
            beside = {
                word for near in (*lines[max(0, number - 1) : number], *lines[number + 1 : number + 2]) for word in near[0]
            }
            own = sum(self._weights[word] for word in words)
            here = own + _NEIGHBOUR * sum(self._weights[word] for word in beside - words)
            share = max(share, here)
            if here > timed and self._asks_when and tells_time(text_lines[number]):
                timed = here
        phrases = min(_MOST_PHRASES, max((found for _, found in lines), default=0)) / _MOST_PHRASES
        return LineMatch(min(1.0, share / self._total), phrases, min(1.0, timed / self._total))

    def _line(self, line: str) -> tuple[set[str], int]:
        """Return the words of the query in a line, and how many of its pairs."""
        words = {pair for pair in self._pairs if pair in line}
        phrases: set[tuple[str, str]] = set()
        before, end = "", 0
        for match in self._pattern.finditer(line) if self._pattern else ():
            word = self._keys.get(match[0]) or next((self._keys[key] for key in self._forms(match[0]) if key in self._keys), "")
            if not word:
                continue
            if (before, word) in self._phrases and _GAP.match(line, end, match.start()):
                phrases.add((before, word))
            words.add(word)
            before, end = word, match.end()
        return words, len(phrases)

    def _forms(self, word: str) -> list[str]:
        return [stem(word, language) for language in self._languages]


def _start(stem: str) -> str:
    """Return how the words of a stem begin: stemming changes the last letters (studies, studi; happily, happili)."""
    return stem[: max(_SHORTEST, len(stem) - _CUT)]
