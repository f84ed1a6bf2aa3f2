"""What an embedder is to the index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Embedder(Protocol):
    """One embedding model of one provider.

    ``fingerprint`` changes whenever vectors of the same text would (endpoint, model file), never with a key.
    ``max_batch_tokens`` is how much one call may carry (estimate), ``max_batch_texts`` how many texts.
    """

    provider: str
    model: str
    fingerprint: str
    max_batch_tokens: int
    max_batch_texts: int

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        """Return one unit-length vector per text, in order.

        Raises ``memory.errors.EmbeddingFailed`` after its own retries, also for zero, NaN or wrong-sized vectors.
        """
        ...

    async def close(self) -> None:
        """Release connections and models."""
        ...
