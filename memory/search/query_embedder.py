"""The vector of a question: remembered for a while, and never waited for too long."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from memory.embedding.identity import identity_of
from memory.embedding.retry import CURRENT_CALL, CallProgress
from memory.embedding.vector_checks import is_unit_vector
from memory.errors import EmbeddingFailed

if TYPE_CHECKING:
    from memory.embedding.identity import Identity
    from memory.embedding.protocol import Embedder
    from memory.protocol import Clock

    Key = tuple[Identity, str]

_MOST_REMEMBERED = 64
TIMEOUT_SECONDS = 3.0
"""How long a search waits for the vector of its question, which its words have long been looked up."""
_LOADING_SECONDS = 30.0
"""How long a search waits besides for this process to load a provider's client, once after its start."""
_PAUSE_SECONDS = 30.0


class QueryEmbedder:
    """Embeds questions.

    One that takes too long goes on by itself, and its vector is there for who asks again; until it has come, and for half a
    minute after a failure, the embedder is left alone.
    """

    def __init__(self, clock: Clock, *, patience: float = TIMEOUT_SECONDS) -> None:
        self._clock = clock
        self._patience = patience
        self._remembered: OrderedDict[Key, list[float]] = OrderedDict()
        self._overdue: asyncio.Task[list[float]] | None = None
        self._not_before = 0.0
        self._trouble = ""

    async def vector(self, embedder: Embedder, question: str, notes: list[str]) -> list[float] | None:
        """Return the vector of a question, or None with a sentence in ``notes`` that says why there is none."""
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
        """Give up what is still being waited for."""
        if self._overdue is not None:
            self._overdue.cancel()
            await asyncio.gather(self._overdue, return_exceptions=True)

    async def _in_time(self, asked: asyncio.Task[list[float]], attempt: CallProgress) -> bool:
        """Wait for an answer, and say whether it came. Patience is used up only while no client is being loaded."""
        time = asyncio.get_running_loop().time
        left = {False: self._patience, True: _LOADING_SECONDS}
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
            return f"the client of {provider} is still being loaded: these hits are by keyword alone."
        if attempt.failure is not None:
            return f"{provider} could not embed the question ({attempt.failure}): these hits are by keyword alone."
        return f"{provider} has not answered within {self._patience:g} seconds: these hits are by keyword alone."

    async def _ask(self, embedder: Embedder, key: Key, attempt: CallProgress) -> list[float]:
        who, question = key
        CURRENT_CALL.set(attempt)
        try:
            vectors = await embedder.embed([question], purpose="query")
            if len(vectors) != 1 or not is_unit_vector(vectors[0]):
                raise EmbeddingFailed("it gave no usable vector")  # noqa: TRY301 - told like every other failure
        except EmbeddingFailed as failure:
            self._trouble = f"{who[0]} could not embed the question ({failure}): these hits are by keyword alone."
            if identity_of(embedder) == who:  # a fallback that stepped in just now may be asked at once
                self._not_before = self._clock.monotonic() + _PAUSE_SECONDS
            raise
        self._remembered[key] = vectors[0]
        while len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return vectors[0]

    def _arrived(self, _: asyncio.Task[list[float]]) -> None:
        self._overdue = None


def _look_at(asked: asyncio.Task[list[float]]) -> None:
    """Take note of a failure that nobody waits for any more; it is kept in ``_trouble``."""
    if not asked.cancelled():
        asked.exception()
