"""Texts without what a comparison does not look at: case, diacritics, and the width of characters."""

from __future__ import annotations

import re

_OTHER = re.compile(r"[^\x00-\x7f]+")
_NARROW = re.compile("[\uff61-\uff9f]+")


def folded(text: str) -> str:
    """Return a text as SQLite's tokenizer normalises it, without stemming: lower case, no diacritics."""
    if text.isascii():
        return text.lower()
    return _OTHER.sub(_bare, text.lower())


def _bare(run: re.Match[str]) -> str:
    from unicodedata import combining, normalize

    return normalize("NFC", "".join(c for c in normalize("NFD", run[0]) if not combining(c)))


def without_accents(text: str) -> str:
    """Return a text without diacritics and with each character at its place, so that positions in it are those in ``text``."""
    if text.isascii():
        return text
    from unicodedata import normalize

    return "".join(normalize("NFD", character)[0] for character in text)


def full_width(text: str) -> str:
    """Return a text with half-width katakana (as old devices write them) as the usual ones."""
    if text.isascii():
        return text
    from unicodedata import normalize

    return _NARROW.sub(lambda run: normalize("NFKC", run[0]), text)
