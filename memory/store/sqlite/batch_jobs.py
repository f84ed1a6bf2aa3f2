"""Table of running batch jobs in the index file."""

from __future__ import annotations

import json
from datetime import datetime

from memory.embedding.batch.protocol import BatchJob
from memory.embedding.identity import Identity
from memory.store.sqlite.index_database import Database

_COLUMNS = "token, job, provider, model, fingerprint, texts, at"


class BatchJobs:
    """Reads and writes the table, each change with an fsync; other writes to the index go without."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def pending(self, embedder: Identity) -> list[BatchJob]:
        """Return the jobs of an embedder that are not closed, oldest first."""
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
            for token, job, provider, model, fingerprint, texts, at in self._db.rows(sql, embedder)
        ]

    def count(self) -> int:
        """Return how many there are."""
        return int(self._db.one("SELECT count(*) FROM batch_jobs"))

    def keep(self, record: BatchJob) -> None:
        """Write down a job, in place of an earlier one with its token."""
        row = (
            *(record.token, record.job, record.provider, record.model, record.fingerprint),
            *(json.dumps(record.texts), record.at.isoformat()),
        )
        self._durably(f"INSERT OR REPLACE INTO batch_jobs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608 - constant

    def close(self, token: str) -> None:
        """Delete a job."""
        self._durably("DELETE FROM batch_jobs WHERE token = ?", (token,))

    def _durably(self, sql: str, bindings: tuple[str | None, ...]) -> None:
        connection = self._db.connection
        connection.execute("PRAGMA synchronous = FULL")
        try:
            connection.execute(sql, bindings)
        finally:
            connection.execute("PRAGMA synchronous = NORMAL")
