"""Words of the index that are like a word it does not have: compounds, parts of compounds, other endings and prefixes."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory.store.chunk_store import ChunkStore
    from memory.store.database import Database

_SHORTEST = 4
_SHORTEST_PART = 5
_SHARED = 0.85
"""Share of a word's letters, in a row, that another word must have too."""
_MOST_ALIKE = 8
_LONGEST = 40


class Vocabulary:
    """Every word that the keyword index holds, in RAM once somebody asks, and read again when the index has changed."""

    def __init__(self, database: Database, notes: ChunkStore) -> None:
        self._db = database
        self._notes = notes
        self._words = ""
        self._read_at = (-1, -1)

    def like(self, word: str) -> list[str]:
        """Return words that hold most of ``word``, or that ``word`` holds whole; the nearest in length first."""
        asked = _folded(word)[:_LONGEST]
        if len(asked) < _SHORTEST:
            return []
        self._read()
        size = max(_SHORTEST, -int(-_SHARED * len(asked)))
        found = {one for start in range(len(asked) - size + 1) for one in self._with(asked[start : start + size])}
        for length in range(len(asked) - 1, _SHORTEST_PART - 1, -1):
            for start in range(len(asked) - length + 1):
                part = asked[start : start + length]
                if f"\n{part}\n" in self._words:
                    found.add(part)
        return sorted(found, key=lambda one: (abs(len(one) - len(asked)), one))[:_MOST_ALIKE]

    def _with(self, piece: str) -> list[str]:
        found: list[str] = []
        at = self._words.find(piece)
        while at >= 0 and len(found) < _MOST_ALIKE:
            start, end = self._words.rfind("\n", 0, at) + 1, self._words.index("\n", at)
            found.append(self._words[start:end])
            at = self._words.find(piece, end)
        return found

    def _read(self) -> None:
        state = (self._notes.words_changed, int(self._db.one("PRAGMA data_version")))
        if state == self._read_at:
            return
        self._db.connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, chunks_fts, row)")
        rows = self._db.rows("SELECT term FROM temp.vocabulary WHERE length(term) BETWEEN ? AND ?", (_SHORTEST, _LONGEST))
        self._words = "\n" + "".join(f"{term}\n" for (term,) in rows)
        self._read_at = state


def _folded(word: str) -> str:
    """Return a word as SQLite's tokenizer has it, but for its stem: lower case, without diacritics."""
    parts = unicodedata.normalize("NFD", word.lower())
    return unicodedata.normalize("NFC", "".join(c for c in parts if not unicodedata.combining(c)))
