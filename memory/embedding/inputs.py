"""Prepares texts for embedding: model prefixes, length limits, batches, and isolation of texts that fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Literal, TypeVar

from memory.embedding.protocol import Embedder
from memory.embedding.vector_checks import is_unit_vector
from memory.errors import EmbeddingFailed

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
"""Prefixes from the model cards. Models that are not listed were trained without any."""


def prompted(text: str, *, model: str, purpose: Literal["query", "passage"]) -> str:
    """Return ``text`` with the prefix that ``model`` was trained with, if any."""
    name = model.casefold()
    for part, query, passage in _PAIRS:
        if part in name:
            return (query if purpose == "query" else passage) + text
    return text


K = TypeVar("K")

_BYTES_PER_TOKEN = 3
"""English has about four bytes per token and CJK about three, so this estimate is rather too high for both."""

PROBE_TEXT = "Does this embedder answer?"
"""A sentence that every working embedding model accepts. If it fails, the model is at fault, not the text."""

_BLANK = "."
"""Replaces a text without content: providers reject an empty string, and with it the whole call."""


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of ``text``, rather too many than too few. Never 0."""
    return len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN + 1


def clean_input(text: str, *, max_tokens: int) -> str:
    """Return ``text`` in a form that providers accept: valid Unicode, no NUL, not empty, at most ``max_tokens`` (estimated).

    Of a longer text only the beginning is embedded.
    """
    raw = text.encode("utf-8", "replace").replace(b"\x00", b" ")[: max(1, max_tokens - 1) * _BYTES_PER_TOKEN]
    clean = raw.decode("utf-8", "ignore")
    return clean if clean.strip() else _BLANK


def split_into_calls(items: Iterable[tuple[K, str]], *, max_tokens: int, max_texts: int) -> Iterator[list[tuple[K, str]]]:
    """Split ``items`` into groups that fit into one call each, in order. A text larger than ``max_tokens`` is a group of its own."""
    group: list[tuple[K, str]] = []
    tokens = 0
    for key, text in items:
        size = estimated_tokens(text)
        if group and (tokens + size > max_tokens or len(group) >= max_texts):
            yield group
            group, tokens = [], 0
        group.append((key, text))
        tokens += size
    if group:
        yield group


async def embed_each(
    embedder: Embedder, items: Iterable[tuple[K, str]]
) -> AsyncIterator[tuple[K, list[float] | EmbeddingFailed]]:
    """Embed passages in groups, in order, and yield the vector or the failure of each text.

    A text that the provider rejects, or returns no usable vector for, is isolated by bisecting its group, so that the others
    are still embedded. Raises ``EmbeddingFailed`` if the provider is at fault (key, network, quota, or ``PROBE_TEXT`` fails
    too).
    """
    for group in split_into_calls(items, max_tokens=embedder.max_batch_tokens, max_texts=embedder.max_batch_texts):
        vectors = await _vectors(embedder, group)
        if isinstance(vectors, EmbeddingFailed):
            await _blame_the_text(embedder, vectors)
            outcomes = await _halved(embedder, group, vectors)
        else:
            outcomes = [(key, vector) for (key, _), vector in zip(group, vectors, strict=True)]
        for key, outcome in outcomes:
            yield key, outcome


async def _vectors(embedder: Embedder, group: Sequence[tuple[K, str]]) -> list[list[float]] | EmbeddingFailed:
    """Embed one group; return the failure if one of its texts seems to cause it."""
    try:
        vectors = await embedder.embed([text for _, text in group], purpose="passage")
    except EmbeddingFailed as failure:
        if failure.about_text:
            return failure
        raise
    if not all(map(is_unit_vector, vectors)):
        return EmbeddingFailed(
            f"{embedder.model} returned a vector that is zero, not finite or not of unit length.", about_text=True
        )
    return vectors


async def _blame_the_text(embedder: Embedder, failure: EmbeddingFailed) -> None:
    """Raise ``failure`` as the provider's fault if it does not embed ``PROBE_TEXT`` either."""
    if isinstance(await _vectors(embedder, [(None, PROBE_TEXT)]), EmbeddingFailed):
        hint = failure.hint or "Test it with `homebody memory status --deep`; the notes are embedded when it works again."
        raise EmbeddingFailed(str(failure), hint=hint, passing=True) from failure


async def _halved(
    embedder: Embedder, group: Sequence[tuple[K, str]], failure: EmbeddingFailed
) -> list[tuple[K, list[float] | EmbeddingFailed]]:
    if len(group) == 1:
        return [(group[0][0], failure)]
    outcomes: list[tuple[K, list[float] | EmbeddingFailed]] = []
    for half in (group[: len(group) // 2], group[len(group) // 2 :]):
        vectors = await _vectors(embedder, half)
        if isinstance(vectors, EmbeddingFailed):
            outcomes += await _halved(embedder, half, vectors)
        else:
            outcomes += [(key, vector) for (key, _), vector in zip(half, vectors, strict=True)]
    return outcomes
