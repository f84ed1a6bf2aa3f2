"""Word stems in the languages that snowballstemmer knows, and the language of a text by its stop words."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

_ALGORITHMS = {
    "Dutch": "dutch",
    "French": "french",
    "German": "german",
    "Italian": "italian",
    "Polish": "polish",
    "Portuguese": "portuguese",
    "Russian": "russian",
    "Spanish": "spanish",
    "Swedish": "swedish",
}
ARABIC = "Arabic"
_WORD = re.compile(r"[^\W_]+")
_ARABIC = re.compile("[\u0620-\u064a]")
_LOOKED_AT = 20_000
"""Characters of a text by which its language is judged."""
_FEWEST = 3
_SHARE = 0.08
"""Stop words, in number and as a share of all words, that a text of a language has at least."""
_REMEMBERED = 10_000
"""Words whose stems are kept, at 200 bytes each. Numbers have none, and would fill it in some weeks."""


def language_of(text: str) -> str:
    """Return the language of a text if its words are to be stemmed by snowballstemmer; "" for English and the unknown.

    English is left to SQLite's own stemmer. Arabic is told by its script; the others by stop words, of which a list of names or
    numbers has none.
    """
    from memory.text import stop_words

    words = _WORD.findall(text[:_LOOKED_AT].lower())
    if not text.isascii() and sum(bool(_ARABIC.match(word)) for word in words) * 2 > len(words):
        return ARABIC
    name, count = stop_words.language(words)
    return name if name in _ALGORITHMS and count >= max(_FEWEST, _SHARE * len(words)) else ""


def stem(word: str, language: str) -> str:
    """Return the stem of a word, in lower case. "" is English."""
    return word if word.isdecimal() else _stem(word.lower(), language)


def stemmed(text: str, language: str) -> str:
    """Return ``text`` with each word replaced by its stem; ``text`` itself for English, which SQLite stems."""
    return _WORD.sub(lambda word: stem(word[0], language), text) if language else text


def forms(word: str, languages: Sequence[str]) -> list[str]:
    """Return a word and its stems in these languages, those once that SQLite cannot tell apart."""
    if not languages:
        return [word]
    found = {stem(word, ""): word}
    for language in languages:
        if (language == ARABIC) == bool(_ARABIC.match(word)):
            other = stem(word, language)
            found.setdefault(stem(other, ""), other)
    return list(found.values())


@lru_cache(_REMEMBERED)
def _stem(word: str, language: str) -> str:
    if language == ARABIC and not _ARABIC.match(word):
        return word
    if language == ARABIC:
        return _arabic(word)
    stemmer = _stemmer(_ALGORITHMS.get(language, "porter"))
    return str(stemmer.stemWord(word))


def _arabic(word: str) -> str:
    """Strip what Arabic writes together with a word (and, the, in, for) before the stemmer takes its endings."""
    for prefix in ("وال", "فال", "بال", "كال", "لل", "ال"):
        if word.startswith(prefix) and len(word) - len(prefix) > 2:  # noqa: PLR2004 - the letters of a root
            word = word.removeprefix(prefix)
            break
    return str(_stemmer("arabic").stemWord(word))


@cache
def _stemmer(algorithm: str) -> Any:
    return importlib.import_module("snowballstemmer").stemmer(algorithm)
