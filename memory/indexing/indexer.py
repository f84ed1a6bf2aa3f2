"""Indexes files: reads what changed on disk, splits it into chunks and writes them to every generation of the index."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from msgspec import Struct, field

from memory.errors import MemoryUnreadable
from memory.indexing.file_comparison import Due, FileComparison, IsDue
from memory.indexing.transcript_cutter import TranscriptCutter
from memory.notes.note_reader import read_note
from memory.notes.sources import NoteSources, Source, SourceFile, Stamp
from memory.notes.transcript_source import PREFIX, TranscriptSource
from memory.protocol import Clock
from memory.store.chunk_changes import HashedChunk, hashed
from memory.store.generations import Generation, IndexedFile
from memory.store.index import FileChange, Index
from memory.store.index_thread import IndexThread
from memory.text.chunks import chunk, split_lines

log = logging.getLogger(__name__)

SyncProgress = Callable[[str, int, int], None]
"""Takes the phase ("files", "vectors" or "lines"), how many are done, and the total."""
Changed = Callable[[Sequence[str]], Awaitable[None]]
"""Takes the paths of notes that were changed or deleted."""

_BATCH_FILES = 24
_BATCH_BYTES = 400_000
_FRESH_NS = 2_000_000_000
"""A file that changed in the last two seconds is read again next time: its stamp may stay the same while its bytes change."""

_NO_STAMP = Stamp(0, 0, 0, 0)
_MOST_NAMES = 256
"""Of how many transcripts the entries are read by name; where more changed, all files are looked at."""


class SyncResult(Struct):
    """Result of a sync. ``troubles`` maps files that could not be indexed to the reason."""

    files: int = 0
    changed: int = 0
    removed: int = 0
    chunks: int = 0
    troubles: dict[str, str] = field(default_factory=dict)


class _Cut(Struct, frozen=True):
    """A file and its chunks; ``chunks`` is None if its bytes did not change."""

    path: str
    filed: IndexedFile
    chunks: list[HashedChunk] | None

    def change(self) -> FileChange:
        """What is to be stored."""
        gone = self.chunks is not None and self.filed.digest is None and not self.filed.trouble
        return FileChange(self.path, None if gone else self.filed, self.chunks)


class _Entries(NamedTuple):
    """Index entries by path, and how many there are of all files of the source."""

    known: dict[str, IndexedFile]
    total: int


class Indexer:
    """Indexes files. They are read and split on worker threads, and written on the index thread."""

    def __init__(
        self,
        sources: NoteSources,
        thread: IndexThread,
        clock: Clock,
        *,
        changed: Changed | None = None,
        transcripts: TranscriptSource | None = None,
        template: frozenset[str] = frozenset(),
    ) -> None:
        self._sources = sources
        self._template = template
        self._transcripts = transcripts
        self._cutter = TranscriptCutter(transcripts) if transcripts is not None else None
        self._thread = thread
        self._clock = clock
        self._changed = changed
        self._one_at_a_time = asyncio.Lock()
        self._unripe: set[str] = set()

    async def follow(self, index: Index, generations: Sequence[Generation], progress: SyncProgress | None = None) -> SyncResult:
        """Update every generation from the files on disk."""
        synced = SyncResult()
        for generation in generations:
            await self._follow_one(index, generation, synced, progress)
            await self._follow_sessions(index, generation, synced)
        return synced

    async def take(self, index: Index, path: str) -> None:
        """Index one file now, ahead of all waiting work."""
        generations = await self._thread.run(lambda: [g for g in (index.live, index.building()) if g])
        async with self._one_at_a_time:
            for generation in generations:
                cut = await asyncio.to_thread(self._cut, path, generation, None)
                await self._store(index, generation, [cut.change()], urgent=True)

    async def _follow_one(
        self, index: Index, generation: Generation, synced: SyncResult, progress: SyncProgress | None
    ) -> None:
        found, gone = await self._compare(index, generation, "memory", self._sources.each, self._is_due)
        due, synced.files = found.due, found.files
        synced.troubles |= found.troubles
        done = 0
        for batch in _batches(due):
            async with self._one_at_a_time:
                cuts = await asyncio.to_thread(lambda b=batch: [self._cut(f.path, generation, known) for f, known in b])  # type: ignore[misc]
                synced.chunks += await self._store(index, generation, [cut.change() for cut in cuts])
            await self._tell([cut.path for cut in cuts if cut.chunks is not None])
            synced.changed += sum(cut.chunks is not None for cut in cuts)
            for cut in cuts:
                synced.troubles.pop(cut.path, None)
                if cut.filed.trouble:
                    synced.troubles[cut.path] = cut.filed.trouble
            done += len(batch)
            if progress is not None:
                progress("files", done, len(due))
        if gone:
            async with self._one_at_a_time:
                gone = await asyncio.to_thread(lambda: [path for path in gone if self._sources.stamp(path) is None])
                await self._thread.run(lambda: index.remove(generation, gone), urgent=False)
            await self._tell(gone)
            synced.removed += len(gone)

    async def _compare(
        self, index: Index, generation: Generation, source: Source, each: Callable[[], Iterator[SourceFile]], is_due: IsDue
    ) -> tuple[FileComparison, list[str]]:
        """Compare the files of a source with a generation. Returns what was found, and the paths of files that are gone, in order."""
        found = FileComparison(each(), index.last_followed(generation, source))
        paths = await asyncio.to_thread(found.strangers)
        while True:
            ended = found.ended
            look = partial(_look, index, generation, source, found, paths)
            entries = await self._thread.run(look, urgent=False)
            if entries is None:
                return await self._compare(index, generation, source, each, is_due)
            if paths:
                paths = await asyncio.to_thread(found.take, entries.known, is_due)
            if ended:
                break
        if found.unchanged:
            return found, []
        if found.there > entries.total and found.former is not None:  # entries are gone that this process did not remove
            await self._thread.run(lambda: index.set_followed(generation, source, None), urgent=False)
            return await self._compare(index, generation, source, each, is_due)
        gone: list[str] = []
        if found.there != entries.total:
            there = await asyncio.to_thread(lambda: {file.path for file in each() if not file.trouble})
            gone = sorted(await self._thread.run(lambda: index.file_paths(generation, source) - there, urgent=False))
        followed = found.followed()
        if followed is not found.former:
            await self._thread.run(lambda: index.set_followed(generation, source, followed), urgent=False)
        return found, gone

    async def follow_sessions(
        self, index: Index, generations: Sequence[Generation], synced: SyncResult, names: Collection[str] | None = None
    ) -> None:
        """Index transcripts that have grown enough. Without a transcript source, their chunks are removed.

        With ``names``, those and the ones that had not grown enough at the last look are looked at, not all that there are.
        """
        wanted = {*(names or ()), *self._unripe}
        if names is None or self._transcripts is None or len(wanted) > _MOST_NAMES:
            self._unripe = set()
            for generation in generations:
                await self._follow_sessions(index, generation, synced)
            return
        self._unripe = set()
        for generation in generations:
            await self._follow_named(index, generation, synced, wanted)

    async def _follow_named(self, index: Index, generation: Generation, synced: SyncResult, names: Collection[str]) -> None:
        assert self._transcripts is not None
        try:
            files = await asyncio.to_thread(self._transcripts.those, names)
        except OSError:  # a link, or no right to read it: the look at all says so
            await self._follow_sessions(index, generation, synced)
            return
        paths = [PREFIX + name for name in names]
        known = await self._thread.run(lambda: index.filed(generation, "sessions", paths), urgent=False)

        def compare() -> list[Due]:
            return [(file, known.get(file.path)) for file in files if self._is_transcript_due(file, known.get(file.path))]

        due = await asyncio.to_thread(compare)
        taken = {file.path for file, _ in due}
        grown = [file.path for file in files if file.path in known and file.stamp.size != known[file.path].stamp.size]
        self._unripe.update(path.removeprefix(PREFIX) for path in grown if path not in taken)
        gone = known.keys() - {file.path for file in files}
        await self._take_sessions(index, generation, synced, due, sorted(gone))

    async def _follow_sessions(self, index: Index, generation: Generation, synced: SyncResult) -> None:
        try:
            found, gone = await self._compare(index, generation, "sessions", self._each_transcript, self._is_transcript_due)
        except OSError as error:  # what cannot be listed is not gone
            log.warning("the transcripts cannot be listed, and are indexed later: %s", error)
            return
        await self._take_sessions(index, generation, synced, found.due, gone)

    async def _take_sessions(
        self, index: Index, generation: Generation, synced: SyncResult, due: Sequence[Due], gone: Sequence[str]
    ) -> None:
        for file, known in due:
            assert self._cutter is not None
            try:
                change = await asyncio.to_thread(self._cutter.cut, file.path, generation, known.stamp if known else None)
            except OSError as error:
                synced.troubles[file.path] = f"{file.path} cannot be read: {error.strerror}"
                continue
            synced.chunks += await self._store(index, generation, [change])
            synced.changed += 1
        if gone:
            await self._thread.run(lambda: index.remove(generation, gone), urgent=False)
            synced.removed += len(gone)

    def _each_transcript(self) -> Iterator[SourceFile]:
        return iter(()) if self._transcripts is None else self._transcripts.walk()

    def _is_transcript_due(self, file: SourceFile, known: IndexedFile | None) -> bool:
        assert self._transcripts is not None
        return self._transcripts.is_due(known.stamp if known else None, file, now=self._clock.now())

    def _is_due(self, file: SourceFile, known: IndexedFile | None) -> bool:
        if known is None or not known.settled or known.stamp != file.stamp:
            return True
        return known.audience not in {None, self._sources.audience_of(file.path)}

    def _cut(self, path: str, generation: Generation, known: IndexedFile | None) -> _Cut:
        audience = self._sources.audience_of(path)
        try:
            content = read_note(self._sources, path)
        except MemoryUnreadable as trouble:
            stamp = self._sources.stamp(path)
            reason = "" if stamp is None else str(trouble)
            return _Cut(path, IndexedFile(None, stamp or _NO_STAMP, stamp is not None, reason, audience), [])
        settled = self._clock.now().timestamp() * 1e9 - content.stamp.mtime_ns > _FRESH_NS
        filed = IndexedFile(content.digest, content.stamp, settled, content.remark, audience)
        if known is not None and known.digest == content.digest:
            return _Cut(path, filed, None)
        lines = split_lines(content.text)
        chunks = chunk(lines, tokens=generation.tokens, overlap=generation.overlap, template=self._template)
        return _Cut(path, filed, hashed(chunks, path))

    async def _store(self, index: Index, generation: Generation, changes: Sequence[FileChange], *, urgent: bool = False) -> int:
        """Store files in steps, between which searches run, and other processes write; return the number of new chunks."""
        new = 0
        while changes:
            stored = await self._thread.run(partial(index.store, generation, changes), urgent=urgent)
            new += stored.chunks
            changes = changes[stored.files :]
        return new

    async def _tell(self, paths: Sequence[str]) -> None:
        if self._changed is not None and paths:
            with contextlib.suppress(OSError):  # a history that cannot be written must not stop indexing
                await self._changed(paths)


def _look(index: Index, generation: Generation, source: Source, found: FileComparison, paths: Sequence[str]) -> _Entries | None:
    """Return what the index has of the files; None if it is no longer up to date to what it was. Runs on the index thread."""
    if found.former is not None and not index.follows(generation, source, found.former):
        index.set_followed(generation, source, None)
        return None
    known = index.filed(generation, source, paths) if paths else {}
    return _Entries(known, index.file_count(generation, source) if found.ended and not found.unchanged else 0)


def _batches(due: Sequence[Due]) -> list[list[Due]]:
    batches: list[list[Due]] = []
    size = _BATCH_BYTES + 1
    for one, known in due:
        if size + one.stamp.size > _BATCH_BYTES or len(batches[-1]) >= _BATCH_FILES:
            batches.append([])
            size = 0
        batches[-1].append((one, known))
        size += one.stamp.size
    return batches
