"""The commands of one agent that have not ended: what they changed counts as untrusted before the record says so.

The record is written when a command ends. Until then each question about a file is answered by looking at the file: whoever asks has read
it by then, so whatever a command put there before is found.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from agent.tools.command_taint import CommandTaint, Watch
from agent.tools.packed_marks import Marks
from agent.tools.untrusted_files import joined


class _Command(Struct, frozen=True):
    watch: Watch
    look: Callable[[], None]
    ended: bool = False


class UnfinishedCommands:
    """Implements ``agent.tools.untrusted_files.Unfinished``. Safe to use from several threads; all but ``put`` and ``drop`` may block."""

    def __init__(self, files: CommandTaint) -> None:
        self._files = files
        self.running: dict[str, _Command] = {}
        self._here = threading.local()
        files.untrusted.unfinished = self

    def __bool__(self) -> bool:
        return bool(self.running)

    def watch_of(self, name: str) -> Watch | None:
        """Return the watch of a command that has not ended."""
        found = self.running.get(name)
        return found.watch if found is not None else None

    def put(self, name: str, watch: Watch, look: Callable[[], None] = lambda: None) -> None:
        """Take in a command that is about to start, or what is known of it now.

        ``look`` is called in the threads of those who ask, as long as the watch says that nothing untrusted is within the command's reach:
        it puts another watch here where something has come since.
        """
        self.running[name] = _Command(watch, look)

    def drop(self, name: str) -> None:
        """Forget a command that was not started."""
        self.running.pop(name, None)
        if not self.running:
            self._files.untrusted.forget_own_lines()

    def end(self, name: str) -> None:
        """Record what a command that has ended changed, and what could not be recorded of others before.

        One whose files cannot be recorded stays here, so that they go on to count as untrusted. Raises OSError.
        """
        if (found := self.running.get(name)) is not None:
            self.running[name] = replace(found, ended=True)
        for one, command in list(self.running.items()):
            if command.ended:
                self._files.end(command.watch)
                self.drop(one)

    @contextmanager
    def checked_once(self) -> Iterator[None]:
        """See ``Unfinished``."""
        state = vars(self._here)
        if state.get("looked"):
            yield
            return
        state["looked"] = True
        try:
            before = -1
            while (clean := self._clean()) and len(clean) != before:  # one may have read what another wrote
                before = len(clean)
                for command in clean:
                    command.look()
            yield
        finally:
            state["looked"] = False

    @contextmanager
    def others(self, name: str) -> Iterator[list[int]]:
        """Have questions within answered without what this command wrote; give the times since when others may have written."""
        state = vars(self._here)
        former = state.get("without")
        with self.checked_once():
            state["without"] = name
            try:
                yield [watch.since for watch in self._tainted()]
            finally:
                state["without"] = former

    def marks(self, path: PurePosixPath, text: str | None = None) -> Marks:
        """See ``Unfinished``."""
        return joined([self._files.so_far(watch, path, text) for watch in self._tainted()])

    def below(self, folder: PurePosixPath) -> dict[PurePosixPath, Marks]:
        """See ``Unfinished``."""
        found: dict[PurePosixPath, list[Marks]] = {}
        for watch in self._tainted():
            for path, marks in self._files.so_far_below(watch, folder):
                found.setdefault(path, []).append(marks)
        return {path: joined(marks) for path, marks in found.items()}

    def _clean(self) -> list[_Command]:
        return [command for command in list(self.running.values()) if not (command.watch.taint or command.ended)]

    def _tainted(self) -> list[Watch]:
        without = vars(self._here).get("without")
        return [one.watch for name, one in list(self.running.items()) if one.watch.taint and name != without]
