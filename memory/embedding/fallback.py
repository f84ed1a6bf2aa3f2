"""Failover from one embedder to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from memory.embedding.protocol import Embedder
from memory.errors import EmbeddingFailed

MAX_TRANSIENT_FAILURES = 3
"""Transient failures in a row, each after its own retries, before the second embedder takes over."""


class FallbackEmbedder:
    """Uses the first embedder until it fails permanently, then the second.

    One index must not mix vectors of two models. The failing call therefore still raises, and the identity (``provider``,
    ``model``, ``fingerprint``) changes, which tells the caller to rebuild the index. The second embedder takes over only after
    it answered a trial call. ``stepped_in`` is then the name of the first provider; ``tell`` takes a sentence for the owner.
    """

    def __init__(self, first: Embedder, second: Embedder, *, tell: Callable[[str], None]) -> None:
        self.first = first
        self.second = second
        self._active = first
        self._tell = tell
        self._failed_in_passing = 0
        self.stepped_in: str | None = None

    @property
    def provider(self) -> str:
        """The provider in use."""
        return self._active.provider

    @property
    def model(self) -> str:
        """The model in use."""
        return self._active.model

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the embedder in use."""
        return self._active.fingerprint

    @property
    def max_batch_tokens(self) -> int:
        """What one call of the embedder in use carries."""
        return self._active.max_batch_tokens

    @property
    def max_batch_texts(self) -> int:
        """How many texts one call of the embedder in use carries."""
        return self._active.max_batch_texts

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        """Embed with the current embedder. Also raises ``EmbeddingFailed`` if it was just replaced; check ``provider`` again."""
        used = self._active
        try:
            vectors = await used.embed(texts, purpose=purpose)
        except EmbeddingFailed as failure:
            if used is self.first and self.stepped_in is None and self._is_enough(failure):
                await self._switch(failure)
            raise
        if used is self.first:
            self._failed_in_passing = 0
        return vectors

    async def close(self) -> None:
        """Close both."""
        await self.first.close()
        await self.second.close()

    def _is_enough(self, failure: EmbeddingFailed) -> bool:
        if failure.about_text:
            return False
        self._failed_in_passing += 1
        return not failure.passing or self._failed_in_passing >= MAX_TRANSIENT_FAILURES

    async def _switch(self, reason: EmbeddingFailed) -> None:
        try:
            await self.second.embed(["Does this embedder answer?"], purpose="query")
        except EmbeddingFailed as failure:
            self._tell(f"{self.first.provider} embeddings failed ({reason}), and so did the fallback ({failure}).")
            return
        if self.stepped_in is not None:  # another call was faster
            return
        self.stepped_in = self.first.provider
        self._active = self.second
        self._tell(
            f"{self.first.provider} embeddings failed ({reason}); {self.second.provider} ({self.second.model}) "
            "is used until the next start, and the index is rebuilt with it."
        )
