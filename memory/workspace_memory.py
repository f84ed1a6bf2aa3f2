"""The memory of one agent: its workspace's Markdown, indexed, searchable, and kept in step."""

from __future__ import annotations

import asyncio
from datetime import UTC
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from memory.embedding.batch.backfill import LARGE
from memory.embedding.identity import identity_of
from memory.errors import EmbeddingFailed, MemoryTrouble, MemoryUnreadable
from memory.indexing.indexer import Indexer, SyncResult
from memory.indexing.note_watcher import NoteWatcher
from memory.indexing.vectorizer import Vectorizer
from memory.notes.note_history import NoteHistory
from memory.notes.note_reader import export_notes, read_lines
from memory.notes.sources import UNREADABLE, NoteSources, audience_key, audience_of, printable_name
from memory.notes.transcript_source import PREFIX, TranscriptSource
from memory.notes.version_store import VersionStore
from memory.protocol import Author, Excerpt, SearchAnswer
from memory.search.explanation import explain_line, explain_search
from memory.search.query_embedder import TIMEOUT_SECONDS, QueryEmbedder
from memory.search.retrieval import build_query, retrieve
from memory.store.index_handle import IndexHandle
from memory.store.index_status import IndexStatus, read_status

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import tzinfo
    from pathlib import Path

    from memory.audience import Audience
    from memory.embedding.batch.protocol import BatchService
    from memory.embedding.protocol import Embedder
    from memory.indexing.indexer import SyncProgress
    from memory.protocol import Clock
    from memory.search.retrieval import Query, Retrieval
    from memory.settings import MemorySettings
    from memory.store.database import AllowedFeatures
    from memory.store.index import Index

_MOST_NAMED = 3
_MANY = 3
"""So many notes gone at once, and most of all, are told: that is rather a disk that went away than somebody tidying up."""

_LOOK_AGAIN_SECONDS = 15.0
"""How soon at most vectors that could not be made are asked for again."""


class WorkspaceMemory:
    """Implements ``memory.protocol.Memory`` over a workspace folder and an index file.

    Making one does nothing: the file is opened, and SQLite loaded, when somebody first asks or syncs; nothing is embedded
    before that. ``store`` may hold ``{agentId}``. ``zone`` is the owner's, for questions such as "what was yesterday?".
    ``tell`` gets sentences for the owner (a broken index was set aside, vectors cannot be had). ``batch`` is used where at least
    ``batch_from`` passages have no vector. ``template`` are the lines that a new workspace comes with: they say nothing. Of the
    transcripts in ``sessions`` those are searched whose key ``own_session`` says to be of the owner's private conversations.
    A search waits ``patience`` seconds for the vector of its question, then answers by keyword.
    """

    def __init__(
        self,
        workspace: Path,
        store: Path,
        settings: MemorySettings,
        *,
        agent: str,
        clock: Clock,
        embedder: Embedder | None = None,
        batch: BatchService | None = None,
        journal: VersionStore | None = None,
        sessions: Path | None = None,
        own_session: Callable[[str], bool] = lambda _: False,
        zone: tzinfo = UTC,
        tell: Callable[[str], None] = lambda _: None,
        parts: AllowedFeatures | None = None,
        batch_from: int = LARGE,
        template: frozenset[str] = frozenset(),
        patience: float = TIMEOUT_SECONDS,
    ) -> None:
        self.agent = agent
        self.settings = settings
        self.sources = NoteSources(workspace, settings.extra_paths)
        self.store = store.with_name(store.name.replace("{agentId}", agent))
        self._clock = clock
        self._zone = zone
        self._tell = tell
        self.embedder = embedder
        self._open = IndexHandle(
            self.store, settings, clock, agent=agent, tell=tell, on_rebuild=self._index_was_renewed, parts=parts
        )
        self.history = NoteHistory(
            journal or VersionStore(self.store.with_name(f"{self.store.stem}.history")), self.sources, clock
        )
        searched = sessions if settings.searches_sessions else None
        transcripts = TranscriptSource(searched, settings.sync.sessions, own_session) if searched else None
        self._indexer = Indexer(
            self.sources, self._open.thread, clock, changed=self.history.noticed, transcripts=transcripts, template=template
        )
        self._vectorizer: Vectorizer | None = None
        if embedder is not None:
            self._vectorizer = Vectorizer(
                embedder, self._open.thread, clock, settings=settings.remote.batch, batch=batch, tell=tell, large=batch_from
            )
        self._queries = QueryEmbedder(clock, patience=patience)
        self._syncing = asyncio.Lock()
        self._watcher = NoteWatcher(
            self.sources,
            settings.sync,
            clock,
            touched=self.touched,
            due=self.sync_soon,
            tell=tell,
            sessions=searched,
            grown=self._sessions_grew,
        )
        self._background: set[asyncio.Task[object]] = set()
        self._dirty = True
        self._started = False
        self._measure = False
        self._unreadable: dict[str, str] = {}
        self._retrying: asyncio.Task[object] | None = None
        self._reading_sessions: asyncio.Task[object] | None = None
        self._closed = False

    def start(self) -> None:
        """Watch the notes, sync at intervals and, as the settings say, take up by and by what changed while nobody watched."""
        self._started = True
        self._watcher.start()
        if self.settings.sync.on_session_start:
            self.sync_soon()

    def session_began(self) -> None:
        """Look for changes, as ``sync.onSessionStart`` says."""
        if self.settings.sync.on_session_start and self._dirty:
            self.sync_soon()

    async def search(
        self, query: str, *, audience: Audience, max_results: int | None = None, min_score: float | None = None
    ) -> SearchAnswer:
        """Find passages. Never waits for a sync; works without an embedder."""
        recalled, notes = await self.recalled(query, audience=audience, max_results=max_results, min_score=min_score)
        stale = self._dirty or self._syncing.locked()
        if stale and self.settings.sync.on_search:
            self.sync_soon()
        if stale:
            notes.append("Notes changed since they were indexed; results may be stale.")
        notes += self._left_out(audience)
        embedder = self.embedder
        by_vector = recalled.scan != "none" and embedder is not None
        return SearchAnswer(
            hits=recalled.hits,
            provider=embedder.provider if by_vector and embedder else "none",
            model=embedder.model if by_vector and embedder else "bm25",
            fallback=getattr(embedder, "stepped_in", None),
            stale=stale,
            note=" ".join(notes) or None,
        )

    async def recalled(
        self, query: str, *, audience: Audience, max_results: int | None = None, min_score: float | None = None
    ) -> tuple[Retrieval, list[str]]:
        """Search, and return everything there is to know of how the hits came about, with sentences for the reader."""
        index = await self._open.index()
        notes: list[str] = []
        vector = await self._query_vector(query, notes)
        question = self._question(query, audience, vector, max_results, min_score)
        recalled = await self._open.run(lambda index: retrieve(index, question, self.settings.query))
        if recalled.floored:
            notes.insert(0, "Nothing in memory comes close to this question.")
        if vector is not None and recalled.scan == "vec0":
            self._in_background(self._load_vectors(index))
        return recalled, notes

    def _left_out(self, audience: Audience) -> list[str]:
        """Name the notes of an audience that cannot be read: what stands in them is missing from the results."""
        key = audience_key(audience)
        paths = sorted(path for path in self._unreadable if key is None or audience_of(path) == key)
        if not paths:
            return []
        self.sync_soon()  # perhaps they can be by now: a change of rights is not seen by a watcher
        named = ", ".join(paths[:_MOST_NAMED]) + ", ..." * (len(paths) > _MOST_NAMED)
        return [f"{named} cannot be read, so nothing of it is here ({self._unreadable[paths[0]]})."]

    async def _query_vector(self, query: str, notes: list[str]) -> list[float] | None:
        """Return the vector of a question, or None with a sentence in ``notes`` that says why words are searched alone."""
        embedder = self.embedder
        if embedder is None:
            return None
        who = identity_of(embedder)
        answers, dims = await self._open.run(lambda index: (index.answers_by_vector(who), index.live.dims))
        if not answers:
            notes.append(await self._open.run(self._why_without_vectors))
            return None
        vector = await self._queries.vector(embedder, query, notes)
        if identity_of(embedder) != who:
            self.sync_soon()
        if vector is not None and len(vector) != dims:
            notes.append(f"{embedder.model} gives other vectors than it did for the notes; these hits are by keyword alone.")
            self._in_background(self._fill_vectors(measure=True))
            return None
        return vector

    def _why_without_vectors(self, index: Index) -> str:
        """Say why hits are by keyword alone though there is an embedder. Runs on the store's thread."""
        trouble = self._vectorizer.trouble if self._vectorizer else ""
        if not index.vectors.usable:
            reason = f"Vectors cannot be kept ({index.database.drivers.note})"
        elif trouble:
            reason = f"Vectors are not complete ({trouble.rstrip('.')})"
        elif self._started or self._syncing.locked():
            reason = "Vectors are still being made"
        else:
            reason = "There are no vectors of all notes yet (`homebody memory index` makes them)"
        return f"{reason}; these hits are by keyword alone."

    async def get(self, path: str, *, audience: Audience, from_line: int = 1, lines: int | None = None) -> Excerpt:
        """Read lines of one memory file."""
        pure = PurePosixPath(path)
        name = str(pure)
        key = audience_key(audience)
        hidden = not audience.may_see(pure) or (key is not None and audience_of(name) != key)
        if hidden:
            raise MemoryUnreadable(
                f"there is no note {path!r} for this conversation", hint="memory_search names the notes there are"
            )
        try:
            return await asyncio.to_thread(read_lines, self.sources, name, from_line=from_line, lines=lines)
        except MemoryUnreadable as trouble:
            if key is None and name.startswith(PREFIX):
                raise MemoryUnreadable(
                    f"{path} is a conversation, of which memory_search gives the passages", hint="search for more of it"
                ) from trouble
            if key is None:
                raise
            hint = "memory_search names the notes there are"
            raise MemoryUnreadable(f"there is no note {path!r} for this conversation", hint=hint) from trouble

    async def writing(self, path: str) -> None:
        """Take note that a tool is about to change ``path``, so that the history tells its change from the owner's before."""
        name = str(PurePosixPath(path))
        if self.sources.place(name) is not None:
            await self.history.writing(name)

    async def wrote(self, path: str, *, by: Author | None = None) -> None:
        """Take note that a tool just changed ``path``: its new text is found by keyword on return, its vectors follow.

        A path that is not memory is passed over. ``by`` goes into the history; without it, the agent is named alone.
        """
        name = str(PurePosixPath(path))
        if self.sources.place(name) is None:
            return
        try:
            await self.history.wrote(name, by or Author("agent", self.agent))
        except OSError as error:
            self._tell(f"The history of {name} cannot be written: {error.strerror or error}")
        index = await self._open.index()
        await self._open.recovering(lambda: self._indexer.take(index, name))
        if self.embedder is not None:
            self._in_background(self._fill_vectors())

    async def sync(self, progress: SyncProgress | None = None, *, vectors: bool = True) -> SyncResult:
        """Bring the index in step with the files, then make what vectors are missing.

        Raises:
            MemoryTrouble: the index cannot be written; it goes on answering as it is.
        """
        async with self._syncing:
            self._dirty = False
            try:
                who = self.embedder and identity_of(self.embedder)
                synced = await self._open.recovering(lambda: self._follow(progress))
                if vectors:
                    await self._open.recovering(lambda: self._complete(progress))
                if vectors and self.embedder and identity_of(self.embedder) != who:  # a fallback stepped in
                    await self._open.recovering(lambda: self._follow(progress))
                    await self._open.recovering(lambda: self._complete(progress))
            except BaseException:  # also when cancelled: what was not followed is still to be done
                self._dirty = True
                raise
            if synced.chunks or synced.removed:
                await self._open.run(lambda index: index.database.fold_in())
            return synced

    async def status(self, *, deep: bool = False) -> IndexStatus:
        """Tell how the index stands, compared with the files. ``deep`` asks the embedder for a vector."""
        found = await asyncio.to_thread(lambda: list(self.sources.walk()))
        embedder = self.embedder
        who = identity_of(embedder) if embedder else None
        status = await self._open.run(lambda index: read_status(index, who, found))
        status.agent, status.workspace = self.agent, printable_name(str(self.sources.workspace))
        status.provider = embedder.provider if embedder else "none"
        status.model = embedder.model if embedder else "bm25"
        status.fallback = getattr(embedder, "stepped_in", None)
        status.trouble = (self._vectorizer.trouble if self._vectorizer else "") or getattr(embedder, "trouble", "")
        status.dirty = bool(status.changed_files)
        if deep and embedder is not None:
            try:
                await embedder.embed(["Does this embedder answer?"], purpose="query")
            except EmbeddingFailed as failure:
                status.probe = f"{failure} {failure.hint}".strip()
            else:
                status.probe = "ok"
        return status

    async def explain(self, query: str, *, audience: Audience, line: str | None = None) -> dict[str, object]:
        """Tell how the answer to a query came about and, for ``line`` ("path:number"), why it was or was not in it."""
        recalled, notes = await self.recalled(query, audience=audience)
        account: dict[str, object] = {"query": query, "notes": notes, **explain_search(recalled, self.settings.query)}
        if line is not None:
            path, _, number = line.rpartition(":")
            if not path or not number.isdigit():
                raise MemoryUnreadable(f"{line!r} is no place in a note", hint="write it as memory/2026-01-31.md:12")
            await self.get(path, audience=audience, from_line=int(number), lines=1)
            account["line"] = await self._open.run(lambda index: explain_line(index, recalled, path, int(number)))
        return account

    async def forget_stamps(self) -> None:
        """Have the next sync read and cut every file again, as if all had changed, and ask again for what was refused a vector."""
        self._measure = True
        await self._open.run(lambda index: index.notes.forget_files())
        await self._open.run(lambda index: index.reconsider(None, now=0))

    async def export(self, target: Path) -> int:
        """Write all notes into a zip file, under the names that search gives them; say how many there are."""
        return await asyncio.to_thread(export_notes, self.sources, target)

    def sync_soon(self) -> None:
        """Start a sync, unless one is under way."""
        if not self._syncing.locked() and not self._closed:
            self._in_background(self._sync_quietly())

    def touched(self) -> None:
        """Take note that files may have changed: until the next sync, results are called stale."""
        self._dirty = True

    async def close(self) -> None:
        """Stop what runs in the background; close the file, and the embedder with it."""
        self._closed = True
        await self._watcher.close()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._queries.close()
        await self._open.close()
        if self.embedder is not None:
            await self.embedder.close()

    def _question(
        self, query: str, audience: Audience, vector: list[float] | None, most: int | None, min_score: float | None
    ) -> Query:
        today = self._clock.now().astimezone(self._zone).date()
        key = audience_key(audience)
        return build_query(query, self.settings.query, today=today, audience=key, vector=vector, most=most, min_score=min_score)

    async def _follow(self, progress: SyncProgress | None) -> SyncResult:
        index = await self._open.index()
        who = identity_of(self.embedder) if self.embedder else None
        generations = await self._open.thread.run(lambda: index.plan(who), urgent=False)
        synced = await self._indexer.follow(index, generations, progress)
        self._unreadable = {path: trouble for path, trouble in synced.troubles.items() if UNREADABLE in trouble}
        if synced.removed >= _MANY and synced.removed > synced.files:
            self._tell(
                f"{synced.removed} notes of {printable_name(str(self.sources.workspace))} are gone. If it lies on a disk that is not "
                "mounted, mount it and restart; else `homebody memory log` lists what was there, and "
                "`homebody memory undo NUMBER` brings it back."
            )
        await self._open.run_until_done(index.sweep)
        return synced

    async def _complete(self, progress: SyncProgress | None) -> None:
        """Make the vectors that are missing, and let a finished generation take over."""
        index = await self._open.index()
        building = await self._open.thread.run(index.notes.building, urgent=False)
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

    async def _fill_vectors(self, *, measure: bool = False) -> None:
        who = self.embedder and identity_of(self.embedder)
        async with self._syncing:
            self._measure = self._measure or measure
            await self._open.recovering(lambda: self._complete(None))
        if self.embedder and identity_of(self.embedder) != who:  # a fallback stepped in: the index is rebuilt with it
            self.sync_soon()

    def _sessions_grew(self) -> None:
        if self._reading_sessions is None or self._reading_sessions.done():
            self._reading_sessions = self._in_background(self._take_sessions())

    async def _take_sessions(self) -> None:
        """Take up what was said meanwhile, as far as the settings ask for it."""
        synced = SyncResult()

        async def follow() -> None:
            index = await self._open.index()
            generations = await self._open.thread.run(
                lambda: [g for g in (index.live, index.notes.building()) if g], urgent=False
            )
            await self._indexer.follow_sessions(index, generations, synced)

        async with self._syncing:
            await self._open.recovering(follow)
        if synced.changed and self.embedder is not None:
            await self._fill_vectors()

    def _try_again_later(self, seconds: float) -> None:
        """Go on making vectors once the embedder may be asked again; nobody else would, until the next note is written."""
        if self._started and (self._retrying is None or self._retrying.done()):
            self._retrying = self._in_background(self._after(max(seconds, _LOOK_AGAIN_SECONDS)))

    async def _after(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._retrying = None
        await self._fill_vectors()

    async def _sync_quietly(self) -> None:
        try:
            await self.sync()
        except MemoryTrouble as trouble:
            self._tell(f"{trouble} {trouble.hint}".strip())

    async def _load_vectors(self, index: Index) -> None:
        """Bring the vectors into RAM, where they are searched several times faster; a part at a time, behind all searches."""
        await self._open.run_until_done(lambda: index.vectors.load_slice(index.live))

    def _index_was_renewed(self) -> None:
        self._dirty = True
        self.sync_soon()

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
            hint = error.hint if isinstance(error, MemoryTrouble) else "homebody memory index"
            self._tell(f"Memory: {error} {hint}".strip())
