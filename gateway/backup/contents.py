"""What belongs to a backup: everything in the home and in the workspaces, but for what is disposable or belongs to one machine.

The walk holds each folder open and follows no link, so that nobody who writes in a workspace can have other files of the machine copied.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from gateway.backup.age_encryption import KEY_NAME
from gateway.backup.manifest import HOME, WORKSPACE, check_path
from memory.audience import BEFORE_RESTORE

WORK: Final = "backup-work"
"""The folder below the state in which a backup is prepared."""
UNTRUSTED: Final = "untrusted.jsonl"
_SESSIONS: Final = "sessions.json"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where everything is. ``secret_files``: files with secrets, by absolute path; they are left out ``without_secrets``.

    ``apart``: folders that are in no backup: those that hold the backups.
    """

    home: Path
    profile: str
    workspaces: Mapping[str, Path]
    secret_files: frozenset[Path] = frozenset()
    without_secrets: bool = False
    apart: tuple[Path, ...] = ()


@dataclass
class Found:
    """What the walk came upon besides files: links, empty folders, and what is left out with the reason."""

    links: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Place:
    """A file to be copied: its path in the backup, and its name in a folder that is held open while it is looked at."""

    path: str
    folder: int
    name: str

    @contextmanager
    def opened(self) -> Iterator[int]:
        """Open it. Raises OSError; NotAPlainFile where it is none."""
        descriptor = os.open(self.name, _FILE, dir_fd=self.folder)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotAPlainFileError(self.path)
            yield descriptor
        finally:
            os.close(descriptor)


class NotAPlainFileError(OSError):
    """Raised when something else took the place of a file."""


def walk(sources: Sources, found: Found) -> Iterator[Place]:
    """Yield the files in the order in which they are copied; the ledger is not among them.

    Sessions come before transcripts, so that no session lacks its transcript; lists of untrusted lines come last, after the notes that they
    are about.
    """
    home = _Walk(sources, found, HOME, lambda parts: reason_in_home(parts) or _secret(sources, parts))
    yield from home.through(sources.home, lambda parts: parts[-1].startswith(_SESSIONS), quiet=True)
    yield from home.through(sources.home, lambda parts: not parts[-1].startswith(_SESSIONS) and parts[-1] != UNTRUSTED)
    done: dict[tuple[int, int], str] = {}
    for agent, folder in sources.workspaces.items():
        try:
            about = folder.stat()
        except OSError as error:
            found.left_out[f"{WORKSPACE}/{agent}"] = f"its folder {folder} cannot be read: {error.strerror}"
            continue
        if other := done.get((about.st_dev, about.st_ino)):
            found.left_out[f"{WORKSPACE}/{agent}"] = f"it is the same folder as that of {other}"
            continue
        done[about.st_dev, about.st_ino] = agent
        inside = _Walk(sources, found, f"{WORKSPACE}/{agent}", partial(_secret_below, sources, folder))
        yield from inside.through(folder, lambda _: True)
    yield from home.through(sources.home, lambda parts: parts[-1] == UNTRUSTED, quiet=True)


_LEFT_OUT: Final[tuple[tuple[str, str], ...]] = (
    (rf"{re.escape(KEY_NAME)}", "it is the key that opens this backup: keep it elsewhere"),
    (r"logs", "logs"),
    (rf"{BEFORE_RESTORE}[^/]+", "what was there before a restore"),
    (r"\.to-restore-[^/]+|(?:restore|migration)-unfinished\.json", "work in progress"),
    (r"models", "models that are downloaded again"),
    (r"memory/[^/]*\.sqlite(?:[-.][^/]*)?", "search index: it is built again"),
    (r"state/gateway\.(?:lock|sock)", "it belongs to the running process"),
    (rf"state/{WORK}(?:\.lock)?", "work in progress of a backup"),
    (r"state/(?:reserve|starts\.json)", "it belongs to this machine"),
    (r"state/ledger\.sqlite(?!$)(?!.*\.bad-)[^/]*", "the ledger is copied as a whole"),
    (r"gateways", "it belongs to one gateway of a cluster, which makes it again"),
    (r"agents/[^/]+/workspace", "the repository of a workspace, which is made again"),
    (r"agents/[^/]+/commands", "commands that run on this machine"),
    (r"(?:.*/)?\.[^/]+\.\d+\.tmp", "work in progress"),
)
"""Paths in the home that are not copied, as patterns, and why."""
_HOLDS_BACKUPS: Final = "it holds the backups"
EXPECTED: Final = frozenset((*(why for _, why in _LEFT_OUT), _HOLDS_BACKUPS))
"""Reasons that are no reason to worry: they hold for every backup."""


def reason_in_home(parts: tuple[str, ...]) -> str | None:
    """Return why a file or folder of the home is not copied, or None."""
    path = "/".join(parts)
    return next((why for pattern, why in _LEFT_OUT if re.fullmatch(pattern, path, re.DOTALL)), None)


def is_ledger(parts: tuple[str, ...]) -> bool:
    """Return whether a file of the home is the ledger, which is copied through SQLite."""
    return parts == ("state", "ledger.sqlite")


def _secret(sources: Sources, parts: tuple[str, ...]) -> str | None:
    if not sources.without_secrets:
        return None
    name = parts[-1]
    if name.startswith("auth-profiles.json") or parts in {("state", "gateway.token"), ("state", "api-tokens.json")}:
        return "secrets"
    if name.endswith(".bak") or name.startswith(("settings.last-good", "ledger.sqlite.bad-")):
        return "an older copy, which may hold secrets"
    return _secret_at(sources, sources.home.joinpath(*parts))


def _secret_below(sources: Sources, top: Path, parts: tuple[str, ...]) -> str | None:
    return _secret_at(sources, top.joinpath(*parts))


def _secret_at(sources: Sources, path: Path) -> str | None:
    return "secrets" if sources.without_secrets and path in sources.secret_files else None


class _Walk:
    """Walks through one root, several times if need be."""

    def __init__(self, sources: Sources, found: Found, root: str, reason: Callable[[tuple[str, ...]], str | None]) -> None:
        self._found = found
        self._root = root
        self._reason = reason
        self._apart = {_identity(folder) for folder in sources.apart}
        if root != HOME:
            self._apart.add(_identity(sources.home))

    def through(self, top: Path, wanted: Callable[[tuple[str, ...]], bool], *, quiet: bool = False) -> Iterator[Place]:
        """Yield the wanted files. A ``quiet`` walk notes nothing else: another one does."""
        self._quiet = quiet
        try:
            descriptor = os.open(top, _FOLDER & ~os.O_NOFOLLOW)
        except FileNotFoundError:
            return
        except OSError as error:
            self._leave_out(self._root, f"it cannot be read: {error.strerror}")
            return
        try:
            yield from self._folder(descriptor, (), wanted)
        finally:
            os.close(descriptor)

    def _folder(self, descriptor: int, above: tuple[str, ...], wanted: Callable[[tuple[str, ...]], bool]) -> Iterator[Place]:
        with os.scandir(descriptor) as entries:
            listed = sorted(entries, key=lambda entry: os.fsencode(entry.name))
        if above and not listed and not self._quiet:
            self._found.folders.append("/".join((self._root, *above)))
        for entry in listed:
            parts = (*above, entry.name)
            path = "/".join((self._root, *parts))
            if why := self._reason(parts):
                self._leave_out(path, why)
                continue
            try:
                about = entry.stat(follow_symlinks=False)
            except OSError:
                self._leave_out(path, "it vanished meanwhile")
                continue
            yield from self._one(descriptor, parts, path, about, wanted)

    def _one(
        self, above: int, parts: tuple[str, ...], path: str, about: os.stat_result, wanted: Callable[[tuple[str, ...]], bool]
    ) -> Iterator[Place]:
        try:
            check_path(path)
        except ValueError as error:
            self._leave_out(path, str(error))
            return
        if stat.S_ISDIR(about.st_mode):
            if (about.st_dev, about.st_ino) in self._apart:
                self._leave_out(path, _HOLDS_BACKUPS if self._root == HOME else "it is no part of the workspace")
                return
            try:
                descriptor = os.open(parts[-1], _FOLDER, dir_fd=above)
            except OSError as error:
                self._leave_out(path, f"it cannot be read: {error.strerror}")
                return
            try:
                yield from self._folder(descriptor, parts, wanted)
            finally:
                os.close(descriptor)
        elif stat.S_ISREG(about.st_mode):
            if wanted(parts) and not (self._root == HOME and is_ledger(parts)):
                yield Place(path, above, parts[-1])
        elif stat.S_ISLNK(about.st_mode):
            self._link(above, path, parts[-1])
        else:
            self._leave_out(path, "it is neither a file nor a folder")

    def _link(self, above: int, path: str, name: str) -> None:
        if self._quiet:
            return
        try:
            self._found.links[path] = os.readlink(name, dir_fd=above)
        except OSError:
            self._leave_out(path, "it vanished meanwhile")

    def _leave_out(self, path: str, why: str) -> None:
        if not self._quiet:
            self._found.left_out[path] = why


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
