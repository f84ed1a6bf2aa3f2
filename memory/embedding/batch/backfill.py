"""Backfill: embeds many passages, by batch jobs if there are enough of them, otherwise by direct calls."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from datetime import timedelta

from msgspec.structs import replace

from memory.embedding.batch.protocol import LARGE, BatchJob, BatchJobStore, BatchService, BatchStatus
from memory.embedding.inputs import embed_each, split_into_calls
from memory.embedding.protocol import Embedder
from memory.embedding.vector_checks import unit_vectors
from memory.errors import EmbeddingFailed
from memory.protocol import Clock
from memory.settings import BatchSettings

_FAILURES_ALLOWED = 2
"""After this many failed jobs the batch service is not used until the next start. The service object counts them."""

_READS = 3
_PORTION = 256
_LAST_POLLS = 30


class Backfill:
    """Embeds passages that are identified by a hash (``identity.text_hash``).

    Jobs are written to ``book`` before they are submitted, and deleted only after the consumer has processed their results: no
    paid job is lost in a crash. Direct calls are used if ``batch`` is None or belongs to another embedder than the one in use
    (after a failover), so create a new backfill for each run. ``token`` makes a job's name; ``tell`` takes sentences for the
    owner.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        batch: BatchService | None,
        book: BatchJobStore,
        settings: BatchSettings,
        clock: Clock,
        tell: Callable[[str], None],
        large: int = LARGE,
        token: Callable[[], str] = lambda: f"homebody-{uuid.uuid4().hex}",
    ) -> None:
        self._embedder = embedder
        self._batch = batch if settings.enabled and batch is not None and _same(batch.embedder, embedder) else None
        self._book = book
        self._settings = settings
        self._clock = clock
        self._tell = tell
        self._large = large
        self._token = token
        self._dims: int | None = None

    async def run(self, texts: Mapping[str, str]) -> AsyncIterator[list[tuple[str, list[float] | EmbeddingFailed]]]:
        """Yield a vector or a failure for each hash in ``texts``, in portions and in any order.

        Jobs of an earlier run are collected first, including those that have nothing to do with ``texts``. With ``wait`` off,
        texts in a running job are left out; a later run yields them. Raises ``EmbeddingFailed`` if direct calls fail for a
        reason other than the texts; what was yielded before remains valid.
        """
        missing = dict(texts)
        jobs = await self._adopt()
        waiting = {key for record in jobs for key in record.texts}
        fresh = [(key, text) for key, text in texts.items() if key not in waiting]
        if self._usable and len(fresh) >= self._large:
            jobs += self._plan(fresh)
        async with aclosing(self._finished(jobs, texts)) as ended:
            async for record, state in ended:
                if state is None:
                    for key in record.texts if record.job else ():
                        missing.pop(key, None)
                    continue
                brought = 0
                async for portion in self._collect(record, state):
                    for key, _ in portion:
                        missing.pop(key, None)
                    brought += len(portion)
                    yield portion
                if state.status == "completed" and brought * 2 < len(record.texts):
                    self._failed(f"batch {record.job} brought {brought} vectors for {len(record.texts)} texts", for_good=False)
                await self._close(record, state)
        async for portion in self._directly(missing):
            yield portion

    @property
    def _usable(self) -> bool:
        return self._batch is not None and self._batch.failures < _FAILURES_ALLOWED

    async def _adopt(self) -> list[BatchJob]:
        """Take over the jobs of an earlier run; look up the id of a job whose submission was interrupted."""
        if self._batch is None:
            return []
        who = self._embedder
        adopted = []
        for record in await self._book.pending(provider=who.provider, model=who.model, fingerprint=who.fingerprint):
            known = record if record.job else replace(record, job=await self._batch.find(record.token))
            if known.job is None:
                await self._book.close(record.token)
                continue
            await self._book.note(known)
            adopted.append(known)
        return adopted

    def _plan(self, fresh: list[tuple[str, str]]) -> list[BatchJob]:
        batch, who = self._batch, self._embedder
        assert batch is not None
        return [
            BatchJob(
                token=self._token(),
                job=None,
                provider=who.provider,
                model=who.model,
                fingerprint=who.fingerprint,
                texts=tuple(key for key, _ in group),
                at=self._clock.now(),
            )
            for group in split_into_calls(fresh, max_tokens=batch.max_tokens, max_texts=batch.max_requests)
        ]

    async def _finished(
        self, jobs: list[BatchJob], texts: Mapping[str, str]
    ) -> AsyncGenerator[tuple[BatchJob, BatchStatus | None], None]:
        """Run jobs, ``concurrency`` at a time, and yield each when it ends; None means still running, or not submitted."""
        todo = list(reversed(jobs))
        running: set[asyncio.Task[tuple[BatchJob, BatchStatus | None]]] = set()
        try:
            while todo or running:
                while todo and len(running) < self._settings.concurrency:
                    running.add(asyncio.create_task(self._see_through(todo.pop(), texts)))
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _see_through(self, record: BatchJob, texts: Mapping[str, str]) -> tuple[BatchJob, BatchStatus | None]:
        """Submit one job unless that was done, and wait for its end. Failures of the service are reported and counted, not raised."""
        if record.job is None and not self._usable:
            return record, None
        try:
            known = record if record.job else await self._submit(record, texts)
            return known, await self._wait(known)
        except EmbeddingFailed as failure:
            self._failed(str(failure), for_good=not failure.passing)
            return replace(record, job=None), None

    async def _submit(self, record: BatchJob, texts: Mapping[str, str]) -> BatchJob:
        assert self._batch is not None
        await self._book.note(record)
        try:
            job = await self._batch.submit(record.token, [(key, texts[key]) for key in record.texts])
        except EmbeddingFailed as failure:
            if not failure.passing:  # certainly not submitted
                await self._book.close(record.token)
            raise
        known = replace(record, job=job)
        await self._book.note(known)
        return known

    async def _wait(self, record: BatchJob) -> BatchStatus | None:
        """Poll until the job has ended. After the time limit it is cancelled, and the results so far are used."""
        assert self._batch is not None
        assert record.job is not None
        deadline = record.at + timedelta(minutes=self._settings.timeout_minutes)
        polls_left: int | None = None
        while True:
            state = await self._state(record.job, patient=self._clock.now() < deadline)
            if state.status != "running":
                break
            if not self._settings.wait and self._clock.now() < deadline:
                return None
            if polls_left is None and self._clock.now() >= deadline:
                await self._batch.cancel(record.job)
                polls_left = _LAST_POLLS
            elif polls_left == 0:
                state = BatchStatus(status="cancelled", reason="it did not end after it was cancelled")
                break
            polls_left = None if polls_left is None else polls_left - 1
            await self._clock.sleep(self._settings.poll_interval_ms / 1000)
        if state.status != "completed":
            self._failed(
                f"batch {record.job} ended as {state.status}{f': {state.reason}' if state.reason else ''}", for_good=False
            )
        return state

    async def _state(self, job: str, *, patient: bool) -> BatchStatus:
        """Return the state of a job. Until the deadline, a service that cannot be reached counts as running."""
        assert self._batch is not None
        try:
            return await self._batch.state(job)
        except EmbeddingFailed as failure:
            if failure.passing and patient:
                return BatchStatus(status="running")
            raise

    async def _collect(
        self, record: BatchJob, state: BatchStatus
    ) -> AsyncIterator[list[tuple[str, list[float] | EmbeddingFailed]]]:
        """Yield the vectors of a job. Failed or unusable ones are left out and fetched by direct calls."""
        assert self._batch is not None
        seen: set[str] = set()
        wanted = set(record.texts)
        for read in range(1, _READS + 1):
            try:
                async for portion in self._batch.results(state):
                    new = [(key, raw) for key, raw in portion if raw is not None and key in wanted and key not in seen]
                    seen.update(key for key, _ in new)
                    if self._dims is None and new:
                        self._dims = Counter(len(raw) for _, raw in new).most_common(1)[0][0]
                    good = await self._usable_vectors(new)
                    if good:
                        yield good
            except EmbeddingFailed as failure:
                if read == _READS or not failure.passing:
                    self._failed(f"the results of batch {record.job} could not be read: {failure}", for_good=False)
                    return
                await self._clock.sleep(self._settings.poll_interval_ms / 1000)
            else:
                return

    async def _usable_vectors(self, portion: list[tuple[str, list[float]]]) -> list[tuple[str, list[float] | EmbeddingFailed]]:
        try:
            vectors = await unit_vectors(
                [raw for _, raw in portion], count=len(portion), dims=self._dims, who=self._embedder.model
            )
        except EmbeddingFailed:
            if len(portion) == 1:
                return []
            half = len(portion) // 2
            return [*await self._usable_vectors(portion[:half]), *await self._usable_vectors(portion[half:])]
        return [(key, vector) for (key, _), vector in zip(portion, vectors, strict=True)]

    async def _close(self, record: BatchJob, state: BatchStatus) -> None:
        """Delete a finished job from the store, and its files at the provider."""
        assert self._batch is not None
        assert record.job is not None
        await self._book.close(record.token)
        try:
            await self._batch.discard(record.job, state)
        except EmbeddingFailed as failure:
            self._tell(f"The files of batch {record.job} could not be deleted at the provider: {failure}")

    async def _directly(self, missing: Mapping[str, str]) -> AsyncIterator[list[tuple[str, list[float] | EmbeddingFailed]]]:
        portion: list[tuple[str, list[float] | EmbeddingFailed]] = []
        async for key, outcome in embed_each(self._embedder, missing.items()):
            portion.append((key, outcome))
            if len(portion) >= _PORTION:
                yield portion
                portion = []
        if portion:
            yield portion

    def _failed(self, what: str, *, for_good: bool) -> None:
        assert self._batch is not None
        self._batch.failures = _FAILURES_ALLOWED if for_good else self._batch.failures + 1
        then = "" if self._usable else " Batch jobs are not used until the next start."
        self._tell(f"Batch embedding: {what}. Missing vectors are fetched by direct calls.{then}")


def _same(one: Embedder, other: Embedder) -> bool:
    """Whether two embedders make the same vectors: one index must not mix vectors of two models."""
    return (one.provider, one.model, one.fingerprint) == (other.provider, other.model, other.fingerprint)
