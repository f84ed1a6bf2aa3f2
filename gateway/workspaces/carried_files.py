"""Which files of a workspace are kept in its repository, and what they hold now."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct, field

from agent.errors import WorkspaceFileError
from agent.tools.workspace_sandbox import MAX_FILE_BYTES, SECRETS, WorkspaceSandbox, is_temporary
from gateway.workspaces.commit_stream import FILE, PROGRAM, Entry, Tree, blob_of
from memory.audience import INBOX

LARGEST: Final = MAX_FILE_BYTES
_USUAL: Final = (
    ".DS_Store",
    "Thumbs.db",
    "desktop.ini",
    "*~",
    "*.swp",
    ".#*",
    ".*.half",
    "__pycache__",
    "node_modules",
    ".venv",
    ".homebody",
)
"""What nobody wants in it: traces of editors and systems, packages that can be installed anew, output of commands."""
_GIT: Final = re.compile(r"\.git|git~\d+", re.IGNORECASE)
_REMEMBERED: Final = 50_000
"""Names of which it is remembered that they may be kept."""
_RACY_NS: Final = 2_000_000_000
"""A file that changed within this time before it was read may change again and look the same."""
_LINK: Final = "is a link"
_HARD: Final = "has a second name on the disk"

Stamp = tuple[int, int, int, int]
"""Inode, size, and when content and file were changed."""


class CarriedFiles:
    """Decides by name. ``ignore`` are patterns of names or whole paths; ``inbox`` keeps received files, too."""

    def __init__(self, ignore: Sequence[str] = (), *, inbox: bool = False) -> None:
        usual = (*_USUAL, *(pattern for pattern in ignore if "/" not in pattern.strip("/")))
        self._names = re.compile("|".join(translate(pattern.strip("/")) for pattern in usual))
        whole = [translate(pattern.strip("/")) for pattern in ignore if "/" in pattern.strip("/")]
        self._paths = re.compile("|".join(whole)) if whole else None
        self._inbox = inbox
        self._plain_names: set[str] = set()

    def takes(self, path: str) -> bool:
        """Whether a file of this path belongs to the repository."""
        parts = path.split("/")
        return all(self.takes_name(part) for part in parts) and not self._left_out(parts)

    def takes_below(self, folder: str, name: str) -> bool:
        """Whether a file or folder belongs to it whose folder does."""
        if name not in self._plain_names and not self.takes_name(name):
            return False
        if len(self._plain_names) < _REMEMBERED:
            self._plain_names.add(name)
        if self._paths is None and (self._inbox or name != INBOX):
            return True
        path = f"{folder}/{name}" if folder else name
        return not self._left_out(path.split("/"))

    def takes_name(self, name: str) -> bool:
        """Whether a file or folder may belong to it by its name alone. Secrets never do, nor what git or we would misread."""
        if name in {"", ".", ".."} or "\0" in name or "\n" in name or is_temporary(name) or not _is_unicode(name):
            return False
        return not (_GIT.fullmatch(name) or SECRETS.fullmatch(name) or self._names.match(name))

    def _left_out(self, parts: Sequence[str]) -> bool:
        if not self._inbox and (parts[0] == INBOX or (len(parts) > 3 and parts[0] == "memory" and parts[3] == INBOX)):  # noqa: PLR2004 - memory/groups/<key>/inbox
            return True
        pattern = self._paths
        return pattern is not None and any(pattern.match("/".join(parts[:count])) for count in range(1, len(parts) + 1))


class Scan(Struct):
    """What a workspace holds: changed files with what they are now, and all others by what is known of them.

    ``present``: the paths of all files that belong to the repository. ``changed``: those that are not as the tree says, None for
    gone. ``left_out``: what is not kept, with the reason. ``unseen``: folders that could not be looked into.
    """

    present: set[str] = field(default_factory=set)
    changed: dict[str, Entry | None] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    unseen: list[str] = field(default_factory=list)


class WorkspaceScanner:
    """Finds what changed in a workspace since a tree. Remembers stamps, so that a file is read once for each change. Blocks."""

    def __init__(self, sandbox: WorkspaceSandbox, rules: CarriedFiles, *, withheld: Callable[[str, bytes], bool]) -> None:
        self._sandbox = sandbox
        self._rules = rules
        self._withheld = withheld
        self._known: dict[str, tuple[Stamp, Entry]] = {}

    def scan(self, tree: Tree) -> Scan:
        """Compare all files with a tree. Raises OSError where the workspace itself cannot be listed."""
        found = Scan()
        for path, status in self._walk(found, tree):
            found.present.add(path)
            entry = self._entry(path, status, tree.get(path), found)
            if entry is not None and not _same(entry, tree.get(path)):
                found.changed[path] = entry
        for path in tree.keys() - found.present:
            expected = tree[path].plain and self._rules.takes(path) and path not in found.left_out
            if expected and not any(path.startswith(f"{folder}/") for folder in found.unseen):
                found.changed[path] = None
        for gone in self._known.keys() - found.present:
            del self._known[gone]
        return found

    def read(self, path: str) -> bytes:
        """Return what a file holds. Raises WorkspaceFileError."""
        return self._sandbox.read(PurePosixPath(path), limit=LARGEST).data

    def _entry(self, path: str, status: os.stat_result, former: Entry | None, found: Scan) -> Entry | None:
        """Return what a file is now; None where it cannot or must not be kept, which is noted."""
        stamp = _stamp(status)
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        now = time.time_ns()
        try:
            data = self.read(path)
        except WorkspaceFileError as error:
            found.left_out[path] = str(error)
            return None
        mode = PROGRAM if status.st_mode & stat.S_IXUSR else FILE
        entry = Entry(mode, blob_of(data), len(data))
        if not _same(entry, former) and self._withheld(path, data):
            found.left_out[path] = "holds a secret of this machine (a key, token or password)"
            return None
        if now - max(status.st_mtime_ns, status.st_ctime_ns) > _RACY_NS:
            self._known[path] = (stamp, entry)
        return entry

    def _walk(self, found: Scan, tree: Tree) -> Iterator[tuple[str, os.stat_result]]:
        folders_in_tree = {parent for path in tree for parent in _parents(path)}
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            entries = self._listed(folder, found)
            if folder and folder not in folders_in_tree and any(entry.name == ".git" for entry in entries):
                found.left_out[folder] = "is a repository of its own"
                continue
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if (why_named := _why_not_named(entry.name)) is not None:
                    found.left_out[path.encode("utf-8", "replace").decode().replace("\n", "\\n")] = why_named
                elif self._rules.takes_below(folder, entry.name):
                    with contextlib.suppress(FileNotFoundError):
                        status = entry.stat(follow_symlinks=False)
                        if stat.S_ISDIR(status.st_mode):
                            waiting.append(path)
                        elif (why := _why_not(status)) is not None:
                            found.left_out[path] = why
                        else:
                            yield path, status

    def _listed(self, folder: str, found: Scan) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._sandbox.root / folder if folder else self._sandbox.root) as listing:
                return list(listing)
        except OSError as error:
            if not folder:
                raise
            if error.errno != errno.ENOENT:
                found.unseen.append(folder)
                found.left_out[folder] = f"cannot be listed: {error.strerror}"
            return []


def _why_not_named(name: str) -> str | None:
    if not _is_unicode(name):
        return "has a name that is not UTF-8"
    if "\n" in name:
        return "has a line break in its name"
    return "holds keys or passwords by custom" if SECRETS.fullmatch(name) else None


def _why_not(status: os.stat_result) -> str | None:
    if stat.S_ISLNK(status.st_mode):
        return _LINK
    if not stat.S_ISREG(status.st_mode):
        return "is no file"
    if status.st_nlink > 1:
        return _HARD
    return f"has {status.st_size / 1e6:.0f} MB; at most {LARGEST // 1_000_000} are kept" if status.st_size > LARGEST else None


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _same(one: Entry, two: Entry | None) -> bool:
    return two is not None and (one.blob, one.mode) == (two.blob, two.mode)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _parents(path: str) -> Iterator[str]:
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)
