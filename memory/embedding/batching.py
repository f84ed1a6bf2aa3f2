"""Texts on their way to an embedder: made sendable, measured, grouped, and one rotten text kept from spoiling the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from memory.errors import EmbeddingFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

    from memory.embedding.protocol import Embedder

K = TypeVar("K")

_BYTES_PER_TOKEN = 3
"""English runs at four bytes a token and CJK at three, so this errs on the safe side for both."""

_BLANK = "."
"""Stands in for a text without content: providers refuse an empty string, and the whole call with it."""


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of ``text``, rather too many than too few. Never 0."""
    return len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN + 1


def sendable(text: str, *, max_tokens: int) -> str:
    """Return ``text`` as a provider takes it: valid Unicode, no NUL, not empty, at most ``max_tokens`` by estimate.

    Embedding models read only so far; the beginning of an overlong text stands for all of it.
    """
    raw = text.encode("utf-8", "replace").replace(b"\x00", b" ")[: max(1, max_tokens - 1) * _BYTES_PER_TOKEN]
    clean = raw.decode("utf-8", "ignore")
    return clean if clean.strip() else _BLANK


def groups(items: Iterable[tuple[K, str]], *, max_tokens: int, max_texts: int) -> Iterator[list[tuple[K, str]]]:
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

    A text that the provider refuses is found by halving its group, so that the others are still embedded. Raises
    ``EmbeddingFailed`` when the provider itself is at fault (key, network, quota): asking for the rest would not help.
    """
    for group in groups(items, max_tokens=embedder.max_batch_tokens, max_texts=embedder.max_batch_texts):
        for key, outcome in await _group(embedder, group):
            yield key, outcome


async def _group(embedder: Embedder, group: Sequence[tuple[K, str]]) -> list[tuple[K, list[float] | EmbeddingFailed]]:
    try:
        vectors = await embedder.embed([text for _, text in group], purpose="passage")
    except EmbeddingFailed as failure:
        if not failure.about_text:
            raise
        if len(group) == 1:
            return [(group[0][0], failure)]
        half = len(group) // 2
        return [*await _group(embedder, group[:half]), *await _group(embedder, group[half:])]
    return [(key, vector) for (key, _), vector in zip(group, vectors, strict=True)]
