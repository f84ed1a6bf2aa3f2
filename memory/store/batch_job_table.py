"""Running batch jobs, stored in the index, so that their results are collected after a restart."""

from __future__ import annotations

from functools import partial

from memory.embedding.batch.protocol import BatchJob
from memory.store.index import Index
from memory.store.index_thread import IndexThread


class BatchJobTable:
    """Implements ``memory.embedding.batch.protocol.BatchJobStore``."""

    def __init__(self, thread: IndexThread, index: Index) -> None:
        self._thread = thread
        self._index = index

    async def pending(self, *, provider: str, model: str, fingerprint: str) -> list[BatchJob]:
        """Return the jobs of that embedder which are not closed, oldest first."""
        return await self._thread.run(partial(self._index.pending_jobs, (provider, model, fingerprint)), urgent=False)

    async def note(self, record: BatchJob) -> None:
        """Write ``record``, in place of an earlier one with its token."""
        await self._thread.run(partial(self._index.keep_job, record), urgent=False)

    async def close(self, token: str) -> None:
        """Delete a job whose vectors are stored or given up."""
        await self._thread.run(partial(self._index.close_job, token), urgent=False)
