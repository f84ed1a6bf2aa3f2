"""What of a command is untrusted: what it prints, by what it may have read, and what it writes, by what was in view when it was started.

A command that may use the network prints untrusted text. One without reads the workspace alone (its sandbox sees to that). Some programs
are known to read what their words name alone; git reads its repository besides; all others may have read the whole workspace.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path, PurePosixPath
from typing import Final

from agent.taint import merged
from agent.tools.file_tool_context import STANDING_FILES
from agent.tools.git_words import parse_git
from agent.tools.protocol import Act, ToolContext
from agent.tools.untrusted_files import UntrustedFiles
from memory.audience import INBOX, Audience

NETWORK: Final = "exec:network"
ELSEWHERE: Final = "exec:files_outside_the_workspace"
BLIND: Final = frozenset(
    {
        "cal",
        "date",
        "df",
        "echo",
        "false",
        "free",
        "hostname",
        "id",
        "nproc",
        "printf",
        "pwd",
        "sleep",
        "true",
        "uname",
        "uptime",
        "whoami",
    }
)
"""Programs that read no files but those that their words name."""
READERS: Final = frozenset(
    (
    "[", "b2sum", "base64", "basename", "cat", "chmod", "cksum", "cmp", "comm", "cp", "cut", "diff", "dirname", "du",
        "egrep", "expand", "fgrep", "file", "find", "fmt", "fold", "grep", "head", "join", "ln", "ls", "md5sum",
        "mkdir", "mv", "nl", "od", "paste", "readlink", "realpath", "rev", "rm", "rmdir", "sha1sum", "sha256sum",
        "sha512sum", "sort", "stat", "tac", "tail", "tee", "test", "touch", "tr", "tree", "uniq", "wc",
    )
)  # fmt: skip
"""Programs that read the files and folders that their words name, or the folder where they start."""
_INDIRECT: Final = re.compile(r"-(?:exec|ok|files0|-files0|-files-from|-compress-pro|-fromfile).*")
"""Options by which those read files that no word names, or run other programs. GNU programs take a unique beginning for the whole."""
_GREP: Final = frozenset({"grep", "egrep", "fgrep"})
_LINKED: Final = ("commondir", "objects/info/alternates", "config.worktree")
"""Files by which a repository uses another one."""
_PLAIN_VARIABLES: Final = ("LANG", "LC_", "TZ")
_PROGRAMS: Final = ("/usr/bin", "/bin", "/usr/local/bin")
_GIT: Final = ".git"
_SYSTEM: Final = {(name,) for name in ("usr", "etc", "bin", "sbin", "lib", "lib64", "proc", "sys", "dev", "tmp", "opt", "run")}
_RECEIVED: Final = (PurePosixPath(INBOX), PurePosixPath("memory/peers"), PurePosixPath("memory/groups"))
_EARLIER: Final = 20_000_000
"""Nanoseconds by which the clock of file systems may be behind."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A command that is running: when it began, what it may carry into files, and the notes as they were then."""

    since: int
    taint: frozenset[str]
    before: dict[PurePosixPath, str]


class CommandTaint:
    """Judges the commands of one agent, whose workspace is ``root``. All methods block."""

    def __init__(self, untrusted: UntrustedFiles, root: Path, now_ns: Callable[[], int] = time.time_ns) -> None:
        self.untrusted = untrusted
        self.root = Path(os.path.realpath(root))
        self._now_ns = now_ns

    def sources(self, act: Act, context: ToolContext) -> tuple[str, ...]:  # noqa: ARG002  (what was in view is no part of the output)
        """Return where untrusted text in the output of a command may come from."""
        found = [NETWORK] if act.network else []
        name = "" if act.argv is None else _program(act)
        if act.argv is None or not (name in BLIND or name == "git" or _reads_what_it_names(name, act.argv[1:])):
            return merged(found, *([ELSEWHERE] if place is None else self._below(place) for place in self._places(act)))
        named = [path for word in act.argv[1:] for path in self._paths(word, act.cwd)]
        found += self._of_places(named)
        if name == "git":
            found += self._of_git(act)
        elif not named and name not in BLIND:
            found += self._below(self._inside(Path(act.cwd or self.root)) or PurePosixPath())
        return merged(found)

    def _places(self, act: Act) -> list[PurePosixPath | None]:
        """Return what a program may read of which nothing is known: the workspace, and what else its words name (None)."""
        named = [path for word in (act.argv or ())[1:] for path in self._paths(word, act.cwd)]
        return [PurePosixPath(), *([None] if ELSEWHERE in self._of_places(named) else [])]

    def _of_places(self, paths: Iterable[Path]) -> list[str]:
        """Return the untrusted files at or below paths, as sources."""
        found: list[str] = []
        for path in paths:
            if (inside := self._inside(path)) is not None:
                found += self._below(inside)
            elif path.parts[1:2] not in _SYSTEM:
                found.append(ELSEWHERE)
        return found

    def _of_git(self, act: Act) -> list[str]:
        """Return what is untrusted of a git command's repository and the files, or of the workspace where it may read others.

        A word that names no file may name a revision, a pattern of paths, or a file that is not in the work tree now.
        """
        whole = self._below(PurePosixPath())
        if (parsed := parse_git((act.argv or ())[1:])) is None:
            return whole
        start = Path(os.path.normpath(Path(act.cwd or self.root, *parsed.folders)))
        given = Path(os.path.normpath(start / parsed.repository)) if parsed.repository else start / _GIT
        tree = self._tree(given.parent if given.name == _GIT else given)
        if tree is None or (parsed.repository and not given.is_dir()):
            return whole
        found = [one for one in self.untrusted.below(tree) if _GIT in PurePosixPath(one.partition(":")[2]).parts]
        top = self.root / tree
        bases = (
            {start, top} if parsed.repository else {start}
        )  # git takes the folder where it starts for the top if a repository is said
        wanted = [(word, base) for word in parsed.words for base in bases]
        wanted += [(word, start if word.startswith(("./", "../")) else top) for word in parsed.objects]
        for word, base in wanted:
            paths = list(self._paths(word, str(base)))
            if not paths:
                return whole
            found += self._of_places(paths)
        return found

    def _tree(self, start: Path) -> PurePosixPath | None:
        """Return the folder of the repository around a folder; None where there is none, or one with parts that lie elsewhere."""
        here = start
        while (inside := self._inside(here)) is not None:
            folder = here / _GIT
            if os.path.lexists(folder):
                usual = (
                    folder.is_dir() and not folder.is_symlink() and not any(os.path.lexists(folder / one) for one in _LINKED)
                )
                return inside if usual else None
            if os.path.lexists(here / "HEAD") or os.path.lexists(here / "objects"):
                return None  # perhaps a repository without a work tree
            here = here.parent
        return None

    def begin(self, taint: frozenset[str], audience: Audience, today: date) -> Watch | None:
        """Take note of a command that is about to start. ``taint``: what is in view or may be read; None: it writes trusted files."""
        if not taint:
            return None
        notes = [
            PurePosixPath(name) for name in (path.name for path in self.root.iterdir()) if name.casefold() in STANDING_FILES
        ]
        notes += [audience.daily_note(today + timedelta(days=days)) for days in (-1, 0, 1)]  # whatever the owner's zone is
        before = {path: text for path in notes if (text := self._text(path)) is not None}
        return Watch(self._now_ns() - _EARLIER, taint, before)

    def printed(self, path: PurePosixPath, taint: frozenset[str]) -> None:
        """Record that the file that a running command's output is written to is untrusted. Raises OSError."""
        self.untrusted.mark_whole(path, taint)

    def end(self, watch: Watch) -> None:
        """Record the files that were changed since as untrusted: of notes the fresh lines, of all others the whole. Raises OSError."""
        for path in self._changed(watch.since):
            if (former := watch.before.get(path)) is None:
                self.untrusted.mark_whole(path, watch.taint)
                continue
            known = set(former.splitlines())
            fresh = [line for line in (self._text(path) or "").splitlines() if line not in known]
            self.untrusted.mark(path, "\n".join(fresh), watch.taint)

    def _below(self, path: PurePosixPath) -> list[str]:
        """Return the untrusted files at or below a path of the workspace, as sources."""
        found = [*(self.untrusted.of(path) if path.parts else ()), *self.untrusted.below(path)]
        if (repository := _repository(path)) is not None:
            found += self.untrusted.of(repository)
        for folder in _RECEIVED:
            if path in folder.parents and any(files for _, _, files in os.walk(self.root / folder)):
                found += self.untrusted.of(folder)
        return found

    def _paths(self, word: str, cwd: str) -> Iterator[Path]:
        """Yield the paths that a word of a command names, as far as something stands there."""
        parts = {word, word.partition("=")[2], word.partition(":")[2]}
        for part in parts:
            if part and not part.startswith("-"):
                path = Path(os.path.normpath(Path(cwd or self.root, part)))
                if os.path.lexists(path):
                    yield path
                    if (real := Path(os.path.realpath(path))) != path:
                        yield real

    def _inside(self, path: Path) -> PurePosixPath | None:
        try:
            return PurePosixPath(path.relative_to(self.root))
        except ValueError:
            return None

    def _changed(self, since: int) -> Iterator[PurePosixPath]:
        """Yield the files of which something changed: the time of it cannot be set back by a program. A ``.git`` stands for all in it."""
        repositories = set()
        for folder, _, files in os.walk(self.root):
            inside = PurePosixPath(Path(folder).relative_to(self.root))
            if (repository := _repository(inside)) in repositories:
                continue
            for name in files:
                try:
                    changed = Path(folder, name).lstat().st_ctime_ns >= since
                except OSError:  # it is gone meanwhile
                    continue
                if changed and repository is not None:
                    repositories.add(repository)
                    yield repository
                    break
                if changed:
                    yield inside / name

    def _text(self, path: PurePosixPath) -> str | None:
        try:
            return (self.root / path).read_bytes().decode("utf-8", "replace")
        except OSError:
            return None


def _repository(path: PurePosixPath) -> PurePosixPath | None:
    """Return the outermost ``.git`` that a path is or lies in."""
    return PurePosixPath(*path.parts[: path.parts.index(_GIT) + 1]) if _GIT in path.parts else None


def _program(act: Act) -> str:
    """Return the name of the system's program that a command starts; empty where it may start another."""
    first = (act.argv or ("",))[0]
    program = Path(first)
    if "/" in first and str(program.parent) not in _PROGRAMS:
        return ""
    return program.name if all(name.startswith(_PLAIN_VARIABLES) for name, _ in act.env) else ""


def _reads_what_it_names(program: str, words: Sequence[str]) -> bool:
    """Whether a program reads nothing but the files that these words name, or the folder where it starts if they name none."""
    if program not in READERS or any(_INDIRECT.fullmatch(word) for word in words):
        return False
    options = [word for word in words if word.startswith("-")]
    short = "".join(word for word in options if not word.startswith("--"))
    if program not in _GREP or not (
        set("rRd") & set(short) or any(one.startswith(("--r", "--dere", "--dir")) for one in options)
    ):
        return True
    # without an operand it reads the folder where it starts, and a pattern or a list may be taken for one
    return not set("efdD") & set(short) and not any(one.startswith("--") for one in options) and len(words) - len(options) > 1
