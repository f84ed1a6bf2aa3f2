"""Tells whether known lines, of notes say, tell a sentence already.

A line tells a sentence when one cannot be a correction of the other. Where that is in doubt it does not: a sentence that is kept
twice costs a line, one that is not kept is lost.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from agent.context import turning_words
from agent.context.telling import CUE, sentences_of
from memory.text import stems, stop_words
from memory.text.terms import UNSPACED

HEAD = "## Kept word for word"
_MISSING = 0.4
"""A sentence counts as noted when no more than this share of its ordinary words is missing in the line of the note."""
_MISSING_OF_ALL = 0.2
"""The same where the model noted nothing: in a short sentence no word may be missing then."""
_HALF = 0.5
"""Of the words of a sentence that was corrected, which a line must share that tells it as it is now."""
_LEAST_WORDS = 2
_LEAST_IN_COMMON = 2
"""A sentence with fewer words that tell something corrects no line, and is told only with all of its words in a row."""
_LEAST_LETTERS = 3
"""Of a word behind an apostrophe."""
_ASKED_TO_KEEP = re.compile(
    r"(?:please|bitte|also|and|und)?,?\s*(?:remember|note|keep in mind|don['’]t forget|merk(?:e)? dir|notier(?:e)?|denk(?:e)? daran|"
    r"vergiss nicht|souviens-toi|n['’]oublie pas|recuerda|ricorda(?:ti)?)\b(?:\s*,?\s*(?:that|dass|que|che)\b)?[\s:,]*",
    re.IGNORECASE,
)
"""How a sentence begins that asks for something to be kept; what comes behind it is what is kept."""
_SIGNS = frozenset("$€£¥₹%‰°")
"""What makes another thing of a figure beside it. They are words of a row, and say nothing by themselves."""
_TOKEN = re.compile(rf"[{UNSPACED}]{{1,2}}|(?:(?<![^\s(])[+−-](?=\d))?[^\W_](?:[\w.@/:'’-]*[^\W_])?|[{''.join(_SIGNS)}]")
_PRONOUNS = (
    "he she they you him her them er sie ihn ihm ihr du dir dich il elle ils elles tu vous él ella ellos ellas lui lei loro "
    "hij zij ele ela"
)
_OTHERS = frozenset(_PRONOUNS.split())
"""Who is meant by these is unknown: where a sentence names nobody, a line must hold the same."""
_LIST_MARK = "-*+•> \t"


class _Words(Struct, frozen=True):
    """The words of a text, all in a row; ``strong`` are names and figures, ``other`` the rest that tells something by itself."""

    row: tuple[str, ...]
    strong: frozenset[str]
    other: frozenset[str]


class _Line(Struct, frozen=True):
    """The words of a line, those of its heading, and which of its own tell something. ``exact``: it was kept word for word."""

    heading: tuple[str, ...]
    own: tuple[str, ...]
    bag: frozenset[str]
    telling: frozenset[str]
    exact: bool

    @property
    def row(self) -> tuple[str, ...]:
        return self.heading + self.own


class Told:
    """Known lines, indexed by their words. ``strict``: the model noted nothing, so that next to all words must be in a line.

    A line that was kept word for word tells a sentence only with all of its words in a row, and nothing beside them that turns
    them. Another line, with its heading, tells it with all names and figures and most other words, if it only leaves words out and
    has none in their place, where names and figures, and the other words, come in the same order, and where negations and the
    like ("before", "only", "less") stand before the same words and no small word excludes one of the sentence ("from" for "to").
    """

    def __init__(self, known: str, *, strict: bool = False) -> None:
        self._strict = strict
        self._missing = _MISSING_OF_ALL if strict else _MISSING
        self._lines: list[_Line] = []
        self._where: dict[str, set[int]] = defaultdict(set)
        heading: tuple[str, ...] = ()
        kept = False
        for line in known.splitlines():
            if line.lstrip().startswith("#"):
                words = _words(line)
                heading, kept = words.row, line.strip() == HEAD
                self._add((), words, exact=kept)
                continue
            for text in (line,) if kept else _with_parts(line):
                self._add(heading, _words(text), exact=kept)

    def add(self, line: str) -> None:
        """Add a line that is kept word for word."""
        self._add((), _words(line), exact=True)

    def _add(self, heading: tuple[str, ...], words: _Words, *, exact: bool) -> None:
        line = _Line(heading, words.row, frozenset(heading + words.row), words.strong | words.other, exact)
        for word in line.bag:
            self._where[word].add(len(self._lines))
        self._lines.append(line)

    def tells(self, sentence: str) -> bool:
        """Whether one of the lines tells a sentence."""
        words = _words(sentence)
        if not words.strong | words.other and not (self._strict and len(words.row) >= _LEAST_WORDS):
            return True
        return any(self._is_told_by(words, self._lines[n]) for n in self._near(words))

    def tells_corrected(self, sentence: str, before: str, correction: str) -> bool:
        """Whether a line holds a sentence word for word, or tells what was said ``before`` as it is after its correction.

        The second does a line that has the words of the correction, and some of those before it, but not all.
        """
        words, first, then = (_words(text) for text in (sentence, before, correction))
        near = [self._lines[n] for n in set.intersection(*(self._where.get(word, set()) for word in words.row))]
        if any(words.row == line.own or (line.exact and _stand_in_a_row(words.row, line.row)) for line in near):
            return True
        said, new = first.strong | first.other, then.strong | then.other
        lines = (self._lines[n] for n in set.intersection(*(self._where.get(word, set()) for word in new))) if new else ()
        return any(
            not line.exact and not said <= line.bag and len(said & line.bag) >= _HALF * len(said - new) for line in lines
        )

    def turns(self, sentence: str) -> bool:
        """Whether a sentence says something else in nearly the words of a line: it corrects that line."""
        words = _words(sentence)
        if self.tells(sentence):
            return False
        if any(_has_another_in_place(words.row, self._lines[n].own) for n in self._near(words)):
            return True
        if len(words.strong | words.other) < _LEAST_IN_COMMON:
            return False
        turning = frozenset(words.row[n] for n, _ in turning_words.marks(words.row))
        words = _Words(words.row, words.strong - turning, words.other - turning)
        return any(self._holds_words_of(words, self._lines[n]) for n in self._near(words))

    def _near(self, words: _Words) -> set[int]:
        found = [self._where.get(word, set()) for word in words.strong or words.other or words.row]
        return set.intersection(*found) if words.strong else set().union(*found)

    def _holds_words_of(self, words: _Words, line: _Line) -> bool:
        return len(words.other - line.bag) <= self._missing * len(words.other)

    def _is_told_by(self, words: _Words, line: _Line) -> bool:
        if words.row == line.own:
            return True
        if line.exact or len(words.strong | words.other) < _LEAST_IN_COMMON:
            return _stand_in_a_row(words.row, line.row)
        if not self._holds_words_of(words, line) or _replaces(words, line) or _has_another_in_place(words.row, line.own):
            return False
        if turning_words.contradict(words.row, line.row):
            return False
        if not words.strong and not _OTHERS.intersection(words.row) <= line.bag:
            return False
        return _turned_alike(words, line) and _in_the_same_order(words, line)


def _with_parts(line: str) -> Iterator[str]:
    """A line, and its sentences where it has several."""
    yield line
    parts = [part for sentence in sentences_of([line]) for part in sentence.split(";")]
    if len(parts) > 1:
        yield from parts


def _stand_in_a_row(row: tuple[str, ...], line: tuple[str, ...]) -> bool:
    """Whether words stand in a line in a row, and what is beside them turns nothing."""
    if f" {' '.join(row)} " not in f" {' '.join(line)} ":
        return False
    return len(turning_words.marks(row)) == len(turning_words.marks(line))


def _replaces(words: _Words, line: _Line) -> bool:
    """Whether a line does not only leave words of a sentence out, but has others in their place.

    Forms of one word count as the same ("needs", "needed").
    """
    left_out, others = words.other - line.bag, line.telling.difference(words.row)
    if not left_out or not others:
        return False
    there, said = {_stem(word) for word in line.bag}, {_stem(word) for word in words.row}
    return any(_stem(word) not in there for word in left_out) and any(_stem(word) not in said for word in others)


def _has_another_in_place(row: Sequence[str], line: Sequence[str]) -> bool:
    """Whether a line has between the same two words, or at its end, another word than a sentence has there.

    That counts for every word, as the language of a short sentence is often told wrongly and a number or verb then taken for a stop
    word ("sei", "once", "come"); only where both are stop words of some language it does not ("a", "the").
    """
    said, noted = {_stem(word) for word in row}, {_stem(word) for word in line}
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for left, word, right in zip(line, line[1:], (*line[2:], ""), strict=False):
        if _stem(word) not in said:
            places[left, right].append(word)
    return any(
        not (stop_words.is_one(word) and stop_words.is_one(other))
        for left, word, right in zip(row, row[1:], (*row[2:], ""), strict=False)
        if _stem(word) not in noted
        for other in places.get((left, right), ())
    )


def _stem(word: str) -> str:
    """The English stem, but not of a final e, which marks who is meant in French and German; without an elided article."""
    bare = word.rpartition("'")[2]
    bare = bare if len(bare) >= _LEAST_LETTERS else word
    return bare if bare.endswith("e") else stems.stem(bare, "")


def _turned_alike(words: _Words, line: _Line) -> bool:
    """Whether the same words are turned by a negation or the like."""
    common = (words.strong | words.other) & line.bag
    return _turned(words.row, common) == _turned(line.row, common)


def _turned(row: tuple[str, ...], common: frozenset[str]) -> Counter[tuple[str, str]]:
    return Counter((mark, next((word for word in row[n + 1 :] if word in common), "")) for n, mark in turning_words.marks(row))


def _in_the_same_order(words: _Words, line: _Line) -> bool:
    """Whether the words of a sentence that a line shares with it come in the same order there.

    An ordinary word may stand on the other side of the name beside it ("Alice as lead", "lead: Alice"). Words such as "decided"
    may stand anywhere.
    """
    told = [word for word in words.row if word in words.strong or (word in words.other and not CUE.fullmatch(word))]
    common = frozenset(told) & line.bag
    told = [word for word in told if word in common]
    there = [word for word in line.heading if word in common and word not in line.own]
    there += [word for word in line.own if word in common]
    for kind in (words.strong, words.other):
        if not _is_within(_each_once([w for w in told if w in kind]), _each_once([w for w in there if w in kind])):
            return False
    return _pairs(there, words.strong) <= _pairs(told, words.strong) | _beside(told, words.strong)


def _each_once(row: Sequence[str]) -> list[str]:
    """A row without words that only repeat the one before."""
    return [word for n, word in enumerate(row) if n == 0 or row[n - 1] != word]


def _is_within(row: Sequence[str], line: Sequence[str]) -> bool:
    return any(list(line[n : n + len(row)]) == list(row) for n in range(len(line) - len(row) + 1))


def _pairs(row: Sequence[str], strong: frozenset[str]) -> set[tuple[str, str]]:
    """All pairs of words of a row in their order of which one is strong."""
    return {(a, b) for n, a in enumerate(row) for b in row[n + 1 :] if (a in strong) != (b in strong)}


def _beside(row: Sequence[str], strong: frozenset[str]) -> set[tuple[str, str]]:
    """The pairs, either way round, of an ordinary word and each of the strong words in a row beside it."""
    found: set[tuple[str, str]] = set()
    for n, word in enumerate(row):
        if word in strong:
            continue
        for step in (1, -1):
            at = n + step
            while 0 <= at < len(row) and row[at] in strong:
                found |= {(word, row[at]), (row[at], word)}
                at += step
    return found


def _words(text: str) -> _Words:
    text = text.lstrip(_LIST_MARK)
    asked = _ASKED_TO_KEEP.match(text)
    tokens = _TOKEN.findall(text[asked.end() :] if asked else text)
    plain = [_bare(token) for token in tokens]
    empty = stop_words.of(plain)
    strong: set[str] = set()
    other: set[str] = set()
    for n, (token, word) in enumerate(zip(tokens, plain, strict=True)):
        if word in _SIGNS or empty.issuperset(word.split("'")) or (len(word) == 1 and not word.isdigit() and word.isascii()):
            continue
        named = token[0].isupper() and not (n == 0 and CUE.fullmatch(token))
        particular = named or any(letter.isdigit() for letter in token)
        (strong if particular else other).add(word)
    return _Words(tuple(plain), frozenset(strong), frozenset(other) - frozenset(strong))


def _bare(token: str) -> str:
    word = token.casefold().replace("’", "'").removesuffix("'s")
    return word.removesuffix("'")
