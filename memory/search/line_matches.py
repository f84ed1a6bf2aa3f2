"""How closely the lines of a passage match a query: whether its words stand together, and in its order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from itertools import chain, pairwise
from operator import or_
from types import MappingProxyType
from typing import NamedTuple

from memory.store.candidates import NO_MATCH, LineMatch
from memory.text.asking_words import AskingWords
from memory.text.folding import folded
from memory.text.irregular import irregular_forms
from memory.text.spellings import other_spellings
from memory.text.stems import ARABIC, stem
from memory.text.terms import Terms, spaced
from memory.text.times import tells_time

_NEIGHBOUR = 0.5
"""Weight of a word of the line before or after, relative to one of the line itself: an answer follows its question."""
_ALIKE = 0.5
"""Weight of a word that is only like one of the query."""
_USUAL, _UNKNOWN, _UNKNOWN_NAME = 0.5, 0.7, 1.5
"""Weights of words for whether anything is relevant: of those that questions of any kind have, and of words and names that are in no
candidate."""
_MOST_PHRASES = 3
_REMEMBERED = 256
"""Passages that are kept as they are compared: those of the last two searches."""
_CUT = 2
_SHORTEST = 2
_ARABIC_PREFIXES = ("", "ال", "وال", "فال", "بال", "كال", "لل")
_SHORT = 4
"""Letters that a word between the words of a phrase may have."""
_WORD = re.compile(r"[^\W_]+")
_MOST_SEARCHED = 24
"""Beginnings of words that are searched one by one; of more, all words of a passage are looked at."""
_COLON = re.compile(r":(?=[\s*_]|$)")
_LONGEST_LABEL, _MOST_IN_LABEL = 60, 3
"""Characters before the colon that ends a label, and words in it."""


class LineWords(NamedTuple):
    """How well the words of one line match a query.

    ``share`` is as of ``LineMatch``; ``named``: its label, such as who speaks, has a word of the query.
    """

    share: float
    named: bool


NO_WORDS = LineWords(0.0, named=False)


class _Weights:
    """What sets of words weigh, which are given by their bits."""

    def __init__(self, by_bit: Mapping[int, float]) -> None:
        self._by_bit = by_bit
        self._known: dict[int, float] = {}

    def of(self, held: int) -> float:
        weight = self._known.get(held)
        if weight is None:
            weight = self._known[held] = sum(weight for bit, weight in self._by_bit.items() if held & bit)
        return weight

    def of_line(self, held: Sequence[int], number: int) -> float:
        """Return the weight of the words of a line, with half of what only the lines beside it have. ``held`` has one more at each end."""
        own, beside = held[number], held[number - 1] | held[number + 1]
        return self.of(own) + _NEIGHBOUR * self.of(beside & ~own)


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
        self._total = sum(self._weights.values())
        self._whole = dict(self._weights)
        for word in set(terms.words) & set(alike):
            name = stem(folded(word), "")
            self._keys |= dict.fromkeys(alike[word], name)
            if not set(alike[word]) & {
                *irregular_forms(word.lower()),
                *other_spellings(word),
            }:  # "chose" is no less than "choose"
                self._weights[name] *= _ALIKE
        before = _ARABIC_PREFIXES if ARABIC in languages else ("",)
        self._starts = tuple({prefix + _start(key) for key in self._keys for prefix in before})
        self._bits = {name: 1 << place for place, name in enumerate(self._weights)}
        self._by_bits = _Weights({bit: self._weights[name] for name, bit in self._bits.items()})
        self._ordered = {(self._bits[one], self._bits[other]) for one, other in pairwise(order)}
        self._phrases = {one | other for one, other in self._ordered}
        shortest = [one for one in self._starts if not any(one != other and one.startswith(other) for other in self._starts)]
        self._searched = shortest if len(shortest) <= _MOST_SEARCHED else None
        self._bit_by_word: dict[str, int] = {}
        self._known: dict[str, tuple[list[str], list[int]]] = {}

    def measure(self, text: str) -> LineMatch:
        """Return how well the best line of ``text`` matches."""
        lines, held = self._looked_at(text)
        if not self._total:
            return NO_MATCH
        share = timed = 0.0
        phrases = 0
        for number, line in enumerate(lines, 1):
            own = held[number]
            if own | held[number - 1] | held[number + 1]:
                here = self._by_bits.of_line(held, number)
                share = max(share, here)
                if here > timed and self._asks_when and tells_time(_WORD.findall(line)):
                    timed = here
            if own & (own - 1) and any(own & pair == pair for pair in self._phrases):  # two words at least
                phrases = max(phrases, self._phrases_in(line))
        return LineMatch(
            min(1.0, share / self._total), min(_MOST_PHRASES, phrases) / _MOST_PHRASES, min(1.0, timed / self._total)
        )

    def share_of(self, text: str) -> float:
        """Return the weighted share of the query's words that ``text`` has, in whatever lines."""
        own = 0
        for held in self._looked_at(text)[1]:
            own |= held
        return min(1.0, self._by_bits.of(own) / (self._total or 1.0))

    def telling_shares(self, texts: Sequence[str], asking: AskingWords, rare: float) -> list[float]:
        """Return the share of the best line of each text, by what words tell about whether it is relevant to the query.

        Words that questions of any kind have tell little, and one that none of the texts has may be told in other words, which a name
        is not. Only what weighs more than ``rare`` is taken for unknown: a commoner word is in texts that are not among these.
        """
        held = [self._looked_at(text)[1] for text in texts]
        seen = reduce(or_, chain.from_iterable(held), 0)
        by_bit: dict[int, float] = {}
        total = 0.0
        for name, bit in self._bits.items():
            factor = _USUAL if name in asking.usual else 1.0
            by_bit[bit] = self._weights[name] * factor
            if not seen & bit and self._whole[name] > rare and name not in self._pairs:
                factor *= _UNKNOWN_NAME if name in asking.names else _UNKNOWN
            total += self._whole[name] * factor
        weights = _Weights(by_bit)
        lines = ((weights.of_line(bits, number) for number in range(1, len(bits) - 1)) for bits in held)
        return [min(1.0, max(line, default=0.0) / (total or 1.0)) for line in lines]

    def by_line(self, text: str) -> list[LineWords]:
        """Return how well each line of ``text`` matches."""
        lines, held = self._looked_at(text)
        told: list[LineWords] = []
        for number, line in enumerate(lines, 1):
            if not (held[number] | held[number - 1] | held[number + 1]):
                told.append(NO_WORDS)
                continue
            share = min(1.0, self._by_bits.of_line(held, number) / (self._total or 1.0))
            told.append(LineWords(share, named=bool(held[number]) and self._is_named(line)))
        return told

    def _looked_at(self, text: str) -> tuple[list[str], list[int]]:
        """Return the lines of a text as they are compared, and the bits of the query's words that each has, with 0 at both ends."""
        known = self._known.get(text)
        if known is None:
            compared = _compared(text)
            lines = compared.split("\n")
            held = [0] * (len(lines) + 2)
            number, before = 1, 0
            for place, bit in sorted(self._places(compared)):
                number += compared.count("\n", before, place)
                held[number] |= bit
                before = place
            known = self._known[text] = lines, held
        return known

    def _places(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where the words and pairs of the query are in a text, each with its bit."""
        for word in self._words_begun(text) if self._searched is not None else _WORD.finditer(text):
            if bit := self._bit_of(word[0]):
                yield word.start(), bit
        for pair in self._pairs:
            for place in _every(pair, text):
                yield place, self._bits[pair]

    def _words_begun(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the words of a text that begin like one of the query: in a tenth of the time that all its words take."""
        for start in self._searched or ():
            for place in _every(start, text):
                if not (place and text[place - 1].isalnum()) and (word := _WORD.match(text, place)):
                    yield word

    def _is_named(self, line: str) -> bool:
        """Return whether a word of the query is in the label of a line: "Maria" of "- 11:01 Maria: hello"."""
        end = _COLON.search(line, 1, _LONGEST_LABEL)
        if end is None:
            return False
        label = line[: end.start()]
        words = [word for word in _WORD.findall(label) if not word.isdecimal()]
        return len(words) <= _MOST_IN_LABEL and (any(map(self._bit_of, words)) or any(pair in label for pair in self._pairs))

    def _bit_of(self, word: str) -> int:
        """Return the bit of the word of the query that ``word`` is a form of, or 0."""
        bit = self._bit_by_word.get(word)
        if bit is None:
            name = self._named(word) if word.startswith(self._starts) else ""
            bit = self._bit_by_word[word] = self._bits[name] if name else 0
        return bit

    def _phrases_in(self, line: str) -> int:
        """Return how many pairs of the query a line has."""
        words = _WORD.findall(line)
        places = [(place, bit) for place, word in enumerate(words) if (bit := self._bit_of(word))]
        phrases = {
            (one, other)
            for (before, one), (place, other) in pairwise(places)
            if (one, other) in self._ordered
            and (place == before + 1 or (place == before + 2 and len(words[before + 1]) <= _SHORT))
        }
        return len(phrases)

    def _named(self, word: str) -> str:
        """Return the word of the query that ``word`` is a form of, or ""."""
        return self._keys.get(word) or next((self._keys[key] for key in self._forms(word) if key in self._keys), "")

    def _forms(self, word: str) -> list[str]:
        return [stem(word, language) for language in self._languages]


def _start(stem: str) -> str:
    """Return how the words of a stem begin: stemming changes the last letters (studies, studi; happily, happili)."""
    return stem[: max(_SHORTEST, len(stem) - _CUT)]


def _every(part: str, text: str) -> Iterator[int]:
    """Yield each place of a part of a text."""
    place = text.find(part)
    while place >= 0:
        yield place
        place = text.find(part, place + 1)


@lru_cache(_REMEMBERED)
def _compared(text: str) -> str:
    """Return a text as its words are compared: passages are candidates again and again."""
    return folded(spaced(text))
