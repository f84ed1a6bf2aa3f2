"""What the words of a command name: files by their content, folders with all that is in them, and links by where they lead."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from agent.tools.protocol import Act
from gateway.approvals.command_paths import is_inside

MOST_ENTRIES: Final = 500_000
"""So many files and folders are compared at most."""
MOST_READ: Final = 2000
_MOST_BYTES: Final = 32 << 20
"""Of a folder with more files, or more bytes in them, files are compared by inode, size and times instead of content."""
_MOST_OF_ONE: Final = 64 << 20
"""A file that is named itself is read up to this size."""
_PIECE: Final = 1 << 20
_LOOKERS: Final = (
    "basename cat date df dirname du echo false head kill ls mkdir mktemp printf pwd readlink realpath rmdir sleep stat sync tail touch "
    "true truncate uname uptime wc"
)
_TAKE_NO_FOLDERS: Final = frozenset(_LOOKERS.split())
"""Programs that only look at a folder that they are given, or need it to be empty."""
_PATTERN: Final = re.compile(r"[*?\[{]")


class TooManyFiles(Exception):
    """A command names folders with more files than are compared."""

    def __init__(self) -> None:
        super().__init__(
            f"it names folders that hold more than {MOST_ENTRIES:,} files, and so many cannot be compared with what you would be asked "
            "about. It becomes possible in smaller parts, or by hand"
        )


def command_words(act: Act) -> list[str]:
    """Return the words of a command. One with shell syntax need not be valid: then it is cut at blanks and signs."""
    if act.argv is not None:
        return list(act.argv)
    lexer = shlex.shlex(act.command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return ["/bin/sh", *lexer]
    except ValueError:
        return ["/bin/sh", *act.command.replace("'", " ").replace('"', " ").split()]


def content(path: str, most: int | None = None) -> str:
    """Return the digest of a file, or why it cannot be read; of one with more than ``most`` bytes its facts."""
    digest = hashlib.sha256()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if most is not None and found.st_size > most:
                return _facts(found)
            while stat.S_ISREG(found.st_mode) and (piece := file.read(_PIECE)):
                digest.update(piece)
    except OSError as error:
        return f"unreadable: {error.errno}"
    return digest.hexdigest()


class NamedPaths(Struct):
    """Compares what a command names. ``root`` is the workspace; ``ignored`` says of a folder and a name whether it changes by itself.

    ``left`` counts down the entries that may still be compared.
    """

    act: Act
    root: str
    ignored: Callable[[str, str, bool], bool]
    left: int = MOST_ENTRIES

    def lines(self) -> Iterator[str]:
        """Yield what is known of each path now. Blocks. Raises TooManyFiles."""
        words = command_words(self.act)
        takes_folders = self.act.argv is None or words[0] not in _TAKE_NO_FOLDERS
        for word in dict.fromkeys(name for one in words for name in _names(one)):
            fixed, is_pattern = _without_pattern(word)
            path = Path(self.root, self.act.cwd, f"{self.root}/{fixed[1:]}" if fixed.startswith("~") else fixed)
            real = ""
            try:
                real = os.path.realpath(path)
                found = Path(real).stat()
            except (OSError, ValueError):  # nothing is there, or no file can have this name
                yield f"{word}\0{real}\0{'a link' if _is_link(path) else 'nothing'}"
                continue
            facts = f"{word}\0{real}\0{'a link' if _is_link(path) else ''} {stat.S_IFMT(found.st_mode)}"
            if stat.S_ISREG(found.st_mode):
                facts += f"\0{content(real, _MOST_OF_ONE)}"
            elif stat.S_ISDIR(found.st_mode) and (takes_folders or is_pattern):
                facts += f"\0{self._tree(real)}"
            yield facts

    def _tree(self, top: str) -> str:
        """Return the digest of all that is in a folder: of few files by their content, of many by inode, size and times."""
        by_facts, by_content = hashlib.sha256(), hashlib.sha256()
        few, files, total = True, 0, 0
        for name, path, found in self._entries(top):
            by_facts.update(f"{name}\0{_facts(found)}\0".encode("utf-8", "surrogateescape"))
            is_file = stat.S_ISREG(found.st_mode)
            files, total = files + is_file, total + (found.st_size if is_file else 0)
            few = few and files <= MOST_READ and total <= _MOST_BYTES
            if few:
                inside = content(path) if is_file else ""
                by_content.update(f"{name}\0{found.st_mode}\0{inside}\0".encode("utf-8", "surrogateescape"))
        return by_content.hexdigest() if few else by_facts.hexdigest()

    def _entries(self, top: str) -> Iterator[tuple[str, str, os.stat_result]]:
        """Yield what is in a folder, in an order of its own: a name, the path to read, and what is known of it.

        Links are followed within the workspace, since programs may do so, and each folder is entered once.
        """
        waiting, entered = [(top, "")], set[tuple[int, int]]()
        while waiting:
            folder, inside = waiting.pop()
            try:
                here = Path(folder).stat()
                with os.scandir(folder) as entries:
                    listed = sorted(islice(entries, self.left + 1), key=lambda entry: entry.name)
            except OSError:
                continue
            if (here.st_dev, here.st_ino) in entered:
                continue
            entered.add((here.st_dev, here.st_ino))
            for entry in listed:
                name = f"{inside}/{entry.name}"
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:  # it is gone meanwhile
                    continue
                is_folder = stat.S_ISDIR(found.st_mode)
                if self.ignored(folder, entry.name, is_folder):
                    continue
                self.left -= 1
                if self.left < 0:
                    raise TooManyFiles
                path = entry.path
                if stat.S_ISLNK(found.st_mode):
                    path = os.path.realpath(path)
                    name, found = f"{name}\0{_target(entry.path)}\0{path}", self._behind(path) or found
                    is_folder = stat.S_ISDIR(found.st_mode)
                if is_folder:
                    waiting.append((path, name))
                    found = os.stat_result((found.st_mode, *([0] * 9)))
                yield name, path, found

    def _behind(self, real: str) -> os.stat_result | None:
        """Return what a link leads to, if that is in the workspace."""
        try:
            return Path(real).stat() if is_inside(real, self.root) else None
        except OSError:
            return None


def _names(word: str) -> Iterator[str]:
    """Yield what a word may name: ``--target-directory=x``, ``host:x`` and ``-tx`` name x."""
    yield word
    for sign in "=:":
        if rest := word.partition(sign)[2]:
            yield rest
    if word.startswith("-") and not word.startswith("--") and word[2:]:
        yield word[2:]


def _without_pattern(word: str) -> tuple[str, bool]:
    """Return the folder in which a pattern of a shell begins to choose, and whether there is a pattern."""
    found = _PATTERN.search(word)
    if found is None:
        return word, False
    before = word[: found.start()].rpartition("/")
    return before[0] + before[1], True


def _facts(found: os.stat_result) -> str:
    return f"{found.st_mode} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except (OSError, ValueError):
        return False


def _target(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""
