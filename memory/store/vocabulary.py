"""All words of an index, in RAM from their first use on: those that are like a word that no chunk contains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from memory.text.folding import folded
from memory.text.stems import stem

_SHORTEST, _LONGEST = 4, 40
LENGTHS = range(_SHORTEST, _LONGEST + 1)
"""How long the words are that are looked into."""
_SHORTEST_PART = 5
_SHARED = 0.85
"""Share of a word's letters, in a row, that a similar word must contain; of a short word all ("rotto" is not like "Grotta")."""
_MOST_ALIKE = 8
_FIRST_PART = "kinder"
_SHORTEST_FIRST_PART, _SHORTEST_END = 4, 4
"""Letters of what a compound begins and ends with, as German stems."""


class Vocabulary:
    """``read`` returns all words, each ended by a new line; they are read again when what ``state`` returns has changed."""

    def __init__(self, state: Callable[[], object], read: Callable[[], str]) -> None:
        self._state = state
        self._read = read
        self._words = ""
        self._read_at: object = None

    def like(self, word: str, languages: Sequence[str] = ()) -> list[str]:
        """Return words that contain most of ``word``, or that ``word`` contains; the most similar in length first.

        ``languages`` are those of the notes: in German, ``word`` may be the end of compounds.
        """
        asked = folded(word)[:_LONGEST]
        if len(asked) < _SHORTEST:
            return []
        if (state := self._state()) != self._read_at:
            self._words, self._read_at = "\n" + self._read(), state
        size = len(asked) if len(asked) <= _SHORTEST_PART else int(_SHARED * len(asked))
        found = {one for start in range(len(asked) - size + 1) for one in self._with(asked[start : start + size])}
        for length in range(len(asked) - 1, _SHORTEST_PART - 1, -1):
            for start in range(len(asked) - length + 1):
                part = asked[start : start + length]
                if f"\n{part}\n" in self._words:
                    found.add(part)
        if "German" in languages and len(asked) >= _SHORTEST_PART:
            found.update(self._compounds(asked))
        return sorted(found, key=lambda one: (abs(len(one) - len(asked)), one))[:_MOST_ALIKE]

    def _compounds(self, head: str) -> Iterator[str]:
        """Yield compounds that end with a word: their stem may be another one ("Regal" stays, and "Bücherregal" ends with "reg")."""
        compound = stem(_FIRST_PART + head, "German")
        if len(compound) >= len(_FIRST_PART) + _SHORTEST_END:  # that of "Regen" would be "reg", as that of "Bücherregal"
            end = stem(compound, "").removeprefix(_FIRST_PART)
            for one in self._with(f"{end}\n"):
                if len(one) >= len(end) + _SHORTEST_FIRST_PART:
                    yield one

    def _with(self, piece: str) -> list[str]:
        found: list[str] = []
        at = self._words.find(piece)
        while at >= 0 and len(found) < _MOST_ALIKE:
            start, end = self._words.rfind("\n", 0, at) + 1, self._words.index("\n", at)
            found.append(self._words[start:end])
            at = self._words.find(piece, end)
        return found
