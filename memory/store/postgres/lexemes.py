"""What the word lists in PostgreSQL hold: words as the index compares them, each with how often it occurs, and pieces of codes.

They are cut, folded and stemmed here and not by PostgreSQL, so that a search finds the same on every server, and on SQLite. A lexeme is
the number of its generation, a digit or letter, and a word: `7:2boiler` is "boiler", twice, in generation 7. The count is part of the
lexeme, as the index answers by it alone, and the lists themselves need not be read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from memory.text.folding import folded
from memory.text.stems import stem, stemmed
from memory.text.terms import bigram_text, spaced, trigram_text

MOST_OFTEN: Final = 9
"""Words that occur more often in a chunk count as often as this; BM25 gains little beyond."""
_WORD: Final = re.compile(r"[^\W_]+")
_LONGEST: Final = 120
_PIECE: Final = 3


class WordList(Struct, frozen=True):
    """The words of a chunk: how often each, how many there are, and its codes, in which pieces are searched."""

    counts: dict[str, int]
    size: int
    code: str

    def literal(self, generation: int) -> str:
        """Return them as PostgreSQL reads a tsvector."""
        lexemes = [lexeme(generation, word, min(count, MOST_OFTEN)) for word, count in self.counts.items()]
        lexemes += [code_lexeme(generation, piece) for piece in pieces(self.code)]
        return " ".join(lexemes)


def words_of(text: str) -> list[str]:
    """Return the words of a text as the index compares them: without case, diacritics and endings."""
    return [stem(word, "")[:_LONGEST] for word in _WORD.findall(folded(text))]


def word_list(head: str, heading: str, text: str, language: str) -> WordList:
    """Return what the index holds of a chunk with this head and text in a language ("" for English and the unknown)."""
    found = words_of(stemmed(spaced(head), language)) + words_of(stemmed(spaced(text), language))
    found += words_of(bigram_text(f"{head}\n{text}"))
    return WordList(dict(Counter(found)), len(found), folded(trigram_text(f"{heading}\n{text}")).replace("\x00", " "))


def pieces(code: str) -> set[str]:
    """Return all runs of three characters in the lines of a text."""
    return {line[at : at + _PIECE] for line in code.split("\n") for at in range(len(line) - _PIECE + 1)}


def lexeme(generation: int, word: str, count: int) -> str:
    """Return a word that occurs so often, as PostgreSQL reads it in a tsvector and a tsquery."""
    return _quoted(f"{generation}:{count}{word}")


def code_lexeme(generation: int, piece: str) -> str:
    """Return a piece of a code, likewise."""
    return _quoted(f"{generation}:c{piece}")


def any_count(generation: int, word: str) -> str:
    """Return the query for a word, however often."""
    return " | ".join(lexeme(generation, word, count) for count in range(1, MOST_OFTEN + 1))


def all_pieces(generation: int, code: str) -> str:
    """Return the query for the chunks in which a code may be."""
    return " & ".join(code_lexeme(generation, piece) for piece in sorted(pieces(code)))


def vocabulary_of(lists: Iterable[WordList], lengths: Sequence[int]) -> set[str]:
    """Return the words of these lists that are of one of these lengths."""
    return {word for one in lists for word in one.counts if len(word) in lengths}


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
