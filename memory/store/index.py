"""What indexing and search need of an index, whatever stores it. It is derived from the notes, and made anew from them at any time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from memory.embedding.batch.protocol import BatchJob
from memory.embedding.identity import Identity
from memory.notes.sources import Source, Stamp
from memory.store.candidates import AnswerCosines, Candidate, Lookup
from memory.store.chunk_changes import HashedChunk
from memory.store.generations import Followed, Generation, IndexedFile, LinesMissing, Missing
from memory.text.dates import Span
from memory.text.terms import Terms

SWEPT = 500
"""Rows of old generations that one step deletes."""
STORED = 500
"""New chunks that one step stores: searches, and other processes that write to the index, wait for no more."""


class Features(Struct, frozen=True):
    """What an index can do.

    ``vectors`` is what compares them: "vec0" (sqlite-vec), "numpy" alone, "pgvector" or "none"; ``note`` explains why it is not what
    it could be. ``scan``: vectors can be loaded into RAM. ``driver`` names library and engine with their versions.
    """

    vectors: Literal["vec0", "numpy", "pgvector", "none"]
    keywords: bool
    scan: bool
    driver: str
    note: str = ""


class FileChange(Struct, frozen=True):
    """A file to be stored: its chunks, None if they are stored already and only its entry changes. ``filed`` None: it is gone.

    ``since``: the chunks are those that begin at this line or behind it; what is stored of the file before it stays as it is.
    """

    path: str
    filed: IndexedFile | None
    chunks: Sequence[HashedChunk] | None
    source: Source = "memory"
    since: int = 1


class Stored(NamedTuple):
    """What one step stored: so many new chunks, and so many of the files, from the first on, with all that they have."""

    chunks: int
    files: int


def begun(filed: IndexedFile) -> IndexedFile:
    """Return the entry of a file of which more is to be stored: should that not come about, the file is read again."""
    return replace(filed, digest=None, stamp=Stamp(0, 0, 0, 0), settled=False)


class IndexCounts(Struct, frozen=True, kw_only=True):
    """How much an index holds. ``cached_vectors`` are all that are stored, also those that no chunk needs; so are ``line_vectors``."""

    chunks: int
    vectors: int
    refused: int
    cached_vectors: int
    line_vectors: int
    pending_jobs: int
    building_chunks: int


class Index(Protocol):
    """The index of one agent. Everything runs on the index thread; each change is one transaction."""

    @property
    def where(self) -> str:
        """Where it is stored, in words for people."""
        ...

    @property
    def features(self) -> Features:
        """What it can do."""
        ...

    @property
    def answers(self) -> AnswerCosines:
        """The cosines that answers have."""
        ...

    @property
    def live(self) -> Generation:
        """The generation that searches use."""
        ...

    def building(self) -> Generation | None:
        """Return the generation that is being built to replace it, if any."""
        ...

    def plan(self, embedder: Identity | None) -> list[Generation]:
        """Start, continue or drop the generation that fits the settings; return all that must be kept up to date, live first."""
        ...

    def switch(self) -> None:
        """Make the generation that was built the live one, in one transaction."""
        ...

    def sweep(self, limit: int = SWEPT) -> bool:
        """Delete some rows of old generations; return whether more are left."""
        ...

    def filed(self, generation: Generation, source: Source, paths: Sequence[str] | None = None) -> dict[str, IndexedFile]:
        """Return the index entries of the files of a source, or of those with these paths, by path."""
        ...

    def file_count(self, generation: Generation, source: Source) -> int:
        """Return how many files of a source have index entries."""
        ...

    def file_paths(self, generation: Generation, source: Source) -> set[str]:
        """Return the paths of the files of a source that have index entries."""
        ...

    def last_followed(self, generation: Generation, source: Source) -> Followed | None:
        """Return which files a generation was up to date to when it was looked at last. Any thread may ask; nothing is read."""
        ...

    def follows(self, generation: Generation, source: Source, followed: Followed) -> bool:
        """Return whether that is still so: no entry has changed meanwhile but by ``store`` and ``remove``, as by another process."""
        ...

    def set_followed(self, generation: Generation, source: Source, followed: Followed | None) -> None:
        """Remember which files a generation is up to date to; None for nothing. It saves reading the entries of all files."""
        ...

    def store(self, generation: Generation, changes: Sequence[FileChange]) -> Stored:
        """Store files and their chunks, in one transaction, up to ``STORED`` new chunks; to be called again with the files that are left.

        Unchanged chunks keep their vectors. Chunks of a file that are gone stay until all its new ones are stored.
        """
        ...

    def remove(self, generation: Generation, paths: Sequence[str]) -> None:
        """Delete files and their chunks."""
        ...

    def forget_files(self) -> None:
        """Mark every file as changed."""
        ...

    def missing(self, generation: Generation, limit: int) -> list[Missing]:
        """Return chunks that have no vector yet, oldest first."""
        ...

    def missing_count(self, generation: Generation) -> int:
        """Return how many chunks have no vector yet."""
        ...

    def fill_from_cache(
        self, generation: Generation, embedder: Identity, missing: Sequence[Missing], *, now: int
    ) -> list[Missing]:
        """Take up the vectors of chunks whose texts were embedded before; return the other chunks."""
        ...

    def put_vectors(
        self, generation: Generation, embedder: Identity, vectors: Sequence[tuple[Missing, Sequence[float]]], *, now: int
    ) -> None:
        """Store new vectors, also those of chunks that were deleted meanwhile."""
        ...

    def adopt_vectors(
        self, generation: Generation, embedder: Identity, vectors: Sequence[tuple[bytes, Sequence[float]]], *, now: int
    ) -> None:
        """Store vectors of an earlier batch job, by the hash of their texts."""
        ...

    def lines_missing(self, generation: Generation, limit: int) -> list[LinesMissing]:
        """Return passages that have a vector, and whose lines have none. An index that keeps none of lines returns none."""
        ...

    def put_lines(self, generation: Generation, lines: Sequence[tuple[LinesMissing, Sequence[Sequence[float] | None]]]) -> None:
        """Store the vectors of the lines of passages; None for what the embedder refused."""
        ...

    def forget_vectors(self, generation: Generation, embedder: Identity) -> None:
        """Delete the vectors of an embedder, because the model behind the name has changed."""
        ...

    def evict(self) -> None:
        """Delete vectors that no chunk needs, beyond the number that may be kept."""
        ...

    def dims_of(self, generation: Generation) -> int:
        """Return how long a generation's vectors are; 0 while it has none."""
        ...

    def answers_by_vector(self, embedder: Identity | None) -> bool:
        """Whether the live generation has vectors of this embedder for all but a few chunks."""
        ...

    def load_slice(self) -> bool:
        """Load some more vectors into RAM, where that makes searches faster; return whether there are more."""
        ...

    def refuse(self, refused: Sequence[tuple[Missing, str]], embedder: Identity, *, now: int) -> None:
        """Mark chunks that the embedder refused, with the reason. They are found by keyword, and embedded again in a day."""
        ...

    def reconsider(self, embedder: Identity | None, *, now: int) -> None:
        """Make refused chunks eligible again: after a day, or for another embedder; all of them if ``embedder`` is None."""
        ...

    def refusals(self, limit: int) -> dict[str, str]:
        """Return why chunks of the live generation were refused, by path and line."""
        ...

    def lookup(
        self,
        terms: Terms,
        vector: Sequence[float] | None,
        *,
        days: Sequence[Span],
        audience: str | None,
        limit: int,
        floor: float = 0.0,
    ) -> Lookup:
        """Return candidates by keyword and by vector, with their texts, and notes of the days in the query."""
        ...

    def at_line(self, path: str, line: int) -> list[Candidate]:
        """Return the live chunks that contain a line of a file."""
        ...

    def texts(self, count: int) -> list[str]:
        """Return the texts of some notes, spread over all of them and the same every time."""
        ...

    def best_cosine(self, vector: Sequence[float]) -> float | None:
        """Return the cosine of the nearest chunk, or None."""
        ...

    def learn_answer(self, cosine: float) -> None:
        """Record the best cosine of a query that was answered by keywords. Some are written down, for the next start."""
        ...

    def learn_answers(self, embedder: Identity, cosines: Sequence[float]) -> None:
        """Take these as cosines of answers, and write them down."""
        ...

    def pending_jobs(self, embedder: Identity) -> list[BatchJob]:
        """Return the batch jobs of an embedder that are not closed, oldest first."""
        ...

    def keep_job(self, record: BatchJob) -> None:
        """Write down a batch job, in place of an earlier one with its token; it is on disk on return."""
        ...

    def close_job(self, token: str) -> None:
        """Delete a batch job whose vectors are stored or given up."""
        ...

    def counts(self) -> IndexCounts:
        """Return how much it holds."""
        ...

    def fold_in(self) -> None:
        """Tidy up after many changes, so that searches are fast."""
        ...

    def leave_no_trace(self) -> None:
        """Remove what was deleted from what is stored, as far as the engine can."""
        ...

    def close(self) -> None:
        """Release what it holds open."""
        ...
