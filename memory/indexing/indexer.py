"""Indexes files: reads what changed on disk, splits it into chunks and writes them to every generation of the index."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from msgspec import Struct, field

from memory.errors import MemoryUnreadable
from memory.indexing.transcript_cutter import TranscriptCutter
from memory.notes.note_reader import read_note
from memory.notes.sources import NoteSources, SourceFile, Stamp
from memory.notes.transcript_source import TranscriptSource
from memory.protocol import Clock
from memory.store.generations import Generation, IndexedFile
from memory.store.index import FileChange, Index
from memory.store.index_thread import IndexThread
from memory.text.chunks import Chunk, chunk, split_lines

log = logging.getLogger(__name__)

SyncProgress = Callable[[str, int, int], None]
"""Takes the phase ("files", "vectors" or "lines"), how many are done, and the total."""
Changed = Callable[[Sequence[str]], Awaitable[None]]
"""Takes the paths of notes that were changed or deleted."""

_BATCH_FILES = 24
_BATCH_BYTES = 400_000
_FRESH_NS = 2_000_000_000
"""A file that changed in the last two seconds is read again next time: its stamp may stay the same while its bytes change."""

_COMPARED = 256
"""Files that are compared with the index at once."""

_NO_STAMP = Stamp(0, 0, 0, 0)
_Due = tuple[SourceFile, IndexedFile | None]
"""A file that is to be read, and its index entry."""


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
    chunks: list[Chunk] | None


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

    async def follow(self, index: Index, generations: Sequence[Generation], progress: SyncProgress | None = None) -> SyncResult:
        """Update every generation from the files on disk."""
        state, files, troubles = await asyncio.to_thread(self._state)
        synced = SyncResult(files=files, troubles=troubles)
        for generation in generations:
            await self._follow_one(index, generation, state, synced, progress)
            await self._follow_sessions(index, generation, synced)
        return synced

    async def take(self, index: Index, path: str) -> None:
        """Index one file now, ahead of all waiting work."""
        generations = await self._thread.run(lambda: [g for g in (index.live, index.building()) if g])
        async with self._one_at_a_time:
            for generation in generations:
                cut = await asyncio.to_thread(self._cut, path, generation, None)
                await self._thread.run(lambda g=generation, c=cut: self._file(index, g, [c]))  # type: ignore[misc]

    async def _follow_one(
        self,
        index: Index,
        generation: Generation,
        state: int,
        synced: SyncResult,
        progress: SyncProgress | None,
    ) -> None:
        followed = await self._thread.run(lambda: index.followed(generation), urgent=False)
        if followed is not None and followed[0] == state:
            synced.troubles.update(followed[1])
            return
        due, gone, troubles = await self._compared(index, generation)
        synced.troubles.update(troubles)
        if not due and not gone:
            await self._thread.run(lambda: index.set_followed(generation, state, troubles), urgent=False)
        done = 0
        for batch in _batches(due):
            async with self._one_at_a_time:
                cuts = await asyncio.to_thread(lambda b=batch: [self._cut(f.path, generation, known) for f, known in b])  # type: ignore[misc]
                synced.chunks += await self._thread.run(lambda c=cuts: self._file(index, generation, c), urgent=False)  # type: ignore[misc]
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

    def _state(self) -> tuple[int, int, dict[str, str]]:
        """Return a number that is another one when a file changes, how many files there are, and which have troubles. Blocks."""
        state, count, troubles = 0, 0, {}
        for found in self._sources.each():
            state = hash((state, found))
            count += 1
            if found.trouble:
                troubles[found.path] = found.trouble
        return state, count, troubles

    async def _compared(self, index: Index, generation: Generation) -> tuple[list[_Due], list[str], dict[str, str]]:
        """Compare the files on disk with a generation: which to read, which of its own are gone, and which have troubles in it.

        A part at a time: what all of them take at once would be left as holes in the memory of a process that runs for years.
        """
        due: list[_Due] = []
        troubles: dict[str, str] = {}
        there = 0
        files = self._sources.each()
        while part := await asyncio.to_thread(lambda: list(islice(files, _COMPARED))):
            paths = [f.path for f in part]
            known = await self._thread.run(lambda p=paths: index.filed(generation, "memory", p), urgent=False)  # type: ignore[misc]
            troubles |= {path: one.trouble for path, one in known.items() if one.trouble}
            readable = [(f, known.get(f.path)) for f in part if not f.trouble]
            there += sum(one is not None for _, one in readable)
            due += [(f, one) for f, one in readable if not _unchanged(one, f.stamp)]
        if there == await self._thread.run(lambda: index.file_count(generation, "memory"), urgent=False):
            return due, [], troubles
        filed = await self._thread.run(lambda: index.filed(generation, "memory"), urgent=False)
        readable_now = await asyncio.to_thread(lambda: {f.path for f in self._sources.each() if not f.trouble})
        return due, sorted(filed.keys() - readable_now), troubles

    async def follow_sessions(self, index: Index, generations: Sequence[Generation], synced: SyncResult) -> None:
        """Index transcripts that have grown enough. Without a transcript source, their chunks are removed."""
        for generation in generations:
            await self._follow_sessions(index, generation, synced)

    async def _follow_sessions(self, index: Index, generation: Generation, synced: SyncResult) -> None:
        due, gone = await self._compared_sessions(index, generation)
        for path, known in due:
            assert self._cutter is not None
            try:
                change = await asyncio.to_thread(self._cutter.cut, path, generation, known)
            except OSError as error:
                synced.troubles[path] = f"{path} cannot be read: {error.strerror}"
                continue
            put = partial(index.store, generation, [change])
            synced.chunks += await self._thread.run(put, urgent=False)
            synced.changed += 1
        if gone:
            await self._thread.run(lambda: index.remove(generation, gone), urgent=False)
            synced.removed += len(gone)

    async def _compared_sessions(
        self, index: Index, generation: Generation
    ) -> tuple[list[tuple[str, Stamp | None]], list[str]]:
        """Compare the transcripts with a generation, a part at a time: which to read, with their stamps in it, and which are gone."""
        due: list[tuple[str, Stamp | None]] = []
        there = 0
        try:
            files = self._each_transcript()
            while part := await asyncio.to_thread(lambda: list(islice(files, _COMPARED))):
                paths = [f.path for f in part]
                known = await self._thread.run(lambda p=paths: index.filed(generation, "sessions", p), urgent=False)  # type: ignore[misc]
                there += len(known)
                due += await asyncio.to_thread(self._due, part, {path: one.stamp for path, one in known.items()})
            if there == await self._thread.run(lambda: index.file_count(generation, "sessions"), urgent=False):
                return due, []
            filed = await self._thread.run(lambda: index.filed(generation, "sessions"), urgent=False)
            return due, sorted(filed.keys() - await asyncio.to_thread(lambda: {f.path for f in self._each_transcript()}))
        except OSError as error:  # what cannot be listed is not gone
            log.warning("the transcripts cannot be listed, and are indexed later: %s", error)
            return due, []

    def _each_transcript(self) -> Iterator[SourceFile]:
        return iter(()) if self._transcripts is None else self._transcripts.walk()

    def _due(self, part: Sequence[SourceFile], known: Mapping[str, Stamp]) -> list[tuple[str, Stamp | None]]:
        assert self._transcripts is not None
        now = self._clock.now()
        stamps = [(one, known.get(one.path)) for one in part]
        return [(one.path, stamp) for one, stamp in stamps if self._transcripts.is_due(stamp, one, now=now)]

    def _cut(self, path: str, generation: Generation, known: IndexedFile | None) -> _Cut:
        try:
            content = read_note(self._sources, path)
        except MemoryUnreadable as trouble:
            stamp = self._sources.stamp(path)
            reason = "" if stamp is None else str(trouble)
            return _Cut(path, IndexedFile(None, stamp or _NO_STAMP, settled=stamp is not None, trouble=reason), [])
        settled = self._clock.now().timestamp() * 1e9 - content.stamp.mtime_ns > _FRESH_NS
        filed = IndexedFile(content.digest, content.stamp, settled, content.remark)
        if known is not None and known.digest == content.digest:
            return _Cut(path, filed, None)
        lines = split_lines(content.text)
        chunks = chunk(lines, tokens=generation.tokens, overlap=generation.overlap, template=self._template)
        return _Cut(path, filed, chunks)

    @staticmethod
    def _file(index: Index, generation: Generation, cuts: Sequence[_Cut]) -> int:
        gone = {cut.path for cut in cuts if cut.chunks is not None and cut.filed.digest is None and not cut.filed.trouble}
        return index.store(
            generation, [FileChange(cut.path, None if cut.path in gone else cut.filed, cut.chunks) for cut in cuts]
        )

    async def _tell(self, paths: Sequence[str]) -> None:
        if self._changed is not None and paths:
            with contextlib.suppress(OSError):  # a history that cannot be written must not stop indexing
                await self._changed(paths)


def _unchanged(known: IndexedFile | None, stamp: Stamp) -> bool:
    return known is not None and known.settled and known.stamp == stamp


def _batches(due: Sequence[_Due]) -> list[list[_Due]]:
    batches: list[list[_Due]] = []
    size = _BATCH_BYTES + 1
    for one, known in due:
        if size + one.stamp.size > _BATCH_BYTES or len(batches[-1]) >= _BATCH_FILES:
            batches.append([])
            size = 0
        batches[-1].append((one, known))
        size += one.stamp.size
    return batches
