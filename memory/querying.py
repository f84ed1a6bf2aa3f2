"""The vector of a question: remembered for a while, and never waited for too long."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from memory.errors import EmbeddingFailed
from memory.vectoring import identity, is_unit

if TYPE_CHECKING:
    from memory.clock import Clock
    from memory.embedding.protocol import Embedder

_MOST_REMEMBERED = 64
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 30.0


class QueryVectors:
    """Embeds questions. After a failure that may repeat itself the embedder is left alone for half a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._remembered: OrderedDict[tuple[str, ...], list[float]] = OrderedDict()
        self._not_before = 0.0
        self._trouble = ""

    async def vector(self, embedder: Embedder, question: str, notes: list[str]) -> list[float] | None:
        """Return the vector of a question, or None with a sentence in ``notes`` that says why there is none."""
        if not question.strip():
            return None
        key = (*identity(embedder), question)
        if key in self._remembered:
            self._remembered.move_to_end(key)
            return self._remembered[key]
        if self._clock.monotonic() < self._not_before:
            notes.append(self._trouble)
            return None
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                vectors = await embedder.embed([question], purpose="query")
            if len(vectors) != 1 or not is_unit(vectors[0]):
                raise EmbeddingFailed("it gave no usable vector")  # noqa: TRY301 - told like every other failure
        except (EmbeddingFailed, TimeoutError) as failure:
            reason = str(failure) or f"no answer within {_PATIENCE_SECONDS:.0f} seconds"
            self._trouble = f"{embedder.provider} could not embed the question ({reason}): these hits are by keyword alone."
            self._not_before = self._clock.monotonic() + _PAUSE_SECONDS
            notes.append(self._trouble)
            return None
        self._remembered[key] = vectors[0]
        while len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return vectors[0]
