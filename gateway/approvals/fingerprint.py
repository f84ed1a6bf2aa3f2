"""The fingerprint of an act: a digest of what would run. An approval holds only as long as it stays the same."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from agent.tools.protocol import Act
from gateway.approvals.named_paths import NamedPaths, command_words, content

PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/run/current-system/sw/bin"
"""Where commands are looked for, as in their confinement."""
_MOST_ENTRIES: Final = 20_000
"""So many files and folders are compared, those nearest to the working folder first."""
_LATER: Final = ("details", "others", "into", "confinement", "recipients", "ask", "tool", "excused", "quotes")
"""Parts of an act that earlier versions did not have: left out where empty, so that their records stay as they are."""
_HARMLESS: Final = (
    "basename cat chgrp chmod chown cp date df dirname du echo false head kill ln ls mkdir mktemp mv printf readlink realpath rm "
    "rmdir sleep stat sync tail touch true truncate uname wc"
)
_RUN_NOTHING_ELSE: Final = frozenset(_HARMLESS.split())
"""Programs that run nothing else and read no other files than those that they are told. Any other one may be led by files around it."""
_LEADS_ELSEWHERE: Final = ("..", "~", "$", "`", "cd -")
"""What in a command may lead out of its folder into another one of the workspace."""


def fingerprint(act: Act, root: str = "/") -> str:
    """Return the digest of an act: what it says, and for a command its program and what it names (``gateway.approvals.named_paths``).

    Where the files of its folder may lead the command, their digest follows after a dot. ``root`` is the workspace, from which a
    relative working directory counts. Blocking: it reads files. Raises TooManyFiles.
    """
    said = asdict(act)
    for later in _LATER:
        if not said[later]:
            del said[later]
    digest = hashlib.sha256(json.dumps(said, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace"))
    if act.kind != "exec":
        return digest.hexdigest()
    folders = _Folders.of(act, root)
    for known in (*_programs_of(act), *NamedPaths(act, root, folders.changes_by_itself).lines()):
        digest.update(f"\0{known}".encode("utf-8", "replace"))
    around = f".{folders.digest()}" if _is_led_by_files(act) else ""
    return digest.hexdigest() + around


def only_files_around_differ(one: str, other: str) -> bool:
    """Whether two different fingerprints are of the same command, and only files of its folder that it does not name have changed."""
    return one.partition(".")[0] == other.partition(".")[0]


def _is_led_by_files(act: Act) -> bool:
    """Whether a command may run or read files that are no words of it."""
    return act.argv is None or bool(act.env) or act.argv[0] not in _RUN_NOTHING_ELSE


def _programs_of(act: Act) -> Iterator[str]:
    """Yield the programs that the words of a command may start, each with its content."""
    search = dict(act.env).get("PATH", PATH)
    for word in dict.fromkeys(command_words(act)):
        if "/" not in word and (program := shutil.which(word, path=search)):
            yield f"{program}\0{content(program)}"


class _Folders(Struct, frozen=True):
    """The files that may lead a command: its folder with all below it, and what programs look for in the folders above.

    Files are compared by their place, kind, size and times. An empty folder counts as none. Links are compared by where
    they lead, and not followed into folders.
    """

    text: str
    workspace: str
    top: str
    start: str

    @classmethod
    def of(cls, act: Act, root: str) -> _Folders:
        """Return those of a command in a workspace. ``text`` is all that the command says, ``top`` the workspace without links."""
        text = "\0".join((act.command, *(act.argv or ()), *(value for _, value in act.env)))
        return cls(text, root, os.path.realpath(root).rstrip("/"), str(Path(root, act.cwd)))

    def digest(self) -> str:
        """Return the digest of at most ``_MOST_ENTRIES`` entries; of the folders that remain, the times count."""
        digest, left = hashlib.sha256(), _MOST_ENTRIES
        waiting = deque(self._starts())
        while waiting and left > 0:
            folder, deep = waiting.popleft()
            lines, below, seen = self._entries(folder, left, deep=deep)
            left -= seen
            waiting.extend((path, True) for path in below)
            digest.update("\0".join([folder, *lines, ""] if lines else []).encode("utf-8", "surrogateescape"))
        rest = [_facts(folder, times_of_folders=True) for folder, _ in waiting]
        digest.update("\0".join(["all" if left > 0 else "the nearest", *rest]).encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def _starts(self) -> Iterator[tuple[str, bool]]:
        """Return the folders to begin with, and for each whether all below it counts."""
        top, here = self.top, os.path.realpath(self.start)
        yield here, True
        if here == top or not here.startswith(f"{top}/"):
            return
        if any(one in self.text for one in (*_LEADS_ELSEWHERE, self.workspace, top)):
            yield top, True
            return
        for folder in Path(here).parents:
            yield str(folder), False
            if str(folder) == top:
                return

    def _entries(self, folder: str, most: int, *, deep: bool) -> tuple[list[str], list[str], int]:
        """Return what is known of a folder's files, the folders below that count too, and how many entries were looked at."""
        lines: list[str] = []
        below: list[str] = []
        try:
            with os.scandir(folder) as found:
                entries = sorted(islice(found, most), key=lambda entry: entry.name)
        except OSError as error:
            return [f"unreadable: {error.errno}"], [], 1
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if self.changes_by_itself(folder, entry.name, is_folder):
                continue
            if not is_folder:
                lines += [entry.name, _facts(entry.path)]
            elif deep or entry.name == ".git":
                below.append(entry.path)
        if len(entries) == most:
            lines.append(_facts(folder, times_of_folders=True))
        return lines, below, len(entries) + 1

    def changes_by_itself(self, folder: str, name: str, is_folder: bool) -> bool:
        """Whether the runtime, or git as it looks, changes what has this name; never where the command mentions it."""
        if name in {"objects", "logs"}:
            return folder.endswith("/.git") and name not in self.text
        if name == ".homebody":
            return folder == self.top and name not in self.text
        is_note = name.endswith(".md") and not is_folder and f"{folder}/".startswith(f"{self.top}/memory/")
        return is_note and "memory" not in self.text


def _facts(path: str, *, times_of_folders: bool = False) -> str:
    """Return what can be told of an entry without reading it; of a link also where it leads and what it leads to."""
    try:
        found = os.lstat(path)
    except OSError as error:
        return f"unreadable: {error.errno}"
    facts = f"{found.st_mode} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
    if times_of_folders or not stat.S_ISLNK(found.st_mode):
        return facts
    try:
        facts += f" {Path(path).readlink()}"
        target = Path(path).stat()
    except OSError as error:
        return f"{facts} unreadable: {error.errno}"
    if stat.S_ISDIR(target.st_mode):
        return f"{facts} folder"
    return f"{facts} {target.st_size} {target.st_mtime_ns} {target.st_ctime_ns}"
