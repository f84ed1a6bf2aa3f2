"""The workspace folder of an agent: its templates, and the files that sessions are given."""

from __future__ import annotations

import contextlib
import importlib.resources
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import date
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from msgspec import Struct

from agent.errors import WorkspaceFileError, WorkspaceFileNotFound
from agent.shared_reads import SharedReads
from agent.tools.untrusted_files import UntrustedFiles
from agent.tools.workspace_sandbox import Closed, Stamp, WorkspaceSandbox
from memory.audience import OWNER, Audience
from memory.errors import MemoryUnreadable
from memory.notes.note_reader import decode

PROMPT_FILES = ("AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md")
"""What every turn is given, in this order."""
TASK_FILES = frozenset({"AGENTS.md", "TOOLS.md"})
"""What of it a sub-agent is given."""
HEARTBEAT = "HEARTBEAT.md"
RITUAL = "BOOTSTRAP.md"
LONG_TERM = "MEMORY.md"
NOT_GIVEN = "[not given: "
"""What stands in place of a file that cannot be read, before the reason."""
_PLACES = {name: PurePosixPath(name) for name in (*PROMPT_FILES, HEARTBEAT, RITUAL)}
_RITUAL_FILLS = ("IDENTITY.md", "USER.md")
_RITUAL_OVER = "done"
_MOST_KNOWN = 64
"""Files whose text is kept: each day has another note, for each person and group."""
_HINT = "set agents.defaults.workspace to a folder that you may write to"


class WorkspaceFile(Struct, frozen=True):
    """A workspace file as a session is given it. ``text`` is None when it is missing, and says why when it cannot be read."""

    name: str
    text: str | None


class Workspace:
    """One agent's folder. It is created when it is missing. Its path may be a symlink, which is resolved once, here.

    A file that did not change since the last read costs one stat call. All methods block. Raises WorkspaceFileError where the folder
    cannot be used at all. ``closed`` is that of ``WorkspaceSandbox``. ``untrusted`` tells which of its files hold untrusted text.
    ``reads`` runs what blocks for sessions that begin at the same time.
    """

    def __init__(
        self, root: Path, closed: Closed = frozenset[tuple[int, int]], untrusted: UntrustedFiles | None = None
    ) -> None:
        if root.is_symlink() and not root.exists():  # a disk that is not mounted must not look like a new home
            raise WorkspaceFileError(f"the workspace {root} is a broken link", hint="mount or restore its target")
        self.root = Path(os.path.realpath(root))
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError as error:
            raise WorkspaceFileError(f"the workspace {root} is a file, not a folder", hint=_HINT) from error
        except OSError as error:
            raise WorkspaceFileError(f"the workspace {root} cannot be made: {error.strerror}", hint=_HINT) from error
        self.sandbox = WorkspaceSandbox(self.root, closed)
        self.untrusted = untrusted or UntrustedFiles()
        self.reads = SharedReads()
        self._known: OrderedDict[PurePosixPath, tuple[Stamp, str]] = OrderedDict()
        self._prompt_files: dict[tuple[str, bool], tuple[tuple[object, ...], tuple[WorkspaceFile, ...]]] = {}
        """What was given last, by kind of audience and with or without HEARTBEAT.md, and what it was made of."""

    def seed(self, templates: Traversable) -> tuple[str, ...]:
        """Put in place what is missing, and return its paths. What stands there is never touched, whatever its case or content.

        The first-run ritual is only given to a workspace that has neither an IDENTITY.md nor a USER.md; it is written first, so
        that a start that is interrupted does not lose it. Two may do it at once.

        Raises WorkspaceFileError when something is missing and cannot be written.
        """
        new = not any(self._exists(PurePosixPath(name)) for name in _RITUAL_FILLS)
        made = []
        for path, template in sorted(
            _markdown(templates, PurePosixPath()), key=lambda found: (found[0].name != RITUAL, found[0])
        ):
            if self._exists(path) or (path.name == RITUAL and not new):
                continue
            try:
                self.sandbox.create(path, template.read_bytes())
            except WorkspaceFileError:
                if not self._exists(path):
                    raise
            else:
                made.append(str(path))
        return tuple(made)

    def bootstrap_files(self, audience: Audience = OWNER, *, heartbeat: bool = False) -> tuple[WorkspaceFile, ...]:
        """Give the files that stand in every prompt, in their order: those that ``audience`` is given.

        Lines that were written while untrusted text was in view are left out.
        HEARTBEAT.md comes along in heartbeat turns; BOOTSTRAP.md for the owner alone and until the ritual is over: one that
        says nothing but DONE is removed here.
        """
        names = (*PROMPT_FILES, HEARTBEAT, RITUAL) if heartbeat else (*PROMPT_FILES, RITUAL)
        stamps = self.sandbox.stamps(names)
        commands = self.untrusted.unfinished
        settled = len(stamps) == len(names) and (commands is None or not commands.running)
        state, wanted = (stamps, self.untrusted.changes), (audience.kind, heartbeat)
        known = self._prompt_files.get(wanted)
        if settled and known is not None and known[0] == state:
            return known[1]
        seen = [name for name in names[:-1] if audience.is_given(name)]
        files = [WorkspaceFile(name, self._given(name, self._text_now(name, stamps))) for name in seen]
        ritual = self._ritual(stamps) if audience.kind == "owner" else None
        given = (*files, WorkspaceFile(RITUAL, ritual)) if ritual is not None else tuple(files)
        if settled:
            self._prompt_files[wanted] = state, given
        return given

    def _given(self, name: str, text: str | None) -> str | None:
        """Return a file without the lines that were written while untrusted text was in view; what is left says where they are."""
        kept, sources = self.untrusted.trusted(_PLACES[name], text or "")
        if not text or not sources:
            return text
        return f"{kept.rstrip()}\n[left out: lines that were written with untrusted text in view; read {name} if they matter]".lstrip()

    def memory_file(self) -> str | None:
        """Give the long-term memory, also where it is called memory.md; for the owner's private session only."""
        text = self._text(PurePosixPath(LONG_TERM))
        return self._text(PurePosixPath(LONG_TERM.casefold())) if text is None else text

    def daily(self, audience: Audience, day: date) -> str | None:
        """Give an audience's note of a day (the owner's calendar), or None when there is none."""
        return self._text(audience.daily_note(day))

    def note(self, path: PurePosixPath) -> str | None:
        """Give a note as it is, or None when there is none."""
        return self._text(path)

    def _ritual(self, stamps: Mapping[str, Stamp | None]) -> str | None:
        path = PurePosixPath(RITUAL)
        text = self._text_now(RITUAL, stamps)
        if text is None or text.strip(" \n\r\t.`*#").casefold() != _RITUAL_OVER:
            return self._given(RITUAL, text)
        with contextlib.suppress(
            WorkspaceFileError
        ):  # in a read-only workspace it stays, and is not given any more all the same
            self.sandbox.remove(path, expected=self.sandbox.read(path).data)
        return None

    def _text_now(self, name: str, stamps: Mapping[str, Stamp | None]) -> str | None:
        """Give a file whose state was looked at just now."""
        path = _PLACES[name]
        if name in stamps and stamps[name] is None:
            self._known.pop(path, None)
            return None
        return self._known_or_read(path, stamps.get(name))

    def _text(self, path: PurePosixPath) -> str | None:
        return self._known_or_read(path, self.sandbox.stamp(path))

    def _known_or_read(self, path: PurePosixPath, stamp: Stamp | None) -> str | None:
        """Give a file that is in the state ``stamp``; None for one of which that is not known. Nearly always it is as it was."""
        known = self._known.get(path)
        if stamp is not None and known is not None and known[0] == stamp:
            with contextlib.suppress(KeyError):  # another thread let go of it
                self._known.move_to_end(path)
            return known[1]
        try:
            content = self.sandbox.read(path)
            text = decode(content.data, str(path)).replace("\0", "\ufffd")
        except WorkspaceFileNotFound:
            self._known.pop(path, None)
            return None
        except (WorkspaceFileError, MemoryUnreadable) as trouble:
            return f"{NOT_GIVEN}{trouble}]"
        self._known[path] = (content.stamp, text)
        while len(self._known) > _MOST_KNOWN:
            with contextlib.suppress(KeyError):  # another thread did
                self._known.popitem(last=False)
        return text

    def _exists(self, path: PurePosixPath) -> bool:
        if self.sandbox.kind(path) is not None:
            return True
        if self.sandbox.kind(path.parent) is None:
            return False
        return any(entry.name.casefold() == path.name.casefold() for entry in self.sandbox.scan(path.parent))


def workspace_templates() -> Traversable:
    """Find the templates that come with Homebody: the folder beside this package, in a checkout and in an installed wheel."""
    beside = Path(__file__).resolve().parents[2] / "workspace_templates"
    return beside if beside.is_dir() else importlib.resources.files("workspace_templates")


def _markdown(folder: Traversable, at: PurePosixPath) -> Iterator[tuple[PurePosixPath, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _markdown(entry, at / entry.name)
        elif entry.name.endswith(".md"):
            yield at / entry.name, entry
