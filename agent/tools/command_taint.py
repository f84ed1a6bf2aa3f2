"""What of a command is untrusted: what it prints, by what it may have read, and what it writes, by what was in view when it was started.

A command that may use the network prints untrusted text. One without reads the workspace alone (its sandbox sees to that): its words name
the files that it reads; one that names none, or needs a shell, may have read all that lies around it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path, PurePosixPath
from typing import Final

from agent.taint import merged
from agent.tools.file_tool_context import STANDING_FILES
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
_SYSTEM: Final = {(name,) for name in ("usr", "etc", "bin", "sbin", "lib", "lib64", "proc", "sys", "dev", "tmp", "opt", "run")}
_RECEIVED: Final = (PurePosixPath(INBOX), PurePosixPath("memory/peers"), PurePosixPath("memory/groups"))
_EARLIER: Final = 20_000_000
"""Nanoseconds by which the clock of file systems may be behind."""
_NEVER: Final = frozenset({".git"})


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
        if act.argv is None:
            return merged(found, self._below(PurePosixPath()))
        named = [path for word in act.argv[1:] for path in self._paths(word, act.cwd)]
        for path in named:
            if (inside := self._inside(path)) is not None:
                found += self._below(inside)
            elif path.parts[1:2] not in _SYSTEM:
                found.append(ELSEWHERE)
        if not named and Path(act.argv[0]).name not in BLIND:
            found += self._below(self._inside(Path(act.cwd or self.root)) or PurePosixPath())
        return merged(found)

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

    def _inside(self, path: Path) -> PurePosixPath | None:
        try:
            return PurePosixPath(path.relative_to(self.root))
        except ValueError:
            return None

    def _changed(self, since: int) -> Iterator[PurePosixPath]:
        """Yield the files of which something changed: the time of it cannot be set back by a program."""
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if name not in _NEVER]
            for name in files:
                path = Path(folder, name)
                try:
                    changed = path.lstat().st_ctime_ns >= since
                except OSError:  # it is gone meanwhile
                    continue
                if changed:
                    yield PurePosixPath(path.relative_to(self.root))

    def _text(self, path: PurePosixPath) -> str | None:
        try:
            return (self.root / path).read_bytes().decode("utf-8", "replace")
        except OSError:
            return None
