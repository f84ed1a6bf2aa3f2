"""What some embedding models want in front of a text, so that a question and its answer meet.

Each pair is the one on its model's card. Models that are not listed were trained without any.
"""

from __future__ import annotations

from typing import Literal

_PAIRS: tuple[tuple[str, str, str], ...] = (
    # part of the model's name, before a query, before a passage
    ("embeddinggemma", "task: search result | query: ", "title: none | text: "),
    ("nomic-embed", "search_query: ", "search_document: "),
    ("snowflake-arctic-embed", "Represent this sentence for searching relevant passages: ", ""),
    ("mxbai-embed", "Represent this sentence for searching relevant passages: ", ""),
    ("bge-m3", "", ""),
    ("bge-", "Represent this sentence for searching relevant passages: ", ""),
    ("e5-", "query: ", "passage: "),
)


def prompted(text: str, *, model: str, purpose: Literal["query", "passage"]) -> str:
    """Return ``text`` with the prefix that ``model`` was trained with, if any."""
    name = model.casefold()
    for part, query, passage in _PAIRS:
        if part in name:
            return (query if purpose == "query" else passage) + text
    return text
