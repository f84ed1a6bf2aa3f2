"""The rules that the owner made by answering "always", and the built-in rules that they switched off: ``state/approvals.json``."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from gateway.base.atomic_file import write_atomically
from gateway.base.errors import StorageFailed

FILE_NAME: Final = "approvals.json"
_ID_LENGTH: Final = 8


class StoredRule(BaseModel):
    """One command that an agent may run without a question: this program, these words, in this folder, with these files unchanged.

    ``files`` holds the SHA-256 of files, by path.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")

    agent: str
    program: str
    argv: tuple[str, ...]
    cwd: str
    network: bool = False
    files: dict[str, str] = {}
    made: datetime

    @property
    def id(self) -> str:
        """A short name that follows from what the rule allows."""
        said = self.model_dump_json(exclude={"made"})
        return f"r{hashlib.sha256(said.encode()).hexdigest()[:_ID_LENGTH]}"


class _Document(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    version: int = 1
    rules: tuple[StoredRule, ...] = ()
    off: tuple[str, ...] = ()


class StoredRules:
    """Reads and changes the file, which is read again when it has changed. Methods block and may be called from threads.

    While the file cannot be read, there are no rules: everything is asked about, also what built-in rules allow.
    Where gateways on several machines share it, ``guard`` keeps them from changing it at once: it yields what is called before the file
    is written, and raises StorageFailed. ``changed`` is called after a change.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / FILE_NAME
        self._lock = Lock()
        self._seen: tuple[int, ...] | None = None
        self._document = _Document()
        self._problem: str | None = None
        self.guard: Callable[[], AbstractContextManager[Callable[[], None]]] | None = None
        self.changed: Callable[[], None] = lambda: None

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def look_again(self) -> None:
        """Read the file before the next answer: a network file system may not show that it has changed."""
        self._seen = None

    def problem(self) -> str | None:
        """Say what is wrong with the file; None if it can be read, or if there is none."""
        with self._lock:
            self._refresh()
            return self._problem

    def all(self) -> tuple[StoredRule, ...]:
        """Return the rules in the order in which they were made."""
        with self._lock:
            return self._refresh().rules

    def off(self) -> frozenset[str]:
        """Return the names of the built-in rules that are switched off."""
        with self._lock:
            return frozenset(self._refresh().off)

    def add(self, rule: StoredRule) -> None:
        """Add a rule. One that allows the same is replaced.

        Raises:
            StorageFailed: the file cannot be read or written.
        """
        self._change(lambda now: now.model_copy(update={"rules": (*(one for one in now.rules if one.id != rule.id), rule)}))

    def remove(self, identity: str) -> StoredRule | None:
        """Remove the rule with this id and return it; None if there is none. Raises StorageFailed like ``add``."""
        found = next((one for one in self.all() if one.id == identity), None)
        if found is not None:
            self._change(lambda now: now.model_copy(update={"rules": tuple(one for one in now.rules if one.id != identity)}))
        return found

    def switch(self, builtin: str, *, on: bool) -> None:
        """Switch a built-in rule on or off. Raises StorageFailed like ``add``."""
        self._change(
            lambda now: now.model_copy(update={"off": tuple(sorted({*now.off} - {builtin} if on else {*now.off, builtin}))})
        )

    def _change(self, change: Callable[[_Document], _Document]) -> None:
        with self._lock, self._alone() as still:
            self._seen = None
            before = self._refresh()
            if self._problem is not None:
                hint = "Mend the file, or move it away to start without stored rules."
                raise StorageFailed(self._problem, where=str(self._path), hint=hint)
            after = change(before)
            text = json.dumps(after.model_dump(mode="json", by_alias=True), ensure_ascii=False, indent=2) + "\n"
            still()
            try:
                write_atomically(self._path, text, durable=True)
            except OSError as error:
                raise StorageFailed.from_os(error, "write the stored rules", self._path) from error
            self._document, self._seen = after, self._stamp()
        self.changed()

    @contextmanager
    def _alone(self) -> Iterator[Callable[[], None]]:
        """Let nobody else change the file; yields what is called before it is written."""
        if self.guard is not None:
            with self.guard() as still:
                yield still
        else:
            with _locked(self._path.parent):
                yield lambda: None

    def _refresh(self) -> _Document:
        stamp = self._stamp()
        if stamp != self._seen:
            self._document, self._problem = self._read()
            self._seen = stamp
        return self._document

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = os.stat(self._path, follow_symlinks=False)  # noqa: PTH116 -- Path.stat costs more, and this is asked for each command
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def _read(self) -> tuple[_Document, str | None]:
        try:
            return _Document.model_validate_json(self._path.read_bytes()), None
        except FileNotFoundError:
            return _Document(), None
        except (OSError, ValidationError) as error:
            return _Document(), f"the stored rules cannot be read: {str(error).splitlines()[0]}"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, so that the command line and a gateway do not overwrite each other's changes."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StorageFailed.from_os(error, "open this folder", folder) from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)
