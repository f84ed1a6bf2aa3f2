"""Getting vectors for chunks that have none: from the cache, else from the embedder, a batch at a time."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from memory.errors import EmbeddingFailed
from memory.tokens import estimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from memory.clock import Clock
    from memory.embedding.protocol import Embedder
    from memory.store.index import Identity, Index, Missing
    from memory.store.notes import Generation
    from memory.store.thread import StoreThread
    from memory.upkeep import Progress

_AT_ONCE = 256
_LENGTH_TOLERANCE = 1e-2
_FIRST_PAUSE = 30.0
_LONGEST_PAUSE = 3_600.0


def identity(embedder: Embedder) -> Identity:
    """Say whose vectors an embedder makes. A fallback that stepped in changes it."""
    return embedder.provider, embedder.model, embedder.fingerprint


class Backfill:
    """Embeds what is missing. After a failure it pauses, longer each time; ``trouble`` says why vectors are not complete."""

    def __init__(self, thread: StoreThread, clock: Clock) -> None:
        self._thread = thread
        self._clock = clock
        self._failures = 0
        self._not_before = 0.0
        self.trouble = ""

    async def fill(self, index: Index, generation: Generation, embedder: Embedder, progress: Progress | None = None) -> bool:
        """Embed all chunks of a generation that have no vector; say whether every one has been dealt with.

        False means that the embedder failed, or is being left alone for a while after a failure; ``trouble`` tells why.
        """
        if not await self._thread.run(lambda: index.vectors.usable, urgent=False):
            return True
        total = await self._thread.run(lambda: index.missing_count(generation), urgent=False)
        if total and self._clock.monotonic() < self._not_before:
            return False
        done = 0
        who = identity(embedder)
        while True:
            missing = await self._thread.run(lambda: index.missing(generation, _AT_ONCE), urgent=False)
            if not missing:
                self._failures, self.trouble = 0, ""
                return True
            now = int(self._clock.now().timestamp())
            asked = await self._thread.run(partial(index.fill_from_cache, generation, who, missing, now=now), urgent=False)
            for batch in _batches(asked, embedder):
                if not await self._embed(index, generation, embedder, batch):
                    return False
            done += len(missing)
            if progress is not None:
                progress("vectors", min(done, total), max(done, total))

    async def _embed(self, index: Index, generation: Generation, embedder: Embedder, batch: Sequence[Missing]) -> bool:
        who = identity(embedder)
        try:
            vectors = await embedder.embed([m.text for m in batch], purpose="passage")
            check(vectors, len(batch))
        except EmbeddingFailed as failure:
            if failure.about_text and len(batch) > 1:
                return all([await self._embed(index, generation, embedder, [one]) for one in batch])
            if failure.about_text:
                await self._thread.run(lambda: index.refuse(batch), urgent=False)
                return True
            self._pause(failure)
            return False
        if identity(embedder) != who:  # a fallback stepped in while this was under way
            return False
        now = int(self._clock.now().timestamp())
        pairs = list(zip(batch, vectors, strict=True))
        await self._thread.run(lambda: index.put_vectors(generation, who, pairs, now=now), urgent=False)
        return True

    def _pause(self, failure: EmbeddingFailed) -> None:
        pause = failure.retry_after or min(_FIRST_PAUSE * 2**self._failures, _LONGEST_PAUSE)
        self._failures = min(self._failures + 1, 16)
        self._not_before = self._clock.monotonic() + pause
        self.trouble = f"{failure} {failure.mend}".strip()

    @property
    def resumes_in(self) -> float:
        """Seconds until the embedder may be asked again; 0 when nothing holds it back."""
        return max(0.0, self._not_before - self._clock.monotonic())


def check(vectors: Sequence[Sequence[float]], count: int) -> None:
    """Refuse vectors that would poison the index, whoever made them.

    Raises:
        EmbeddingFailed: there are too few, or one is empty, zero, not finite, not of unit length, or unlike the others in size.
    """
    if len(vectors) != count:
        raise EmbeddingFailed(f"the embedder gave {len(vectors)} vectors for {count} texts")
    for vector in vectors:
        length = math.sqrt(math.fsum(x * x for x in vector))
        if not math.isfinite(length) or abs(length - 1.0) > _LENGTH_TOLERANCE or len(vector) != len(vectors[0]):
            raise EmbeddingFailed(
                f"the embedder gave a vector of {len(vector)} numbers and length {length:.3g}; unit length is expected",
                mend="homebody memory status --deep",
                about_text=count == 1,
            )


def _batches(missing: Sequence[Missing], embedder: Embedder) -> Iterator[list[Missing]]:
    batch: list[Missing] = []
    tokens = 0.0
    for one in missing:
        cost = estimate(one.text)
        if batch and (tokens + cost > embedder.max_batch_tokens or len(batch) >= embedder.max_batch_texts):
            yield batch
            batch, tokens = [], 0.0
        batch.append(one)
        tokens += cost
    if batch:
        yield batch
