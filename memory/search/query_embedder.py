"""Embeds queries, with a cache and a time limit."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from memory.embedding.identity import Identity, identity_of
from memory.embedding.protocol import Embedder
from memory.embedding.retry import CURRENT_CALL, CallProgress
from memory.errors import EmbeddingFailed
from memory.protocol import Clock

Key = tuple[Identity, str]

_MOST_REMEMBERED = 64
TIMEOUT_SECONDS = 3.0
"""How long a search waits for the vector of its query before it uses keywords only."""
_LOADING_SECONDS = 30.0
"""How long a search additionally waits while this process loads the provider's client, once after its start."""
_PAUSE_SECONDS = 30.0


class QueryEmbedder:
    """Embeds queries and caches the last 64 vectors.

    A call that exceeds the time limit continues in the background, and its vector is cached when it arrives. Until then, and
    for 30 seconds after a failure, no new call is made.
    """

    def __init__(self, clock: Clock, *, query_timeout: float = TIMEOUT_SECONDS) -> None:
        self._clock = clock
        self._query_timeout = query_timeout
        self._remembered: OrderedDict[Key, list[float]] = OrderedDict()
        self._overdue: asyncio.Task[list[float]] | None = None
        self._not_before = 0.0
        self._trouble = ""

    async def vector(self, embedder: Embedder, question: str, notes: list[str]) -> list[float] | None:
        """Return the vector of a query, or None with a sentence in ``notes`` that says why there is none."""
        if not question.strip():
            return None
        key = (identity_of(embedder), question)
        if key in self._remembered:
            self._remembered.move_to_end(key)
            return self._remembered[key]
        if self._overdue is not None or self._clock.monotonic() < self._not_before:
            notes.append(self._trouble)
            return None
        attempt = CallProgress()
        asked = asyncio.create_task(self._ask(embedder, key, attempt))
        asked.add_done_callback(_look_at)
        if not await self._in_time(asked, attempt):
            self._overdue = asked
            asked.add_done_callback(self._arrived)
            self._trouble = self._why_late(embedder.provider, attempt)
            notes.append(self._trouble)
            return None
        try:
            return asked.result()
        except EmbeddingFailed:
            notes.append(self._trouble)
            return None

    async def close(self) -> None:
        """Cancel the call that is still running."""
        if self._overdue is not None:
            self._overdue.cancel()
            await asyncio.gather(self._overdue, return_exceptions=True)

    async def _in_time(self, asked: asyncio.Task[list[float]], attempt: CallProgress) -> bool:
        """Wait for the vector and say whether it arrived in time. Loading a client has a time limit of its own."""
        time = asyncio.get_running_loop().time
        left = {False: self._query_timeout, True: _LOADING_SECONDS}
        try:
            while not asked.done() and left[attempt.loading] > 0:
                loading, began = attempt.loading, time()
                attempt.changed.clear()
                changed = asyncio.create_task(attempt.changed.wait())
                try:
                    await asyncio.wait({asked, changed}, timeout=left[loading], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                left[loading] -= time() - began
        except asyncio.CancelledError:
            asked.cancel()
            raise
        return asked.done()

    def _why_late(self, provider: str, attempt: CallProgress) -> str:
        if attempt.loading:
            return f"the client of {provider} is still loading; these results are by keyword only."
        if attempt.failure is not None:
            return f"{provider} could not embed the question ({attempt.failure}); these results are by keyword only."
        return f"{provider} has not answered within {self._query_timeout:g} seconds; these results are by keyword only."

    async def _ask(self, embedder: Embedder, key: Key, attempt: CallProgress) -> list[float]:
        from memory.embedding.vector_checks import is_unit_vector

        who, question = key
        CURRENT_CALL.set(attempt)
        try:
            vectors = await embedder.embed([question], purpose="query")
            if len(vectors) != 1 or not is_unit_vector(vectors[0]):
                raise EmbeddingFailed("it returned no usable vector")  # noqa: TRY301 - told like every other failure
        except EmbeddingFailed as failure:
            self._trouble = f"{who[0]} could not embed the question ({failure}); these results are by keyword only."
            if identity_of(embedder) == who:  # a fallback that just took over may be asked at once
                self._not_before = self._clock.monotonic() + _PAUSE_SECONDS
            raise
        self._remembered[key] = vectors[0]
        while len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return vectors[0]

    def _arrived(self, _: asyncio.Task[list[float]]) -> None:
        self._overdue = None


def _look_at(asked: asyncio.Task[list[float]]) -> None:
    """Retrieve the exception of a call that nobody awaits any more; it is kept in ``_trouble``."""
    if not asked.cancelled():
        asked.exception()
