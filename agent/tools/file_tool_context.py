"""What the file tools of one agent share: sandbox, read tracker, the audience's view, untrusted files, and notice of changed notes."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from agent.errors import PathNotAllowed, WorkspaceFileError
from agent.taint import merged
from agent.tools.documents import DocumentReader
from agent.tools.os_errors import no_such_file
from agent.tools.packed_marks import NAME
from agent.tools.path_rules import workspace_path
from agent.tools.protocol import Act, ToolContext
from agent.tools.read_tracker import ReadTracker
from agent.tools.untrusted_files import UntrustedFiles
from agent.tools.workspace_sandbox import Entry, WorkspaceSandbox
from memory.audience import SHARED, Audience
from memory.errors import MemoryTrouble
from memory.notes.sources import is_received
from memory.protocol import Author, Memory, Recorded

log = logging.getLogger(__name__)

STANDING_FILES = frozenset(
    {"memory.md", "agents.md", "soul.md", "identity.md", "user.md", "tools.md", "heartbeat.md", "bootstrap.md"}
)
"""Files that conversations are given as instructions or lasting memory. To change one is an act that a gate judges."""
_HISTORY = ".git"
_OTHERS = {("memory", "groups"), ("memory", "peers")}
_ANYBODY = Audience("peer", "anybody")


@dataclass(frozen=True, kw_only=True)
class FileToolContext:
    """Shared by the file tools of one agent. ``shared`` are the paths that groups and guests may read.

    ``untrusted`` tells which files hold untrusted text, and is told which are written while such text is in view. ``documents`` reads
    PDF and Office files; without it they are no text. ``recorded`` is told of each changed file, also of those that are no notes.
    """

    sandbox: WorkspaceSandbox
    memory: Memory | None = None
    agent: str = ""
    shared: tuple[str, ...] = SHARED
    readings: ReadTracker = field(default_factory=ReadTracker)
    untrusted: UntrustedFiles = field(default_factory=UntrustedFiles)
    documents: DocumentReader | None = None
    recorded: Recorded | None = None

    def readable(self, raw: str, audience: Audience) -> PurePosixPath:
        """Give the path of a file or folder that ``audience`` may see; what it may not see is missing. Raises WorkspaceFileError."""
        path = workspace_path(raw)
        if not self.visible(path, audience):
            raise no_such_file(path)
        return path

    def visible(self, path: PurePosixPath, audience: Audience) -> bool:
        """Say whether an audience may see a path.

        The folders on the way to its own notes and to what is shared count as well, with nothing else in them.
        """
        if _history(path):
            return False
        on_the_way = path in audience.folder.parents or any(path in PurePosixPath(one).parents for one in self.shared)
        return on_the_way or audience.may_see(path, self.shared)

    def changeable(self, raw: str, audience: Audience) -> PurePosixPath:
        """Give the path of a file that ``audience`` may change: the owner any, everybody else only notes of their own.

        A file that all sessions are given, such as AGENTS.md, is thus never changed from a group. Decided without a look at
        the disk, so that a refusal tells nothing of what is there. Raises WorkspaceFileError.
        """
        path = workspace_path(raw)
        if not path.parts:
            raise PathNotAllowed("path: name a file, not the workspace itself")
        if _history(path):
            raise PathNotAllowed(f"{path}: the version history is the owner's and is not changed by tools")
        if audience.kind != "owner" and path.parts[: len(audience.folder.parts)] != audience.folder.parts:
            raise PathNotAllowed(f"{path}: in this conversation only files in {audience.folder}/ can be written")
        return path

    def standing(
        self, paths: Iterable[str], context: ToolContext, details: Callable[[], str], *, does: str = "change"
    ) -> Act | None:
        """Return the act of changing ``paths`` where one of them is a file that conversations are given.

        With untrusted text in view also where others may read one of them: writing it publishes what the text asked for. For a sub-agent
        also where it is a note.
        ``details`` returns what would be written, and is called only for an act; ``does`` is what happens to the files. Blocks.
        """
        from agent.tools.change_details import bounded

        found: list[PurePosixPath] = []
        for raw in paths:
            with contextlib.suppress(WorkspaceFileError):  # the tool refuses the path when it runs
                path = self.changeable(raw, context.audience)
                published = context.taint and self.read_by_others(path, context.audience)
                if is_standing(path) or published or (context.task and is_note(path)):
                    found.append(path)
        if not found:
            return None
        found.sort(key=lambda path: not is_standing(path))
        shown = ", ".join(str(path) for path in dict.fromkeys(found))
        return Act(kind="write", summary=f"{does} {shown}", path=str(found[0]), details=bounded(details()))

    def read_by_others(self, path: PurePosixPath, audience: Audience) -> bool:
        """Say whether somebody besides the owner and ``audience`` may read a file: what is shared, and notes of groups and guests."""
        if audience.kind != "owner" and path.parts[: len(audience.folder.parts)] == audience.folder.parts:
            return False
        parts = tuple(part.casefold() for part in path.parts)
        return parts[:2] in _OTHERS or _ANYBODY.may_see(path, self.shared)

    def record(self, path: PurePosixPath, before: bytes | None, after: bytes, context: ToolContext) -> None:
        """Record which lines are written while untrusted text is in view; call it before they are. ``before`` is None for a new file.

        What the owner approved is trusted. Raises WorkspaceFileError. Blocks.
        """
        trusted = not context.taint or context.approved
        if trusted and not self.untrusted.unfinished:
            return
        known = set((before or b"").decode("utf-8", "replace").splitlines())
        fresh = [line for line in after.decode("utf-8", "replace").splitlines() if line not in known]
        if trusted:
            self.untrusted.own_lines(path, fresh)
            return
        named = before is None and path != context.audience.daily_note(context.now.date())
        try:
            self.untrusted.mark(path, "\n".join(fresh), context.taint, named=named)
            if named:
                made = [one for one in path.parents if one.parts and self.sandbox.kind(one) is None]
                self.untrusted.add([(one, {NAME: merged(context.taint)}) for one in made])
        except OSError as error:
            raise WorkspaceFileError(
                f"{path} was not written: the record of untrusted text cannot be kept ({error.strerror or error})"
            ) from error

    async def changing(self, path: PurePosixPath) -> None:
        """Tell the memory that a file is about to change, so that what its owner did by hand before is not taken for ours."""
        if self.memory is not None and (is_note(path) or is_standing(path)):
            await self.memory.writing(str(path))

    async def changed(self, path: PurePosixPath, context: ToolContext, by: Author | None = None) -> None:
        """Tell the memory of a changed note or file of prompts, and in whose name it was changed: the agent's if omitted."""
        who = by or Author("agent", self.agent, context.session, context.turn)
        if self.recorded is not None:
            self.recorded(str(path), who, None)
        if self.memory is None or not (is_note(path) or is_standing(path)):
            return
        try:
            await self.memory.wrote(str(path), by=who)
        except MemoryTrouble as trouble:  # the note itself is safe; the index catches up at its next sync
            log.warning("the index did not take in %s yet: %s", path, trouble)


def is_standing(path: PurePosixPath) -> bool:
    """Say whether a path is a file that conversations are given as instructions or lasting memory."""
    return len(path.parts) == 1 and path.name.casefold() in STANDING_FILES


def is_note(path: PurePosixPath) -> bool:
    """Say whether a path is part of the searchable memory."""
    first = path.parts[0].casefold()
    if len(path.parts) == 1:
        return first in {"memory.md", "todo.md"}
    return first == "memory" and path.suffix.casefold() == ".md" and not is_received(path.parts)


def _history(path: PurePosixPath) -> bool:
    return any(part.casefold() == _HISTORY for part in path.parts)


def walk(
    access: FileToolContext, start: PurePosixPath, audience: Audience, *, depth: int
) -> Iterator[tuple[PurePosixPath, Entry]]:
    """Yield what lies at or below ``start``, by name, ``depth`` folders deep; a folder comes before what is in it.

    Raises WorkspaceFileNotFound when nothing stands at ``start``; a folder further down that cannot be read is passed over.
    """
    kind = access.sandbox.kind(start)
    if kind is None:
        raise no_such_file(start)
    if kind == "folder":
        yield from _below(access, start, audience, depth)
        return
    stamp = access.sandbox.stamp(start)
    yield start, Entry(start.name, kind, stamp.size if stamp else 0)


def _below(
    access: FileToolContext, folder: PurePosixPath, audience: Audience, depth: int
) -> Iterator[tuple[PurePosixPath, Entry]]:
    for entry in access.sandbox.scan(folder):
        path = folder / entry.name
        if not access.visible(path, audience):
            continue
        yield path, entry
        if entry.kind == "folder" and depth > 1:
            with contextlib.suppress(WorkspaceFileError):  # removed meanwhile, no permission, or a link was put in its place
                yield from _below(access, path, audience, depth - 1)
