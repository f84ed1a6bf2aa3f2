"""Protocols of batch jobs: a provider's asynchronous jobs at half the price, and the store that remembers them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from memory.embedding.protocol import Embedder

LARGE = 5_000
"""Minimum number of passages for a batch job. Fewer cost about a cent and a minute by direct calls; a batch may take hours."""


class BatchJob(Struct, frozen=True, kw_only=True):
    """One job. It is stored before it is submitted (``job`` is None) and again with the provider's id.

    ``token`` is chosen by us and sent along, so that a job can be found whose submission was interrupted. ``texts`` are
    the hashes (``identity.text_hash``) of the passages in it. ``at`` is when it was submitted.
    """

    token: str
    job: str | None
    provider: str
    model: str
    fingerprint: str
    texts: tuple[str, ...]
    at: datetime


class BatchJobStore(Protocol):
    """Stores running jobs, so that their results are collected after a restart. Writes are durable on return."""

    async def pending(self, *, provider: str, model: str, fingerprint: str) -> list[BatchJob]:
        """Return the jobs of that embedder which are not closed, oldest first."""
        ...

    async def note(self, record: BatchJob) -> None:
        """Write ``record``, in place of an earlier one with its token."""
        ...

    async def close(self, token: str) -> None:
        """Delete a job whose vectors are stored or given up."""
        ...


class InMemoryBatchJobs:
    """A job store in memory, for tests."""

    def __init__(self) -> None:
        self.records: dict[str, BatchJob] = {}

    async def pending(self, *, provider: str, model: str, fingerprint: str) -> list[BatchJob]:
        """Return what is open."""
        who = (provider, model, fingerprint)
        return [record for record in self.records.values() if (record.provider, record.model, record.fingerprint) == who]

    async def note(self, record: BatchJob) -> None:
        """Keep ``record``."""
        self.records[record.token] = replace(record)

    async def close(self, token: str) -> None:
        """Forget it."""
        self.records.pop(token, None)


class BatchStatus(Struct, frozen=True, kw_only=True):
    """State of a job.

    ``files`` are the provider's ids of its result files, which may exist even if the job did not complete; ``litter`` are the
    ids of all its files, to be deleted at the end.
    """

    status: Literal["running", "completed", "failed", "expired", "cancelled"]
    reason: str = ""
    files: tuple[str, ...] = ()
    litter: tuple[str, ...] = ()


class BatchService(Protocol):
    """The batch endpoint of one provider. Every method raises ``EmbeddingFailed`` after its own retries.

    ``max_requests`` and ``max_tokens`` (estimate) bound one job. ``failures`` counts the jobs that failed since the start.
    """

    @property
    def embedder(self) -> Embedder:
        """The embedder whose vectors the jobs return."""
        ...

    max_requests: int
    max_tokens: int
    failures: int

    async def submit(self, token: str, passages: Sequence[tuple[str, str]]) -> str:
        """Submit a job with (hash, text) pairs, and return its id."""
        ...

    async def find(self, token: str) -> str | None:
        """Return the id of the job that was submitted with ``token``, if there is one."""
        ...

    async def state(self, job: str) -> BatchStatus:
        """Return the state of a job."""
        ...

    def results(self, state: BatchStatus) -> AsyncIterator[list[tuple[str, list[float] | None]]]:
        """Yield the results of a job in portions: a raw vector for each hash, or None for a failed request."""
        ...

    async def cancel(self, job: str) -> None:
        """Cancel a job. Results so far can be read once its state is final."""
        ...

    async def discard(self, job: str, state: BatchStatus) -> None:
        """Delete a finished job's files at the provider: they contain the owner's notes."""
        ...
