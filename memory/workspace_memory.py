"""The memory of one agent: searches, reads and versions the Markdown notes of its workspace."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from memory.audience import Audience
from memory.embedding.batch.protocol import LARGE, BatchService
from memory.embedding.identity import identity_of
from memory.embedding.protocol import Embedder
from memory.errors import EmbeddingFailed, IndexBusy, MemoryUnreadable
from memory.indexing.index_sync import IndexSync
from memory.indexing.indexer import SyncProgress, SyncResult
from memory.notes.note_history import NoteHistory
from memory.notes.note_reader import export_notes, read_lines
from memory.notes.sources import HARD_LINK, UNREADABLE_FOLDER, NoteSources, audience_key, named, printable_name
from memory.notes.transcript_source import PREFIX, TranscriptFiles, Transcripts
from memory.notes.version_store import VersionStore
from memory.protocol import Author, Clock, Excerpt, Recorded, SearchAnswer
from memory.search.query_embedder import TIMEOUT_SECONDS, QueryEmbedder
from memory.settings import MemorySettings
from memory.store.index import Index
from memory.store.index_handle import IndexEngine, IndexHandle
from memory.store.sqlite.index_database import AllowedFeatures
from memory.store.sqlite.index_file import IndexFile

if TYPE_CHECKING:  # loaded with the first search
    from memory.search.retrieval import Query, Retrieval
    from memory.store.index_status import IndexStatus


class WorkspaceMemory:
    """Implements ``memory.protocol.Memory`` over a workspace folder and an index file.

    The constructor does no work: the index file is opened, and SQLite loaded, on the first search or sync. ``store`` is the
    path of the index file and may contain ``{agentId}``. ``zone`` is the owner's time zone, used for relative dates in queries.
    ``tell`` takes messages for the owner (a damaged index was replaced, the embedder failed). ``batch`` is used when at least
    ``batch_from`` passages have no vector. ``template`` holds the lines of a new workspace, which are not indexed. Transcripts in
    ``sessions`` are searched if ``own_session`` accepts their key and readers. A search waits ``query_timeout`` seconds for the
    vector of its query, then uses keywords only. ``journal`` names files in the root of the workspace that are no notes, and whose
    changes are recorded, too. ``shared`` are files and folders of the workspace that everybody may read: their notes are found by all.
    ``recorded`` is that of ``NoteHistory``.
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
        versions: VersionStore | None = None,
        sessions: Path | Transcripts | None = None,
        own_session: Callable[[str, str], bool] = lambda _key, _readers: False,
        zone: tzinfo = UTC,
        tell: Callable[[str], None] = lambda _: None,
        parts: AllowedFeatures | None = None,
        engine: IndexEngine | None = None,
        batch_from: int = LARGE,
        template: frozenset[str] = frozenset(),
        query_timeout: float = TIMEOUT_SECONDS,
        journal: Sequence[str] = (),
        shared: Sequence[str] = (),
        recorded: Recorded | None = None,
    ) -> None:
        self.agent = agent
        self.settings = settings
        self.sources = NoteSources(workspace, settings.extra_paths, shared=shared)
        self.store = store.with_name(store.name.replace("{agentId}", agent))
        self._clock = clock
        self._zone = zone
        self._tell = tell
        self.embedder = embedder
        self._open = IndexHandle(
            engine or IndexFile(self.store, settings, parts),
            clock,
            agent=agent,
            tell=tell,
            on_reopened=self._index_was_reopened,
        )
        self.history = NoteHistory(
            versions or VersionStore(self.store.with_name(f"{self.store.stem}.history")),
            self.sources,
            clock,
            journal,
            **({"recorded": recorded} if recorded is not None else {}),
        )
        self._sync = IndexSync(
            self.sources,
            self._open,
            settings,
            clock,
            embedder=embedder,
            batch=batch,
            batch_from=batch_from,
            changed=self.history.noticed,
            began=self.history.look,
            sessions=TranscriptFiles(sessions) if isinstance(sessions, Path) else sessions,
            own_session=own_session,
            template=template,
            tell=tell,
        )
        self._queries = QueryEmbedder(clock, query_timeout=query_timeout)

    def start(self) -> None:
        """Watch the notes, sync at intervals and, if ``sync.onSessionStart`` is set, sync once in the background."""
        self._sync.start()

    def session_began(self) -> None:
        """Look for changes, if ``sync.onSessionStart`` is set."""
        if self.settings.sync.on_session_start and self._sync.dirty:
            self._sync.sync_soon()

    async def search(
        self, query: str, *, audience: Audience, max_results: int | None = None, min_score: float | None = None
    ) -> SearchAnswer:
        """Find passages. Never waits for a sync; works without an embedder."""
        recalled, notes = await self.retrieve(query, audience=audience, max_results=max_results, min_score=min_score)
        stale = self._sync.dirty or self._sync.running
        if stale and self.settings.sync.on_search:
            self._sync.sync_soon()
        if stale and self._sync.busy_since is not None:
            notes.append("Another process is writing to the index; notes that changed meanwhile are not in these results yet.")
        elif stale:
            notes.append("Notes have changed since they were indexed; results may be stale.")
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
            nearest=recalled.nearest,
        )

    async def retrieve(
        self,
        query: str,
        *,
        audience: Audience,
        max_results: int | None = None,
        min_score: float | None = None,
        by_words: bool = False,
    ) -> tuple[Retrieval, list[str]]:
        """Search, and return the ranked candidates with the results, and notes for the reader.

        ``by_words``: by words alone, so that no embedder is asked.
        """
        from memory.search.retrieval import retrieve

        index = await self._open.run(lambda index: index)
        notes: list[str] = []
        vector = None if by_words else await self._query_vector(query, notes)
        question = self._question(query, audience, vector, max_results, min_score)
        recalled = await self._open.run(lambda index: retrieve(index, question, self.settings.query))
        if recalled.floored:
            near = ["What is nearest to it in meaning may be about something else."] if recalled.nearest else []
            notes[:0] = ["Nothing in memory is relevant to this question.", *near]
        if vector is not None and recalled.scan == "vec0":
            self._sync.load_vectors_soon(index)
        return recalled, notes

    def _left_out(self, audience: Audience) -> list[str]:
        """Name the notes and folders of an audience that cannot be read; notes of such a folder that were indexed before are found."""
        unreadable = {path: why for path, why in self._sync.unreadable.items() if self.sources.may_see(audience, path)}
        if not unreadable:
            return []
        self._sync.sync_soon()  # they may be readable by now: the watcher does not see changed permissions
        folders = sorted(path for path, why in unreadable.items() if why.startswith(UNREADABLE_FOLDER))
        linked = sorted(path for path, why in unreadable.items() if HARD_LINK in why)
        notes = sorted(unreadable.keys() - {*folders, *linked})
        missing = (
            (notes, "cannot be read and is not in these results"),
            (folders, "cannot be read, so notes there are missing or as they were before"),
        )
        told = [f"{named(paths)} {what} ({unreadable[paths[0]]})." for paths, what in missing if paths]
        if linked:
            told.append(
                f"{named(linked)}: not read and not in these results, because of a second name (a hard link, as a copy by `cp -al` "
                "makes). What mends it: homebody doctor."
            )
        return told

    async def _query_vector(self, query: str, notes: list[str]) -> list[float] | None:
        """Return the vector of a query, or None with a sentence in ``notes`` that says why only keywords are searched."""
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
            self._sync.sync_soon()
        if vector is not None and len(vector) != dims:
            notes.append(
                f"{embedder.model} now returns vectors of another length than those of the notes; these results are by keyword only."
            )
            self._sync.measure_soon()
            return None
        return vector

    def _why_without_vectors(self, index: Index) -> str:
        """Say why results are by keyword only although there is an embedder. Runs on the index thread."""
        trouble = self._sync.trouble
        if index.features.vectors == "none":
            reason = f"Vectors cannot be stored ({index.features.note})"
        elif trouble:
            reason = f"Not all notes have vectors ({trouble.rstrip('.')})"
        elif self._sync.started or self._sync.running:
            reason = "Vectors are still being made"
        else:
            reason = "Not all notes have vectors yet (run `homebody memory index`)"
        return f"{reason}; these results are by keyword only."

    async def get(self, path: str, *, audience: Audience, from_line: int = 1, lines: int | None = None) -> Excerpt:
        """Read lines of one memory file."""
        name = str(PurePosixPath(path))
        key = audience_key(audience)
        if not self.sources.may_see(audience, name):
            raise MemoryUnreadable(
                f"there is no note {path!r} for this conversation", hint="memory_search lists the available notes"
            )
        try:
            return await asyncio.to_thread(read_lines, self.sources, name, from_line=from_line, lines=lines)
        except MemoryUnreadable as trouble:
            if key is None and name.startswith(PREFIX):
                raise MemoryUnreadable(
                    f"{path} is a conversation; memory_search returns passages of it", hint="search for what you need"
                ) from trouble
            if key is None:
                raise
            hint = "memory_search lists the available notes"
            raise MemoryUnreadable(f"there is no note {path!r} for this conversation", hint=hint) from trouble

    async def writing(self, path: str) -> None:
        """Record the current text of ``path`` as the owner's, before a tool changes it."""
        name = str(PurePosixPath(path))
        if self.history.keeps(name):
            await self.history.writing(name)

    async def wrote(self, path: str, *, by: Author | None = None) -> None:
        """Record a tool's change of ``path``. Keyword search finds the new text on return; vectors are made in the background.

        Paths outside of memory are ignored. ``by`` is recorded as the author; the agent if omitted.
        """
        name = str(PurePosixPath(path))
        if not self.history.keeps(name):
            return
        try:
            await self.history.wrote(name, by or Author("agent", self.agent))
        except OSError as error:
            self._tell(f"The history of {name} cannot be written: {error.strerror or error}")
        if self.sources.place(name) is not None:
            await self._sync.index_note(name)

    async def sync(self, progress: SyncProgress | None = None, *, vectors: bool = True) -> SyncResult:
        """Index what changed, then make the vectors that are missing.

        Raises:
            MemoryTrouble: the index cannot be written; searches go on with what it holds.
        """
        return await self._sync.sync(progress, vectors=vectors)

    async def sync_if_free(self, progress: SyncProgress | None = None, *, vectors: bool = True) -> None:
        """Sync, unless another process is writing to the index: searches say so then."""
        with contextlib.suppress(IndexBusy):
            await self._sync.sync(progress, vectors=vectors)

    async def status(self, *, deep: bool = False) -> IndexStatus:
        """Return the state of the index, compared with the files. ``deep`` also asks the embedder for a vector."""
        from memory.store.index_status import read_status

        found = await asyncio.to_thread(self.sources.walk)
        embedder = self.embedder
        who = identity_of(embedder) if embedder else None
        status = await self._open.run(lambda index: read_status(index, who, found))
        status.agent, status.workspace = self.agent, printable_name(str(self.sources.workspace))
        status.provider = embedder.provider if embedder else "none"
        status.model = embedder.model if embedder else "bm25"
        status.fallback = getattr(embedder, "stepped_in", None)
        status.trouble = self._sync.trouble or getattr(embedder, "trouble", "")
        status.dirty = bool(status.changed_files)
        if deep and embedder is not None:
            try:
                await embedder.embed(["Does this embedder answer?"], purpose="query")
            except EmbeddingFailed as failure:
                status.probe = f"{failure} {failure.hint}".strip()
            else:
                status.probe = "ok"
        return status

    async def explain(
        self, query: str, *, audience: Audience, line: str | None = None, by_words: bool = False
    ) -> dict[str, object]:
        """Explain the ranking of a query's results and, for ``line`` ("path:number"), why it was or was not among them.

        ``by_words``: see ``retrieve``.
        """
        from memory.search.retrieval import explain_line, explain_search, hit_facts

        recalled, notes = await self.retrieve(query, audience=audience, by_words=by_words)
        if by_words and self.embedder is not None:
            notes.append("A viewer searches by words alone: a search by meaning asks the embedder with the owner's key.")
        account: dict[str, object] = {"query": query, "notes": notes, **explain_search(recalled, self.settings.query)}
        account["results"] = [hit_facts(hit) for hit in recalled.hits]
        if line is not None:
            path, _, number = line.rpartition(":")
            if not path or not number.isdigit():
                raise MemoryUnreadable(f"{line!r} is not a line of a note", hint="write it as memory/2026-01-31.md:12")
            await self.get(path, audience=audience, from_line=int(number), lines=1)
            account["line"] = await self._open.run(lambda index: explain_line(index, recalled, path, int(number)))
        return account

    async def forget_stamps(self) -> None:
        """Make the next sync read every file again, and embed again every text that the embedder refused."""
        await self._sync.forget_stamps()

    async def leave_no_trace(self) -> None:
        """Leave nothing of texts that were removed in the files of the index.

        Raises:
            IndexBroken: the file cannot be written.
        """
        await self._open.run(lambda index: index.leave_no_trace(), limited=False)

    async def export(self, target: Path) -> int:
        """Write all notes to a zip file, under the names that search shows; return their number."""
        return await asyncio.to_thread(export_notes, self.sources, target)

    async def close(self) -> None:
        """Stop background work and close the index and the embedder."""
        await self._sync.close()
        await self._queries.close()
        await self._open.close()
        if self.embedder is not None:
            await self.embedder.close()

    def _question(
        self, query: str, audience: Audience, vector: list[float] | None, most: int | None, min_score: float | None
    ) -> Query:
        today = self._clock.now().astimezone(self._zone).date()
        key = audience_key(audience)
        from memory.search.retrieval import build_query
        from memory.text.figure_dates import order_in

        return build_query(
            query,
            self.settings.query,
            today=today,
            order=order_in(self._zone),
            audience=key,
            may_see=partial(self.sources.may_see, audience),
            vector=vector,
            most=most,
            min_score=min_score,
        )

    def _index_was_reopened(self) -> None:
        self._sync.index_was_reopened()
