"""Table of running batch jobs in the index file, so that their results are collected after a restart."""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial

from memory.embedding.batch.protocol import BatchJob
from memory.store.index import Index
from memory.store.index_thread import IndexThread

_COLUMNS = "token, job, provider, model, fingerprint, texts, at"


class BatchJobTable:
    """Implements ``memory.embedding.batch.protocol.BatchJobStore``."""

    def __init__(self, thread: IndexThread, index: Index) -> None:
        self._thread = thread
        self._index = index

    async def pending(self, *, provider: str, model: str, fingerprint: str) -> list[BatchJob]:
        """Return the jobs of that embedder which are not closed, oldest first."""
        return await self._thread.run(partial(self._pending, (provider, model, fingerprint)), urgent=False)

    async def note(self, record: BatchJob) -> None:
        """Write ``record``, in place of an earlier one with its token."""
        await self._thread.run(partial(self._note, record), urgent=False)

    async def close(self, token: str) -> None:
        """Delete a job whose vectors are stored or given up."""
        await self._thread.run(partial(self._durably, "DELETE FROM batch_jobs WHERE token = ?", (token,)), urgent=False)

    def _pending(self, who: tuple[str, str, str]) -> list[BatchJob]:
        sql = f"SELECT {_COLUMNS} FROM batch_jobs WHERE provider = ? AND model = ? AND fingerprint = ? ORDER BY at"  # noqa: S608 - constant
        return [
            BatchJob(
                token=token,
                job=job,
                provider=provider,
                model=model,
                fingerprint=fingerprint,
                texts=tuple(json.loads(texts)),
                at=datetime.fromisoformat(at),
            )
            for token, job, provider, model, fingerprint, texts, at in self._index.database.rows(sql, who)
        ]

    def _note(self, record: BatchJob) -> None:
        row = (
            *(record.token, record.job, record.provider, record.model, record.fingerprint),
            *(json.dumps(record.texts), record.at.isoformat()),
        )
        self._durably(f"INSERT OR REPLACE INTO batch_jobs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608 - constant

    def _durably(self, sql: str, bindings: tuple[str | None, ...]) -> None:
        """Write with an fsync; other writes to the index go without."""
        connection = self._index.database.connection
        connection.execute("PRAGMA synchronous = FULL")
        try:
            connection.execute(sql, bindings)
        finally:
            connection.execute("PRAGMA synchronous = NORMAL")
