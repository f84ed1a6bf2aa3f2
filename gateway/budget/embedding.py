"""Budget wrapper for embedders: calls are reserved before and booked after, like model calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from agent.models.catalog.prices import EMBEDDING_ESTIMATE, FREE, Price, is_own
from gateway.budget.guard import BudgetGuard
from gateway.ledger.spending import Spent
from memory.embedding.inputs import estimated_tokens
from memory.embedding.protocol import Embedder
from memory.errors import EmbeddingFailed

SESSION = "memory search"
"""The name under which embeddings are booked."""
LOCAL = frozenset({"local", "fake"})
"""Providers that cost nothing."""


class BudgetEmbedder:
    """Wraps an ``Embedder``. Its calls count as background work; over budget they fail, and memory is searched by keyword only.

    Tokens are estimated, because providers report them differently and embeddings cost little.
    """

    def __init__(self, embedder: Embedder, brake: BudgetGuard, price: Price | None) -> None:
        self.within = embedder
        self._brake = brake
        address = getattr(getattr(embedder, "endpoint", None), "base_url", "")
        self._price = FREE if is_own(address) else price or EMBEDDING_ESTIMATE

    @property
    def provider(self) -> str:
        """See the protocol."""
        return self.within.provider

    @property
    def model(self) -> str:
        """See the protocol."""
        return self.within.model

    @property
    def fingerprint(self) -> str:
        """See the protocol."""
        return self.within.fingerprint

    @property
    def max_batch_tokens(self) -> int:
        """See the protocol."""
        return self.within.max_batch_tokens

    @property
    def max_batch_texts(self) -> int:
        """See the protocol."""
        return self.within.max_batch_texts

    @property
    def stepped_in(self) -> str | None:
        """The fallback in use, if the wrapped embedder has one."""
        found: str | None = getattr(self.within, "stepped_in", None)
        return found

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "passage"]) -> list[list[float]]:
        """See the protocol."""
        if self.provider in LOCAL:
            return await self.within.embed(texts, purpose=purpose)
        sent = sum(map(estimated_tokens, texts))
        usd = self._price.at_most(sent, 0)
        reserved = await self._brake.reserve(SESSION, f"{self.provider}/{self.model}", tokens=sent, usd=usd, background=True)
        if reserved.row is None:
            name = reserved.broken.name if reserved.broken else "the budget"
            raise EmbeddingFailed(
                f"Today's budget ({name}) is used up, so no vectors are created.",
                hint=f"Memory is searched by keyword meanwhile. To raise the budget: homebody config set {name} ...",
            )
        spent = Spent(cost=0.0)
        try:
            vectors = await self.within.embed(texts, purpose=purpose)
            spent = Spent(input=sent, cost=usd, estimated=True)
        finally:
            self._brake.settle(reserved.row, spent)
        return vectors

    async def close(self) -> None:
        """Close the wrapped embedder."""
        await self.within.close()
