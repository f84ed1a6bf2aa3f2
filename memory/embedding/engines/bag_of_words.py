"""An embedder without a network or a model: texts that share word stems come out close.

It is shipped so that the index, its tests and a trial run have honest vectors: the same text gives the same vector in every
process and on every machine, and the cosine of two texts grows with the words they share.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_ENDINGS = ("ingly", "edly", "ings", "ing", "ies", "ied", "est", "ers", "ed", "es", "er", "ly", "s", "e", "y")
_SHORTEST_STEM = 3


class BagOfWords:
    """A deterministic embedder: hashed stems, unit length. ``calls`` counts the texts it was asked for, by purpose."""

    provider = "fake"

    def __init__(self, *, dims: int = 128, model: str = "bag-of-words") -> None:
        self.model = model
        self.fingerprint = f"bag-of-words-1-{dims}"
        self.max_batch_tokens = 8_000
        self.max_batch_texts = 64
        self.dims = dims
        self.calls: dict[str, int] = {"query": 0, "passage": 0}
        self.closed = False

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        """Return one unit-length vector per text, in order. Never fails."""
        self.calls[purpose] += len(texts)
        return [self.vector_of(text) for text in texts]

    async def close(self) -> None:
        """Note that it was closed."""
        self.closed = True

    def vector_of(self, text: str) -> list[float]:
        """Return the unit-length vector of a text."""
        vector = [0.0] * self.dims
        for stem in stems(text) or [f"no words: {text}"]:
            place, sign = _slot(stem, self.dims)
            vector[place] += sign
        length = math.sqrt(sum(x * x for x in vector))
        if length == 0.0:  # two stems met in one place with opposite signs, and nothing else was said
            vector[0] = length = 1.0
        return [x / length for x in vector]


def stems(text: str) -> list[str]:
    """Cut ``text`` into lower-case word stems; scripts written without spaces give their pairs of characters."""
    found: list[str] = []
    for word in _WORD.findall(text.casefold()):
        if _UNSPACED.search(word):
            found.extend(word[i : i + 2] for i in range(max(1, len(word) - 1)))
        else:
            found.append(_stem(word))
    return found


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word


@lru_cache(maxsize=50_000)
def _slot(stem: str, dims: int) -> tuple[int, float]:
    digest = int.from_bytes(hashlib.blake2b(stem.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    return digest % dims, 1.0 if digest >> 63 else -1.0
