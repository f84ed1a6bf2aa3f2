"""Tokenizes queries and notes for the keyword index: words, bigrams of unspaced scripts, and code."""

from __future__ import annotations

import re

from msgspec import Struct

from memory.text.folding import full_width

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\uff66-\uff9f"
)
"""Scripts without spaces or with agglutinated endings: they are indexed by character bigrams."""

_RUN = re.compile(f"[{UNSPACED}\U00020000-\U0003ffff]+")
_WORD = re.compile(r"[^\W_]+")
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@#$%+-]*[A-Za-z0-9]")
_LOOKS_LIKE_CODE = re.compile(r"[A-Za-z][0-9]|[0-9][A-Za-z]|[_/:@#$%+]|[A-Za-z0-9]\.[A-Za-z0-9]|[a-z][A-Z]|[0-9]{3}")
_MOST_TERMS = 64
_TRIGRAM = 3


class Terms(Struct, frozen=True):
    """The terms of a query, without duplicates, in the order of the query.

    ``words`` go to the stemmed text, as they are written (SQLite folds case in its own way), ``pairs`` to its column of
    character pairs, ``code`` (and runs of three or more unspaced characters) to the trigram table. ``content_bigrams`` are the pairs
    that say what the question is about.
    """

    words: tuple[str, ...]
    pairs: tuple[str, ...]
    code: tuple[str, ...]
    content_bigrams: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any term."""
        return bool(self.words or self.pairs or self.code)


def query_terms(question: str, *, at_least_any: bool = True) -> Terms:
    """Split a query into terms. Stop words are removed unless nothing else is left; query syntax is removed too.

    With ``at_least_any`` False stop words are always removed (the query has a date, for example).
    """
    from memory.text import stop_words

    question = full_width(question)
    runs = _RUN.findall(question)
    words = _WORD.findall(_RUN.sub(" ", question))
    empty = stop_words.of([word.lower() for word in words])
    content = [word for word in words if word.lower() not in empty]
    pairs = [pair for run in runs for pair in bigrams(run)]
    if not content and not pairs and at_least_any:
        content = words
    code = code_tokens(question) + [run for run in runs if len(run) >= _TRIGRAM]
    content_bigrams = [pair for run in runs for pair in stop_words.content_bigrams(run, bigrams(run))]
    return Terms(_first(content), _first(pairs), _first(code), _first(content_bigrams))


def bigrams(run: str) -> list[str]:
    """Return the bigrams of a run of characters, or the run itself if it is a single character."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def bigram_text(text: str) -> str:
    """Return what the column of pairs holds for ``text``: pairs and single characters, so that either can be asked for."""
    if text.isascii():
        return ""
    text = full_width(text)
    return " ".join(" ".join((*bigrams(run), *(run if len(run) > 1 else ""))) for run in _RUN.findall(text))


def spaced(text: str) -> str:
    """Return ``text`` with blanks around each unspaced run, so that the words of other scripts within are words to the index."""
    return text if text.isascii() else _RUN.sub(lambda run: f" {run[0]} ", full_width(text))


def code_tokens(text: str) -> list[str]:
    """Return the tokens that look like an identifier, a path, a version or a number."""
    return [token for token in _CODE.findall(text) if len(token) >= _TRIGRAM and _LOOKS_LIKE_CODE.search(token)]


def trigram_text(text: str) -> str:
    """Return what the trigram table holds for ``text``: code and unspaced runs only, which keeps that table small."""
    found = code_tokens(text)
    if not text.isascii():
        found += [run for run in _RUN.findall(full_width(text)) if len(run) >= _TRIGRAM]
    return "\n".join(dict.fromkeys(found))


def fts_string(term: str) -> str:
    """Return ``term`` as an FTS5 string, whatever is in it."""
    return '"' + term.replace("\x00", " ").replace('"', '""') + '"'


def _first(found: list[str]) -> tuple[str, ...]:
    once: dict[str, str] = {}
    for term in found:
        once.setdefault(term.lower(), term)
    return tuple(once.values())[:_MOST_TERMS]
