"""Fills in missing vectors: from the cache, from the embedder, or from its batch service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from memory.embedding.batch.protocol import LARGE, BatchService
from memory.embedding.identity import identity_of
from memory.embedding.inputs import PROBE_TEXT
from memory.embedding.protocol import Embedder
from memory.embedding.retry import exponential_backoff
from memory.embedding.vector_checks import is_unit_vector
from memory.errors import EmbeddingFailed
from memory.indexing.indexer import SyncProgress
from memory.protocol import Clock
from memory.settings import BatchSettings
from memory.store.batch_job_table import BatchJobTable
from memory.store.generations import Generation, Missing
from memory.store.index import Index
from memory.store.index_thread import IndexThread

if TYPE_CHECKING:
    from memory.embedding.batch.backfill import Backfill

_AT_ONCE = 256
_PASSAGES_AT_ONCE = 64
_LARGE_AT_ONCE = 4
"""Texts handed over together when batch jobs are used, as a multiple of the batch threshold: one backfill makes few jobs."""

_FIRST_PAUSE = 30.0
_LONGEST_PAUSE = 3_600.0


class _OtherLength(Exception):
    """Raised when vectors have another length than those in the index."""

    def __init__(self, before: int, now: int) -> None:
        super().__init__(f"{before}, {now}")
        self.before, self.now = before, now


class Vectorizer:
    """Embeds chunks without a vector, with a growing pause after each failure. ``trouble`` says why vectors are not complete."""

    def __init__(
        self,
        embedder: Embedder,
        thread: IndexThread,
        clock: Clock,
        *,
        settings: BatchSettings,
        batch: BatchService | None = None,
        tell: Callable[[str], None],
        large: int = LARGE,
    ) -> None:
        self.embedder = embedder
        self.trouble = ""
        self._thread = thread
        self._clock = clock
        self._settings = settings
        self._batch = batch
        self._tell = tell
        self._large = large
        self._failures = 0
        self._not_before = 0.0
        self._refused = ""

    async def fill(
        self, index: Index, generation: Generation, progress: SyncProgress | None = None, *, measure: bool = False
    ) -> bool:
        """Embed all chunks of a generation that have no vector; return whether none is left.

        False means that the embedder failed, is pausing after a failure, is working on a batch job, or was replaced by its
        fallback; ``trouble`` says which. ``measure`` requests one vector even if none is missing, to find out whether the model
        behind the name has changed: if so, all chunks are embedded again.
        """
        if not await self._thread.run(lambda: index.features.vectors != "none", urgent=False):
            return True
        before, now = identity_of(self.embedder), int(self._clock.now().timestamp())
        await self._thread.run(partial(index.reconsider, before, now=now), urgent=False)
        total = await self._thread.run(partial(index.missing_count, generation), urgent=False)
        if (total or measure) and self._clock.monotonic() < self._not_before:
            return False
        try:
            if measure:
                await self._measure(index, generation)
            if not await self._fill_at_any_length(index, generation, total, progress):
                return False
            return await self._fill_lines(index, generation, progress)
        except EmbeddingFailed as failure:
            if identity_of(self.embedder) == before:
                self._pause(failure)
            return False

    async def _fill_at_any_length(
        self, index: Index, generation: Generation, total: int, progress: SyncProgress | None
    ) -> bool:
        try:
            return await self._fill(index, generation, total, progress)
        except _OtherLength as change:
            await self._begin_anew(index, generation, change)
        try:
            return await self._fill(index, generation, total, progress)
        except _OtherLength as change:
            raise EmbeddingFailed(
                f"{self.embedder.model} returns vectors of {change.before} and of {change.now} numbers in turn.",
                hint="Check memorySearch.remote.baseUrl: it may lead to different servers.",
                passing=True,
            ) from change

    async def _measure(self, index: Index, generation: Generation) -> None:
        [vector] = await self.embedder.embed([PROBE_TEXT], purpose="passage")
        before = await self._thread.run(partial(index.dims_of, generation), urgent=False)
        if before and len(vector) != before:
            await self._begin_anew(index, generation, _OtherLength(before, len(vector)))

    async def _begin_anew(self, index: Index, generation: Generation, change: _OtherLength) -> None:
        who = self.embedder
        self._tell(
            f"{who.model} by {who.provider} now returns vectors of {change.now} numbers instead of {change.before}. The model "
            "has changed, so all notes are embedded again."
        )
        await self._thread.run(partial(index.forget_vectors, generation, identity_of(who)), urgent=False)

    async def _fill(self, index: Index, generation: Generation, total: int, progress: SyncProgress | None) -> bool:
        who = identity_of(self.embedder)
        backfill = self._backfill(index, self._batch)
        at_once = _LARGE_AT_ONCE * self._large if self._batch is not None and total >= self._large else _AT_ONCE
        done = 0
        while missing := await self._thread.run(partial(index.missing, generation, at_once), urgent=False):
            now = int(self._clock.now().timestamp())
            asked = await self._thread.run(partial(index.fill_from_cache, generation, who, missing, now=now), urgent=False)
            dealt_with = await self._embed(index, generation, backfill, asked)
            if identity_of(self.embedder) != who or dealt_with < len({m.digest for m in asked}):
                self.trouble = "a batch job is running" if identity_of(self.embedder) == who else self.trouble
                return False
            done += len(missing)
            if progress is not None:
                progress("vectors", min(done, total), max(done, total))
        self._failures, self.trouble = 0, ""
        return True

    async def _fill_lines(self, index: Index, generation: Generation, progress: SyncProgress | None) -> bool:
        """Embed the lines of passages, by direct calls; passages that come up meanwhile go first."""
        done = 0
        while missing := await self._thread.run(partial(index.lines_missing, generation, _PASSAGES_AT_ONCE), urgent=False):
            who = identity_of(self.embedder)
            texts = {text: text for one in missing for text in one.texts}
            vectors: dict[str, Sequence[float] | None] = {}
            async for portion in self._backfill(index, batch=None).run(texts):
                vectors |= {text: None if isinstance(vector, EmbeddingFailed) else vector for text, vector in portion}
            if identity_of(self.embedder) != who:
                return False
            rows = [(one, [vectors.get(text) for text in one.texts]) for one in missing]
            await self._thread.run(partial(index.put_lines, generation, rows), urgent=False)
            done += len(texts)
            if progress is not None:
                progress("lines", done, done)
            if not await self._fill_at_any_length(index, generation, 0, None):
                return False
        return True

    def _backfill(self, index: Index, batch: BatchService | None) -> Backfill:
        from memory.embedding.batch.backfill import Backfill

        return Backfill(
            self.embedder,
            batch=batch,
            book=BatchJobTable(self._thread, index),
            settings=self._settings,
            clock=self._clock,
            tell=self._tell,
            large=self._large,
        )

    async def _embed(self, index: Index, generation: Generation, backfill: Backfill, asked: Sequence[Missing]) -> int:
        """Embed texts, each once, and return how many of them were dealt with."""
        if not asked:
            return 0
        by_key: dict[str, list[Missing]] = {}
        for one in asked:
            by_key.setdefault(one.digest.hex(), []).append(one)
        dealt_with = 0
        async for portion in backfill.run({key: group[0].text for key, group in by_key.items()}):
            dealt_with += sum(key in by_key for key, _ in portion)
            await self._store(index, generation, portion, by_key)
        return dealt_with

    async def _store(
        self,
        index: Index,
        generation: Generation,
        portion: Sequence[tuple[str, Sequence[float] | EmbeddingFailed]],
        by_key: Mapping[str, Sequence[Missing]],
    ) -> None:
        """Store the results for some texts. Results that were not asked for come from a batch job of an earlier run."""
        good: list[tuple[Missing, Sequence[float]]] = []
        strays: list[tuple[bytes, Sequence[float]]] = []
        refused: list[tuple[Missing, str]] = []
        for key, outcome in portion:
            if isinstance(outcome, EmbeddingFailed):
                refused += [(one, str(outcome)) for one in by_key.get(key, [])]
            elif not is_unit_vector(outcome):
                refused += [(one, "the embedder returned no usable vector") for one in by_key.get(key, [])]
            elif key in by_key:
                good += [(one, outcome) for one in by_key[key]]
            else:
                strays.append((bytes.fromhex(key), outcome))
        await self._same_length(index, generation, [vector for _, vector in good])
        who, now = identity_of(self.embedder), int(self._clock.now().timestamp())
        await self._thread.run(partial(index.put_vectors, generation, who, good, now=now), urgent=False)
        if strays:
            await self._thread.run(partial(index.adopt_vectors, generation, who, strays, now=now), urgent=False)
        if refused:
            await self._thread.run(partial(index.refuse, refused, who, now=now), urgent=False)
            self._tell_refused(refused)

    async def _same_length(self, index: Index, generation: Generation, vectors: Sequence[Sequence[float]]) -> None:
        lengths = {len(vector) for vector in vectors}
        before = await self._thread.run(partial(index.dims_of, generation), urgent=False)
        if other := lengths - {before or next(iter(lengths), 0)}:
            raise _OtherLength(before or min(lengths - other), min(other))

    def _tell_refused(self, refused: Sequence[tuple[Missing, str]]) -> None:
        """Tell the owner why passages have no vector; the same reason is not repeated."""
        reason = refused[0][1]
        if reason != self._refused:
            self._tell(
                f"{len(refused)} passages have no vector and are found by keyword only; they are retried in a day. "
                f"{reason} `homebody memory status` lists them."
            )
        self._refused = reason

    def _pause(self, failure: EmbeddingFailed) -> None:
        pause = failure.retry_after or exponential_backoff(self._failures, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE)
        self._failures += 1
        self._not_before = self._clock.monotonic() + pause
        trouble = f"{failure} {failure.hint}".strip()
        if trouble != self.trouble:
            self._tell(f"Memory search uses keywords only: {trouble}")
        self.trouble = trouble

    @property
    def resumes_in(self) -> float:
        """Seconds until the embedder may be called again; 0 without a pause."""
        return max(0.0, self._not_before - self._clock.monotonic())
