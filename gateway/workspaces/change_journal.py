"""Who changed what since the last commit, on disk: a gateway that is killed knows it at its next start."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from agent.record_reader import RecordReader
from gateway.base.atomic_file import write_atomically
from gateway.workspaces.authored_commits import Reported
from memory.protocol import Author

log = logging.getLogger(__name__)

FILE: Final = "changes.jsonl"


class _Line(Struct, omit_defaults=True):
    """A written file, or with ``job`` a command that began; one that ended has no author."""

    path: str = ""
    job: str = ""
    kind: str = ""
    name: str = ""
    session: str = ""
    turn: str = ""


_LINES: Final = RecordReader[_Line](_Line)


class ChangeJournal:
    """Changes and commands by name, in a file of ``folder``. May be used from any thread. A disk that fails only costs who it was."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._guard = threading.Lock()

    def wrote(self, path: str, author: Author) -> None:
        """Note who wrote a file."""
        self._append(_line(author, path=path))

    def command(self, job: str, author: Author | None) -> None:
        """Note that a command began, with None that it ended."""
        self._append(_line(author, job=job) if author is not None else _Line(job=job))

    def read(self) -> tuple[list[Reported], dict[str, Author]]:
        """Return the changes, and the commands whose end was not seen. A last line that is cut off is left out."""
        changes: list[Reported] = []
        commands: dict[str, Author] = {}
        try:
            lines = self._path.read_bytes().splitlines()
        except OSError:
            return changes, commands
        for line in lines:
            try:
                one = _LINES.from_json(line)
            except msgspec.DecodeError:
                continue
            author = Author("agent" if one.kind == "agent" else "owner", one.name, one.session, one.turn)
            if one.path:
                changes.append(Reported(one.path, author))
            elif one.kind:
                commands[one.job] = author
            else:
                commands.pop(one.job, None)
        return changes, commands

    def keep(self, changes: Iterable[Reported], commands: dict[str, Author]) -> None:
        """Forget all but these."""
        lines = [_line(one.author, path=one.path) for one in changes]
        lines += [_line(author, job=job) for job, author in commands.items()]
        with self._guard:
            try:
                if lines:
                    write_atomically(self._path, "".join(f"{msgspec.json.encode(one).decode()}\n" for one in lines))
                else:
                    self._path.unlink(missing_ok=True)
            except (OSError, UnicodeError) as error:
                log.warning("%s could not be written: %s", self._path, error)

    def _append(self, line: _Line) -> None:
        with self._guard:
            try:
                with self._path.open("ab") as file:
                    file.write(msgspec.json.encode(line) + b"\n")
            except (OSError, UnicodeError) as error:
                log.warning("%s could not be written: %s", self._path, error)


def _line(author: Author, path: str = "", job: str = "") -> _Line:
    return _Line(path, job, author.kind, author.name, author.session, author.turn)
