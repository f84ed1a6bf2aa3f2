"""Protocol of an embedder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol


class Embedder(Protocol):
    """One embedding model of one provider.

    ``fingerprint`` changes whenever vectors of the same text would (endpoint, model file), never with a key.
    ``max_batch_tokens`` is the limit of one call in estimated tokens, ``max_batch_texts`` in texts; more is split into several calls.
    Read them before each use: they change when a fallback takes over.
    """

    @property
    def provider(self) -> str:
        """Name of the provider: openai, gemini, local."""
        ...

    @property
    def model(self) -> str:
        """Name of the model at that provider."""
        ...

    @property
    def fingerprint(self) -> str:
        """Tells vectors of this model from those of every other one."""
        ...

    @property
    def max_batch_tokens(self) -> int:
        """How many tokens one call may carry."""
        ...

    @property
    def max_batch_texts(self) -> int:
        """How many texts one call may carry."""
        ...

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        """Return one unit-length vector per text, in order.

        Raises ``memory.errors.EmbeddingFailed`` after its own retries, also for zero, NaN or wrong-sized vectors.
        """
        ...

    async def close(self) -> None:
        """Release connections and models."""
        ...
