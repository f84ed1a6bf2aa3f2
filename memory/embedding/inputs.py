"""Texts on their way to an embedder: made sendable, measured, grouped, and one rotten text kept from spoiling the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from memory.embedding.vector_checks import is_unit_vector
from memory.errors import EmbeddingFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

    from memory.embedding.protocol import Embedder


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
"""English runs at four bytes a token and CJK at three, so this errs on the safe side for both."""

PROBE_TEXT = "Does this embedder answer?"
"""A sentence that every embedding model takes: one that gives no vector for it is broken, whatever else it was asked."""

_BLANK = "."
"""Stands in for a text without content: providers refuse an empty string, and the whole call with it."""


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of ``text``, rather too many than too few. Never 0."""
    return len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN + 1


def clean_input(text: str, *, max_tokens: int) -> str:
    """Return ``text`` as a provider takes it: valid Unicode, no NUL, not empty, at most ``max_tokens`` by estimate.

    Embedding models read only so far; the beginning of an overlong text stands for all of it.
    """
    raw = text.encode("utf-8", "replace").replace(b"\x00", b" ")[: max(1, max_tokens - 1) * _BYTES_PER_TOKEN]
    clean = raw.decode("utf-8", "ignore")
    return clean if clean.strip() else _BLANK


def split_into_calls(items: Iterable[tuple[K, str]], *, max_tokens: int, max_texts: int) -> Iterator[list[tuple[K, str]]]:
    """Cut ``items`` into runs that fit one call each, in order. A text larger than ``max_tokens`` goes alone."""
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
    """Embed passages in groups, in order, and say for each text what came of it.

    A text that the provider refuses, or gives no usable vector for, is found by halving its group, so that the others are still
    embedded. Raises ``EmbeddingFailed`` when the provider itself is at fault (key, network, quota, or a plain sentence is not
    embedded either): asking for the rest would not help.
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
    """Embed one group; return the failure when one of its texts seems to be to blame."""
    try:
        vectors = await embedder.embed([text for _, text in group], purpose="passage")
    except EmbeddingFailed as failure:
        if failure.about_text:
            return failure
        raise
    if not all(map(is_unit_vector, vectors)):
        return EmbeddingFailed(
            f"{embedder.model} gave a vector that is zero, not finite or not of unit length.", about_text=True
        )
    return vectors


async def _blame_the_text(embedder: Embedder, failure: EmbeddingFailed) -> None:
    """Raise ``failure`` as the provider's own when it does not embed a plain sentence either."""
    if isinstance(await _vectors(embedder, [(None, PROBE_TEXT)]), EmbeddingFailed):
        hint = failure.hint or "Try it with `homebody memory status --deep`; the notes are embedded once it works again."
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
