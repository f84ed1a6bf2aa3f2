"""What of a command is untrusted: what it prints, by what it may have read, and what it writes, by what was in view when it was started.

A command that may use the network prints untrusted text. One without reads the workspace alone (its sandbox sees to that). Some programs
are known to read what their words name alone; git reads its repository besides; all others may have read the whole workspace.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from agent.taint import merged, newest
from agent.tools.file_tool_context import STANDING_FILES, is_standing
from agent.tools.packed_marks import NAME, WHOLE, Marks
from agent.tools.protocol import Act, ToolContext
from agent.tools.untrusted_files import UntrustedFiles, joined
from agent.tools.workspace_changes import GIT, Change, FolderId, change_of, changes, folders_below, repository_of
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
_NAMES_ONLY: Final = frozenset(
    [
        "[",
        "basename",
        "chmod",
        "dirname",
        "du",
        "find",
        "ls",
        "mkdir",
        "readlink",
        "realpath",
        "rm",
        "rmdir",
        "stat",
        "test",
        "touch",
    ]
)
"""Those of them that print names and no contents, and write none."""
_DEEP: Final = frozenset({"du", "find", "rm", "chmod"})
_OUTPUT: Final = re.compile(r"\.homebody/output/\d{8}-\d{6}-[a-z0-9]+\.txt")
"""Files of output have a name of ours."""
_INDIRECT: Final = re.compile(r"-(?:exec|ok|files0|-files0|-files-from|-compress-pro|-fromfile).*")
"""Options by which those read files that no word names, or run other programs. GNU programs take a unique beginning for the whole."""
_GREP: Final = frozenset({"grep", "egrep", "fgrep"})
_LINKED: Final = ("commondir", "objects/info/alternates", "config.worktree")
"""Files by which a repository uses another one."""
_PLAIN_VARIABLES: Final = ("LANG", "LC_", "TZ")
_PROGRAMS: Final = ("/usr/bin", "/bin", "/usr/local/bin")
_SYSTEM: Final = {(name,) for name in ("usr", "etc", "bin", "sbin", "lib", "lib64", "proc", "sys", "dev", "tmp", "opt", "run")}
_RECEIVED: Final = (PurePosixPath(INBOX), PurePosixPath("memory/peers"), PurePosixPath("memory/groups"))
_EARLIER: Final = 20_000_000
"""Nanoseconds by which the clock of file systems may be behind."""


class Watch(Struct, frozen=True):
    """A command that is running: when it began, what it may carry into files, and the notes and folders as they were then.

    ``complete`` says whether ``folders`` holds all that there were.
    """

    since: int
    taint: frozenset[str]
    before: Mapping[PurePosixPath, str]
    folders: Mapping[FolderId, PurePosixPath] = field(default_factory=dict)
    complete: bool = True


class CommandTaint:
    """Judges the commands of one agent, whose workspace is ``root``. All methods block."""

    def __init__(self, untrusted: UntrustedFiles, root: Path, now_ns: Callable[[], int] = time.time_ns) -> None:
        self.untrusted = untrusted
        self.root = Path(os.path.realpath(root))
        self._now_ns = now_ns

    def sources(self, act: Act, context: ToolContext) -> tuple[str, ...]:  # noqa: ARG002  (what was in view is no part of the output)
        """Return where untrusted text in the output of a command may come from, the newest first."""
        return self.sources_of(act)

    def sources_of(self, act: Act) -> tuple[str, ...]:
        """Return where untrusted text in the output of a command may come from now, the newest first."""
        found = [NETWORK] if act.network else []
        name = "" if act.argv is None else _program(act)
        if act.argv is None or not (name in BLIND or name == "git" or _reads_what_it_names(name, act.argv[1:])):
            places = [[ELSEWHERE] if place is None else self._below(place) for place in self._places(act)]
            return _in_order([*found, *(one for place in places for one in place)])
        named = [path for word in act.argv[1:] for path in self._paths(word, act.cwd)]
        look = self._names(act.argv) if name in _NAMES_ONLY else self._below
        found += self._of_places(named, look)
        if name == "git":
            found += self._of_git(act)
        elif not named and name not in BLIND:
            found += look(self._inside(Path(act.cwd or self.root)) or PurePosixPath())
        return _in_order(found)

    def _names(self, argv: Sequence[str]) -> Callable[[PurePosixPath], list[str]]:
        """Return what looks for untrusted names where a program that prints names alone looks."""
        options = "".join(word for word in argv[1:] if word.startswith("-"))
        deep = Path(argv[0]).name in _DEEP or "R" in options or "--r" in options

        def look(path: PurePosixPath) -> list[str]:
            repository = repository_of(path)
            found = [*self.untrusted.names(path, deep=deep), *(self.untrusted.of(repository) if repository else ())]
            return [*found, *(self._received(path) if deep else ())]

        return look

    def _places(self, act: Act) -> list[PurePosixPath | None]:
        """Return what a program may read of which nothing is known: the workspace, and what else its words name (None)."""
        named = [path for word in (act.argv or ())[1:] for path in self._paths(word, act.cwd)]
        return [PurePosixPath(), *([None] if ELSEWHERE in self._of_places(named) else [])]

    def _of_places(self, paths: Iterable[Path], look: Callable[[PurePosixPath], list[str]] | None = None) -> list[str]:
        """Return what ``look`` finds in paths of the workspace (default: the untrusted files at or below them), as sources."""
        found: list[str] = []
        for path in paths:
            if (inside := self._inside(path)) is not None:
                found += (look or self._below)(inside)
            elif (skill := self.untrusted.of_elsewhere(path)) is not None:
                found += [skill] if skill else []
            elif path.parts[1:2] not in _SYSTEM:
                found.append(ELSEWHERE)
        return found

    def _of_git(self, act: Act) -> list[str]:
        """Return what is untrusted of a git command's repository and the files, or of the workspace where it may read others.

        A word that names no file may name a revision, a pattern of paths, or a file that is not in the work tree now.
        """
        from agent.tools.git_words import parse_git

        whole = self._below(PurePosixPath())
        if (parsed := parse_git((act.argv or ())[1:])) is None:
            return whole
        start = Path(os.path.normpath(Path(act.cwd or self.root, *parsed.folders)))
        given = Path(os.path.normpath(start / parsed.repository)) if parsed.repository else start / GIT
        tree = self._tree(given.parent if given.name == GIT else given)
        if tree is None or (parsed.repository and not given.is_dir()):
            return whole
        found = [one for one in self.untrusted.below(tree) if GIT in PurePosixPath(one.partition(":")[2]).parts]
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
            folder = here / GIT
            if os.path.lexists(folder):
                usual = (
                    folder.is_dir() and not folder.is_symlink() and not any(os.path.lexists(folder / one) for one in _LINKED)
                )
                return inside if usual else None
            if os.path.lexists(here / "HEAD") or os.path.lexists(here / "objects"):
                return None  # perhaps a repository without a work tree
            here = here.parent
        return None

    def begin(self, taint: frozenset[str], audience: Audience, today: date) -> Watch:
        """Take note of a command that is about to start. ``taint``: what is in view or may be read; without any it writes trusted files.

        A command without any has nothing untrusted within reach, so folders that it moves hold nothing of that kind.
        """
        notes = [
            PurePosixPath(name) for name in (path.name for path in self.root.iterdir()) if name.casefold() in STANDING_FILES
        ]
        before = {path: text for path in notes if (text := self._text(path)) is not None}
        for days in (-1, 0, 1):  # whatever the owner's zone is
            note = audience.daily_note(today + timedelta(days=days))
            before[note] = self._text(note) or ""
        folders = folders_below(self.root) if taint else {}
        return Watch(self._now_ns() - _EARLIER, taint, before, folders, complete=bool(taint))

    def tainted(self, watch: Watch, sources: Iterable[str], others: Iterable[int] = ()) -> Watch:
        """Return the watch of a command within whose reach something untrusted came only while it ran: what it wrote since then counts.

        ``others`` are the times since when other commands that run may have brought it, in nanoseconds.
        """
        received = [self._received_since(folder, watch.since) for folder in _RECEIVED]
        running = (max(one, watch.since) for one in others)
        times = [one for one in (self.untrusted.first_since(watch.since), *received, *running) if one is not None]
        return replace(watch, taint=watch.taint.union(sources), since=min(times, default=watch.since))

    def _received_since(self, folder: PurePosixPath, since: int) -> int | None:
        found: list[int] = []
        for top, _, files in os.walk(self.root / folder):
            with contextlib.suppress(OSError):
                found += [Path(top, name).lstat().st_ctime_ns for name in files]
        return min((one for one in found if one >= since), default=None)

    def folders_to_keep(self, watch: Watch) -> dict[FolderId, PurePosixPath]:
        """Return those folders of a watch that hold untrusted files: what has to be known of it after a crash."""
        kept = self.untrusted.holding(repository_of(path) or path for path in watch.folders.values())
        return {one: path for (one, path), keep in zip(watch.folders.items(), kept, strict=True) if keep}

    def printed(self, path: PurePosixPath, taint: frozenset[str]) -> None:
        """Record that the file that a running command's output is written to is untrusted. Raises OSError."""
        self.untrusted.mark_whole(path, taint, named=False)

    def end(self, watch: Watch) -> None:
        """Record the files that were changed since as untrusted: of notes the fresh lines, of all others the whole.

        What was moved along with its folder is as untrusted as it was where it lay before. Raises OSError.
        """
        if not watch.taint:
            return
        found = changes(self.root, watch.since, watch.folders, complete=watch.complete)
        marks = [(path, marks) for change in found for path, marks in self._marks(change, watch) if marks]
        self.untrusted.add(marks, since=watch.since)

    def so_far(self, watch: Watch, path: PurePosixPath, text: str | None = None) -> Marks:
        """Return what is to be said of a file or folder because of a command that has not ended, or of ``text`` that was read out of it."""
        if (repository := repository_of(path)) is not None:
            return joined([marks for _, marks in self.so_far_below(watch, repository)])
        if is_standing(path) and not os.path.lexists(self.root / path):
            path = path.with_name(path.name.casefold())
        change = change_of(self.root, path, watch.since, watch.folders, complete=watch.complete)
        return joined([marks for _, marks in self._marks(change, watch, text)] if change is not None else [])

    def so_far_below(self, watch: Watch, folder: PurePosixPath) -> Iterator[tuple[PurePosixPath, Marks]]:
        """Yield what is to be said of a folder or file, and of all below it, because of a command that has not ended."""
        if (self.root / folder).is_symlink() or not (self.root / folder).is_dir():
            yield folder, self.so_far(watch, folder)
            return
        for change in changes(self.root, watch.since, watch.folders, complete=watch.complete, start=folder):
            yield from self._marks(change, watch)

    def _marks(self, change: Change, watch: Watch, text: str | None = None) -> Iterator[tuple[PurePosixPath, Marks]]:
        """Yield what is to be recorded because of a change. ``text`` was read out of the file before it was looked at."""
        sources = merged(watch.taint)
        if change.kind == "named":
            yield change.path, {NAME: sources}
        elif change.former is not None:
            marks = self.untrusted.marks_of(repository_of(change.former) or change.former)
            repository = repository_of(change.path)
            yield (change.path, marks) if repository is None or not marks else (repository, {WHOLE: merged(*marks.values())})
        elif (former := watch.before.get(change.path, "" if is_standing(change.path) else None)) is None:
            yield change.path, dict.fromkeys((WHOLE,) if _OUTPUT.fullmatch(str(change.path)) else (WHOLE, NAME), sources)
        else:
            own = self.untrusted.own_lines_of(change.path)
            present = (self._text(change.path) or "").splitlines()
            known = {*former.splitlines(), *own}
            fresh = [line for line in present if line not in known]
            if text:  # it was read before, and what was in it then may be gone
                known.update(present)
                fresh += [line for line in text.splitlines() if line not in known and not _is_part(line, (former, *own))]
            yield change.path, self.untrusted.marks_for("\n".join(fresh), sources)

    def _below(self, path: PurePosixPath) -> list[str]:
        """Return the untrusted files at or below a path of the workspace, as sources."""
        found = [*(self.untrusted.of(path) if path.parts else ()), *self.untrusted.below(path)]
        if (repository := repository_of(path)) is not None:
            found += self.untrusted.of(repository)
        return [*found, *self._received(path)]

    def _received(self, path: PurePosixPath) -> list[str]:
        """Return the folders of received files below a path that hold any, as sources."""
        below = [folder for folder in _RECEIVED if path in folder.parents]
        filled = [folder for folder in below if any(files for _, _, files in os.walk(self.root / folder))]
        return [one for folder in filled for one in self.untrusted.of(folder)]

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

    def _text(self, path: PurePosixPath) -> str | None:
        try:
            return (self.root / path).read_bytes().decode("utf-8", "replace")
        except OSError:
            return None


def _is_part(line: str, texts: Iterable[str]) -> bool:
    return any(line.strip() in text for text in texts)


def _in_order(sources: Iterable[str]) -> tuple[str, ...]:
    """Return sources in their order, each once, files of output last: they say the least of where text comes from."""
    return newest(sorted(sources, key=is_output))


def is_output(source: str) -> bool:
    """Say whether a source is a file of a command's output."""
    return bool(_OUTPUT.fullmatch(source.partition(":")[2]))


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
