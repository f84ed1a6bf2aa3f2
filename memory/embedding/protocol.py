"""What an embedder is to the index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Embedder(Protocol):
    """One embedding model of one provider.

    ``fingerprint`` changes whenever vectors of the same text would (endpoint, model file), never with a key.
    ``max_batch_tokens`` is how much one call may carry (estimate), ``max_batch_texts`` how many texts; more is cut into calls.
    Read them anew before each use: a fallback changes who it is when it steps in.
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
