"""Keeps the index in step with the files: one sync at a time, in the foreground or in the background."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial
from typing import TYPE_CHECKING

from memory.embedding.batch.protocol import BatchService
from memory.embedding.identity import identity_of
from memory.embedding.protocol import Embedder
from memory.errors import IndexBusy, MemoryTrouble
from memory.indexing.calibration import calibrate
from memory.indexing.indexer import Changed, Indexer, SyncProgress, SyncResult
from memory.indexing.note_watcher import NoteWatcher
from memory.notes.sources import HARD_LINK, UNREADABLE, NoteSources, named, own_files_again, printable_name
from memory.notes.transcript_source import Transcripts, TranscriptSource
from memory.protocol import Clock
from memory.settings import MemorySettings
from memory.store.index import Index
from memory.store.index_handle import IndexHandle

if TYPE_CHECKING:
    from memory.indexing.vectorizer import Vectorizer

_MANY = 3
"""If at least this many notes, and more than half of all, disappear at once, the owner is told: the disk may not be mounted."""

_GROWTH_SECONDS = 0.5
"""How long growth of transcripts that is told of is left to grow."""

_RETRY_SECONDS = 15.0
"""Shortest wait before vectors that could not be made are asked for again, and before notes are indexed after another process."""
_PATIENCE_SECONDS = 60.0
"""How long another process may write to the index before the owner is told."""


class IndexSync:
    """Indexes changed files, embeds new chunks and retries in the background. Results are stale while ``dirty`` is true.

    ``unreadable`` are the notes of the last sync that could not be read, with the reason. ``busy_since`` is when another process
    first kept this one from writing to the index, None since it was written to. ``began`` is awaited before each sync,
    ``changed`` takes the paths of changed notes; ``tell`` takes sentences for the owner. The other arguments are those of
    ``WorkspaceMemory``.
    """

    def __init__(
        self,
        sources: NoteSources,
        handle: IndexHandle,
        settings: MemorySettings,
        clock: Clock,
        *,
        embedder: Embedder | None,
        batch: BatchService | None,
        batch_from: int,
        changed: Changed,
        began: Callable[[], Awaitable[None]],
        sessions: Transcripts | None,
        own_session: Callable[[str, str], bool],
        template: frozenset[str],
        tell: Callable[[str], None],
    ) -> None:
        self.dirty = True
        self.started = False
        self.unreadable: dict[str, str] = {}
        self.busy_since: float | None = None
        self._told_of_busy = self._told_of_links = False
        self.embedder = embedder
        self._sources = sources
        self._open = handle
        self._settings = settings.sync
        self._clock = clock
        self._tell = tell
        self._began = began
        searched = sessions if settings.searches_sessions else None
        transcripts = TranscriptSource(searched, settings.sync.sessions, own_session) if searched else None
        self._indexer = Indexer(sources, handle.thread, clock, changed=changed, transcripts=transcripts, template=template)
        self._vectorizer: Vectorizer | None = None
        if embedder is not None:
            from memory.indexing.vectorizer import Vectorizer

            self._vectorizer = Vectorizer(
                embedder, handle.thread, clock, settings=settings.remote.batch, batch=batch, tell=tell, large=batch_from
            )
        self._watcher = NoteWatcher(
            sources,
            settings.sync,
            clock,
            touched=self.touched,
            due=self.sync_after,
            tell=tell,
            sessions=searched.folder if searched else None,
            follows=searched is not None,
            grown=self._sessions_grew,
        )
        self._syncing = asyncio.Lock()
        self._background: set[asyncio.Task[object]] = set()
        self._measure = False
        self._retrying: asyncio.Task[object] | None = None
        self._waiting: asyncio.Task[object] | None = None
        self._sessions_due = False
        self._grown: set[str] | None = None
        """Names of the transcripts that changed since they were looked at last; None: any may have."""
        self._searched = searched
        self._growing: asyncio.TimerHandle | None = None
        self._closed = False
        self._queued = False

    @property
    def running(self) -> bool:
        """Whether a sync is running."""
        return self._syncing.locked()

    @property
    def trouble(self) -> str:
        """Why vectors are not complete, in a sentence, or ""."""
        return self._vectorizer.trouble if self._vectorizer else ""

    def start(self) -> None:
        """Watch the notes, sync at intervals and, if ``sync.onSessionStart`` is set, sync once in the background."""
        self.started = True
        self._watcher.start()
        if self._searched is not None and self._settings.watch:
            self._searched.listen(partial(self._grew_elsewhere, asyncio.get_running_loop()))
        if self._settings.on_session_start:
            self.sync_soon()

    async def sync(self, progress: SyncProgress | None = None, *, vectors: bool = True) -> SyncResult:
        """Index changed files, then make missing vectors.

        Raises:
            MemoryTrouble: the index cannot be written; searches continue with what it holds.
        """
        async with self._syncing:
            self._queued = False
            self.dirty = False
            try:
                await self._began()
                who = self.embedder and identity_of(self.embedder)
                synced = await self._open.recovering(lambda: self._follow(progress))
                if vectors:
                    await self._open.recovering(lambda: self._complete(progress))
                if vectors and self.embedder and identity_of(self.embedder) != who:  # a fallback stepped in
                    await self._open.recovering(lambda: self._follow(progress))
                    await self._open.recovering(lambda: self._complete(progress))
            except IndexBusy as error:
                self._after_another(error)
                raise
            except BaseException:  # cancelled, too: the files were not indexed
                self.dirty = True
                raise
            self.busy_since, self._told_of_busy = None, False
            if synced.chunks or synced.removed:
                await self._open.run(lambda index: index.fold_in(), limited=False)
            return synced

    def sync_soon(self) -> None:
        """Start a sync in the background, unless one is running, or another process kept the last one from writing."""
        if not self._syncing.locked() and self.busy_since is None:
            self.sync_after()

    def sync_after(self) -> None:
        """Start a sync in the background, after the one that is running, if one is: it may be past what has changed."""
        if not self._queued and not self._closed:
            self._queued = True
            self._in_background(self._sync_quietly())

    def touched(self) -> None:
        """Mark the index as out of date until the next sync."""
        self.dirty = True

    async def index_note(self, path: str) -> None:
        """Index one note by keyword, ahead of everything else; its vectors are made in the background."""

        async def take() -> None:
            await self._indexer.take(await self._open.index(), path)

        try:
            await self._open.in_time(self._open.recovering(take))
        except IndexBusy as error:
            self._after_another(error)
            return
        except BaseException:  # cancelled, too: the next sync indexes it
            self.dirty = True
            raise
        if self.embedder is not None:
            self._in_background(self._fill_vectors())

    async def forget_stamps(self) -> None:
        """Make the next sync read every file again, and embed again every text that the embedder refused."""
        self._measure = True
        await self._open.run(lambda index: index.forget_files(), limited=False)
        await self._open.run(lambda index: index.reconsider(None, now=0), limited=False)

    def measure_soon(self) -> None:
        """Check in the background whether the embedder still gives vectors of the same length; if not, embed everything again."""
        self._in_background(self._fill_vectors(measure=True))

    def load_vectors_soon(self, index: Index) -> None:
        """Load the vectors into RAM in the background, where they are searched several times faster."""
        self._in_background(self._load_vectors(index))

    def index_was_reopened(self) -> None:
        """Start a sync: the index was damaged or deleted and is empty now, or missed something while it could not be reached."""
        self.dirty = True
        if self.busy_since is None:
            self.sync_after()

    async def close(self) -> None:
        """Stop watching and cancel what runs in the background."""
        self._closed = True
        await self._watcher.close()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    async def _follow(self, progress: SyncProgress | None) -> SyncResult:
        index = await self._open.index()
        who = identity_of(self.embedder) if self.embedder else None
        generations = await self._open.thread.run(lambda: index.plan(who), urgent=False)
        synced = await self._indexer.follow(index, generations, progress)
        self.unreadable = {path: why for path, why in synced.troubles.items() if UNREADABLE in why or HARD_LINK in why}
        self._tell_of_links([path for path, why in self.unreadable.items() if HARD_LINK in why])
        if synced.removed >= _MANY and synced.removed > synced.files:
            self._tell(
                f"{synced.removed} notes of {printable_name(str(self._sources.workspace))} have disappeared. If its disk is not "
                "mounted, mount it and restart. Otherwise `homebody memory log` lists the deleted notes, and "
                "`homebody memory undo NUMBER` restores one."
            )
        await self._open.run_until_done(index.sweep)
        return synced

    def _tell_of_links(self, paths: list[str]) -> None:
        """Tell the owner once which notes have a second name."""
        if paths and not self._told_of_links:
            many = f"{len(paths)} notes have" if len(paths) > 1 else "A note has"
            self._tell(
                f"{many} a second name (a hard link, as a copy by `cp -al` makes): {named(paths)}. Such files are not read, so what they "
                f"say is not known. This makes files of their own of them: {own_files_again(self._sources.workspace)}"
            )
        self._told_of_links = bool(paths)

    async def _complete(self, progress: SyncProgress | None) -> None:
        """Make missing vectors, and switch to the new generation once it is complete."""
        index = await self._open.index()
        building = await self._open.thread.run(index.building, urgent=False)
        live = await self._open.thread.run(lambda: index.live, urgent=False)
        target = building or live
        complete = True
        if self._vectorizer is not None:
            measure, self._measure = self._measure, False
            complete = await self._vectorizer.fill(index, target, progress, measure=measure)
            if not complete:
                self._try_again_later(self._vectorizer.resumes_in)
        if complete and building is not None:
            await self._open.thread.run(index.switch, urgent=False)
            await self._open.run_until_done(index.sweep)
        if complete:
            await self._open.thread.run(index.evict, urgent=False)
            if self.embedder is not None:
                await calibrate(index, self.embedder, self._open.thread)

    async def _fill_vectors(self, *, measure: bool = False) -> None:
        who = self.embedder and identity_of(self.embedder)
        async with self._syncing:
            self._measure = self._measure or measure
            await self._open.recovering(lambda: self._complete(None))
        if self.embedder and identity_of(self.embedder) != who:  # a fallback stepped in: the index is rebuilt with it
            self.sync_soon()

    def _grew_elsewhere(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take note of growth that another thread tells of."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._grow_soon, loop)

    def _grow_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._growing is None and not self._closed:
            self._growing = loop.call_later(_GROWTH_SECONDS, self._sessions_grew, None)

    def _sessions_grew(self, names: Collection[str] | None) -> None:
        """Take note that these transcripts changed; None: any may have."""
        self._growing = None
        if names is None:
            self._grown = None
        elif self._grown is not None:
            self._grown.update(names)
        if not self._sessions_due and not self._closed:
            self._sessions_due = True
            self._in_background(self._take_sessions())

    async def _take_sessions(self) -> None:
        """Index transcripts that have grown enough, as ``sync.sessions`` says."""
        synced = SyncResult()
        names: set[str] | None = None

        async def follow() -> None:
            nonlocal names
            index = await self._open.index()
            generations = await self._open.thread.run(lambda: [g for g in (index.live, index.building()) if g], urgent=False)
            wanted, names = names, None  # all of them if this has to be tried again
            await self._indexer.follow_sessions(index, generations, synced, wanted)

        async with self._syncing:
            self._sessions_due = False  # what grows from here on may be past what is read
            names, self._grown = self._grown, set()
            try:
                await self._open.recovering(follow)
            except BaseException:
                self._grown = None
                raise
        if synced.changed and self.embedder is not None:
            await self._fill_vectors()

    def _try_again_later(self, seconds: float) -> None:
        """Make missing vectors once the embedder may be asked again, at the earliest after ``_RETRY_SECONDS``."""
        if self.started and (self._retrying is None or self._retrying.done()):
            self._retrying = self._in_background(self._after(max(seconds, _RETRY_SECONDS)))

    async def _after(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._retrying = None
        await self._fill_vectors()

    def _after_another(self, busy: IndexBusy) -> None:
        """Start a sync some time after another process kept this one from writing; tell the owner if that goes on for long."""
        self.dirty = True
        now = self._clock.monotonic()
        self.busy_since = now if self.busy_since is None else self.busy_since
        if self.started and self._waiting is None:
            if now - self.busy_since >= _PATIENCE_SECONDS and not self._told_of_busy:
                self._told_of_busy = True
                self._tell(f"Notes are not indexed, as {busy}. {busy.hint}")
            self._waiting = self._in_background(self._sync_after_another())

    async def _sync_after_another(self) -> None:
        await self._clock.sleep(_RETRY_SECONDS)
        self._waiting = None
        self.sync_after()

    async def _sync_quietly(self) -> None:
        try:
            await self.sync()
        except IndexBusy:
            return  # a later one was started
        except MemoryTrouble as trouble:
            self._tell(f"{trouble} {trouble.hint}".strip())

    async def _load_vectors(self, index: Index) -> None:
        """Load the vectors into RAM in slices, after waiting searches; they are searched several times faster there."""
        await self._open.run_until_done(index.load_slice)

    def _in_background(self, work: Coroutine[object, object, object]) -> asyncio.Task[object] | None:
        if self._closed:
            work.close()
            return None
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[object]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, IndexBusy):
                self._after_another(error)
                return
            hint = error.hint if isinstance(error, MemoryTrouble) else "homebody memory index"
            self._tell(f"Memory: {error} {hint}".strip())
