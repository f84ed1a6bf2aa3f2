"""History of the notes: records who changed which note, lists the changes and undoes them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace

from memory.audience import Audience
from memory.errors import MemoryConflict, MemoryTrouble, MemoryUnreadable
from memory.notes import note_file
from memory.notes.note_file import NoteChanged
from memory.notes.note_reader import NoteContent, read_note
from memory.notes.sources import NoteSources, Stamp
from memory.notes.version_store import BY_OWNER, Version, VersionStore, undo_author, undone_by
from memory.protocol import Author, Clock, Recorded

if TYPE_CHECKING:
    from memory.notes.tidying import Proposal

Made = TypeVar("Made")
_ATTEMPTS: Final = 5
"""How often a change is tried whose notes others change at the same time."""


def _unheard(_path: str, _by: Author, _text: str | None) -> None:
    """Tell nobody."""


class NoteHistory:
    """Records every change of a note. A change that no tool reported is recorded as the owner's.

    ``others`` are files of the workspace that are no notes, named in its root, and whose changes are recorded, too. ``recorded`` is told of
    each change in the thread that records it: the file, who changed it, and its text.
    """

    def __init__(
        self,
        versions: VersionStore,
        sources: NoteSources,
        clock: Clock,
        others: Sequence[str] = (),
        *,
        recorded: Recorded = _unheard,
    ) -> None:
        self.versions = versions
        self._sources = sources
        self._clock = clock
        self._recorded = recorded
        self._being_written: set[str] = set()
        self._others = NoteSources(sources.workspace, own=tuple(others))
        self._known: dict[str, Stamp | None] = {}

    def keeps(self, path: str) -> bool:
        """Return whether changes of a file are recorded."""
        return self._of(path).place(path) is not None

    async def look(self) -> None:
        """Record changes of ``others`` that nobody reported. A history that cannot be written is passed over."""
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self._look)

    async def writing(self, path: str) -> None:
        """Record the current text of ``path`` as the owner's, before a tool changes it."""
        self._being_written.add(path)
        await asyncio.to_thread(self._record, path, BY_OWNER)

    async def wrote(self, path: str, by: Author) -> None:
        """Record a tool's change of ``path``."""
        try:
            await asyncio.to_thread(self._record, path, by)
        finally:
            self._being_written.discard(path)

    async def noticed(self, paths: Sequence[str]) -> None:
        """Record changes found by the index, except of files that a tool is changing now."""
        by_hand = [path for path in paths if path not in self._being_written]
        await asyncio.to_thread(lambda: [self._record(path, BY_OWNER) for path in by_hand])

    async def refresh(self, path: str) -> None:
        """Record the current text of ``path``, so that one which a loss of power took from the history is in it again."""
        await asyncio.to_thread(self._record, path, BY_OWNER)

    async def log(self, *, audience: Audience, path: str | None = None) -> list[Version]:
        """Return the changes that this audience may see, newest first."""
        from pathlib import PurePosixPath

        from memory.notes.sources import audience_key, audience_of

        key = audience_key(audience)
        versions = await asyncio.to_thread(self.versions.versions, path)
        return [v for v in versions if audience.may_see(PurePosixPath(v.path)) and (key is None or audience_of(v.path) == key)]

    async def accept(self, proposal: Proposal, *, by: Author) -> list[Version]:
        """Carry out a proposal, and return a version for each note that it changes.

        Raises:
            MemoryTrouble: one of its lines was changed meanwhile, or a note cannot be written. Nothing is changed then.
        """

        def work() -> list[Version]:
            with self.versions.exclusively():
                return _again(lambda: self._accept(proposal, by))

        return await asyncio.to_thread(work)

    def _accept(self, proposal: Proposal, by: Author) -> list[Version]:
        from memory.notes.tidying import applied, not_plain

        paths = dict.fromkeys(edit.path for edit in proposal.edits)
        for path in paths:
            self._record(path, BY_OWNER)
        before = {path: self._content(path) for path in paths}
        for path, content in before.items():
            if content is not None and (reason := not_plain(content)):
                raise MemoryTrouble(f"{path} is not changed: {reason}", hint="homebody memory tidy --again")
        changed = applied(proposal, {path: content.text if content else None for path, content in before.items()})
        written: list[str] = []
        try:
            for path, text in changed.items():
                self._write(path, text, before[path])
                written.append(path)
        except (MemoryTrouble, NoteChanged):
            for path in written:
                content = before[path]
                with contextlib.suppress(NoteChanged):  # it stays as somebody else has just made it, with the change
                    self._put(path, content.text if content else None, hashlib.sha256(_bytes(changed[path])).digest())
            raise
        if len(changed) > 1:
            by = replace(by, turn=proposal.id)  # so that it can be told which versions belong together
        return [version for path in paths if (version := self._record(path, by)) is not None]

    async def rest_of(self, name: int | str) -> list[Version]:
        """Return the other versions of the proposal that a version belongs to, without those that are undone."""

        def work() -> list[Version]:
            version = self.versions.version(name)
            if version.author.kind != BY_OWNER.kind or not version.author.turn:
                return []
            versions = self.versions.versions()
            undone = undone_by(versions)
            same = (one for one in versions if one.author == version.author and one.path != version.path)
            return [one for one in same if one.name not in undone]

        return await asyncio.to_thread(work)

    async def undo(self, name: int | str) -> Version:
        """Undo one change (named as in ``VersionStore.version``), keep later changes, and return the version of the undo.

        Raises:
            MemoryConflict: it is undone already, or its lines were changed again later.
            MemoryTrouble: the name does not identify one change, or the note cannot be written.
        """

        def work() -> Version:
            with self.versions.exclusively():
                return _again(lambda: self._undo(self.versions.version(name)))

        return await asyncio.to_thread(work)

    def _undo(self, version: Version) -> Version:
        self._record(version.path, BY_OWNER)
        if (by := undone_by(self.versions.versions(version.path)).get(version.name)) is not None:
            raise MemoryConflict(
                f"version {version.name} of {version.path} was undone already, by version {by.name}",
                hint=f"To have the change back: homebody memory undo {by.name}",
            )
        content = self._content(version.path)
        now = content.text if content else None
        wanted = self.versions.undone(version, now)
        if wanted == now:
            raise MemoryConflict(
                f"version {version.name} of {version.path} is already undone", hint=f"homebody memory log {version.path}"
            )
        self._write(version.path, wanted, content)
        made = self._record(version.path, undo_author(version))
        assert made is not None
        return made

    def _write(self, path: str, text: str | None, present: NoteContent | None) -> None:
        self._put(path, text, present.digest if present else None)

    def _put(self, path: str, text: str | None, digest: bytes | None) -> None:
        placed = self._of(path).place(path)
        if placed is None:
            raise MemoryUnreadable(f"{path} is no longer a note of this memory", hint="homebody memory status")
        try:
            note_file.put(placed[0] / placed[1], None if text is None else _bytes(text), expected=digest)
        except OSError as error:
            raise MemoryTrouble(f"{path} cannot be written: {error.strerror}", hint=f"ls -l {path}") from error

    def _record(self, path: str, by: Author) -> Version | None:
        with self.versions.exclusively():  # another process must not record a newer text between reading and recording
            try:
                text = self._text(path)
            except MemoryUnreadable:
                return None  # too long or not text: not indexed either
            version = self.versions.record(path, text, at=self._clock.now(), author=by)
        if version is not None:
            self._recorded(path, by, text)
        return version

    def _text(self, path: str) -> str | None:
        content = self._content(path)
        return content.text if content else None

    def _content(self, path: str) -> NoteContent | None:
        sources = self._of(path)
        return None if sources.stamp(path) is None else read_note(sources, path)

    def _of(self, path: str) -> NoteSources:
        return self._sources if self._sources.place(path) is not None else self._others

    def _look(self) -> None:
        for name in (name for root in self._others.roots for name in root.only):
            stamp = self._others.stamp(name)
            if (name not in self._known or stamp != self._known[name]) and name not in self._being_written:
                self._record(name, BY_OWNER)
                self._known[name] = stamp


def _again(change: Callable[[], Made]) -> Made:
    """Make a change anew as long as others change its notes meanwhile."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return change()
        except NoteChanged:
            continue
    try:
        return change()
    except NoteChanged as error:
        raise MemoryTrouble(
            f"{error} is being changed all the time, so this is not applied", hint="try again in a moment"
        ) from error


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
