"""Jobs that a provider works off in its own time, at half the price: what they are, and where they are noted down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from memory.embedding.protocol import Embedder


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """One job. It is noted before it is submitted (``job`` None) and again with the provider's id.

    ``token`` is ours and goes along with the job, so that a job whose submission was cut off can be found by it. ``texts`` are
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
    """Where jobs are noted, so that a restart collects what was paid for. All writes are durable on return."""

    async def pending(self, *, provider: str, model: str, fingerprint: str) -> list[BatchJob]:
        """Return the jobs of that embedder which are not closed, oldest first."""
        ...

    async def note(self, record: BatchJob) -> None:
        """Write ``record``, in place of an earlier one with its token."""
        ...

    async def close(self, token: str) -> None:
        """Strike a job out: its vectors are stored, or given up."""
        ...


class InMemoryBatchJobs:
    """A book that ends with the process."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStatus:
    """How a job stands. ``files`` are the provider's names of its result files: there may be some even when it did not complete."""

    status: Literal["running", "completed", "failed", "expired", "cancelled"]
    reason: str = ""
    files: tuple[str, ...] = ()
    litter: tuple[str, ...] = ()


class BatchService(Protocol):
    """The batch endpoint of one provider. Every method raises ``EmbeddingFailed`` after its own retries.

    ``max_requests`` and ``max_tokens`` (estimate) bound one job. ``failures`` counts the jobs that went wrong since the start.
    """

    @property
    def embedder(self) -> Embedder:
        """Whose vectors the jobs bring."""
        ...

    max_requests: int
    max_tokens: int
    failures: int

    async def submit(self, token: str, passages: Sequence[tuple[str, str]]) -> str:
        """Hand a job in, with (hash, text) pairs, and return its id."""
        ...

    async def find(self, token: str) -> str | None:
        """Return the id of the job that was submitted with ``token``, if there is one."""
        ...

    async def state(self, job: str) -> BatchStatus:
        """Ask how a job stands."""
        ...

    def results(self, state: BatchStatus) -> AsyncIterator[list[tuple[str, list[float] | None]]]:
        """Read what a job came to, in portions: a raw vector for each hash, or None where that request failed."""
        ...

    async def cancel(self, job: str) -> None:
        """Stop a job. What it has done so far may still be read once its state is final."""
        ...

    async def discard(self, job: str, state: BatchStatus) -> None:
        """Remove a finished job's files from the provider: they hold the owner's notes."""
        ...
