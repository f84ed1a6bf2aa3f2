"""What can go wrong in the gateway, and how a person is told.

HomebodyError               1   the command failed
├── UsageError              2   the command was given wrongly
├── SettingsError           3   the configuration holds errors; all of them at once
├── NoModel                 4   no language model is configured, or its key was refused
├── InvalidTransition               1   the ledger was asked for a step that its rows do not allow (a defect, or a step taken twice)
├── GatewayNotResponding            1   the gateway that holds the state does not listen (yet)
├── AlreadyRunning               5   another gateway holds the state
└── StorageFailed           6   a disk that is full, read-only, or cannot be read

The figure is the exit code of the process. 0 is success and 130 is an interruption by Ctrl-C.
"""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gateway.base.file_access import access_hint
from gateway.base.program import as_started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.base.problem import Problem

OK = 0
FAILED = 1
USAGE = 2
SETTINGS_WRONG = 3
NO_MODEL = 4
STATE_HELD = 5
STORAGE_FAILED = 6
INTERRUPTED = 130

_STORAGE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO})
_STORAGE_HINTS = {
    errno.ENOSPC: "Free some space on that disk and run the command again.",
    errno.EDQUOT: "Free some of your disk quota and run the command again.",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f) and run the command again.",
    errno.EROFS: "That file system is read-only: mount it writable, or point HOMEBODY_HOME elsewhere.",
    errno.EACCES: "Give your user access to it (chown, chmod), or point HOMEBODY_HOME elsewhere.",
    errno.EPERM: "Give your user access to it (chown, chmod), or point HOMEBODY_HOME elsewhere.",
}


class HomebodyError(Exception):
    """Base of this room. ``where`` is a file, a key or an address; ``hint`` is the command or step that puts it right."""

    exit_code: ClassVar[int] = FAILED

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message

    def as_json(self) -> dict[str, Any]:
        """The same, for programs."""
        return {"error": self.message, "where": self.where, "mend": self.hint, "exitCode": self.exit_code}

    def as_text(self) -> str:
        """The same, for people: one line, and one more that says what to do."""
        return _one_line(str(self)) + (f"\n  {self.hint}" if self.hint else "")


class UsageError(HomebodyError):
    """Raised for a command that was given wrongly."""

    exit_code = USAGE


class SettingsError(HomebodyError):
    """Raised for a configuration that cannot be used. ``problems`` holds every error of it, in the order of the file."""

    exit_code = SETTINGS_WRONG

    def __init__(self, problems: Sequence[Problem], *, where: str = "", hint: str = "") -> None:
        count = f"{len(problems)} errors" if len(problems) != 1 else "1 error"
        super().__init__(f"{count} in the configuration", where=where, hint=hint)
        self.problems = tuple(problems)

    def as_json(self) -> dict[str, Any]:
        """The same, for programs."""
        return super().as_json() | {"problems": [problem.as_json() for problem in self.problems]}

    def as_text(self) -> str:
        """The same, for people: each error on a line of its own with its mend below it."""
        lines = [problem.as_text() for problem in self.problems]
        return "\n".join([*lines, *([self.hint] if self.hint else [])])


class NoModel(HomebodyError):
    """Raised when a language model is needed and none answers: none configured, or its key was refused."""

    exit_code = NO_MODEL


class InvalidTransition(HomebodyError):
    """Raised when the ledger is asked for a step that its rows do not allow, such as answering a message twice."""


class GatewayNotResponding(HomebodyError):
    """Raised when nobody listens where the running gateway should."""


class AlreadyRunning(HomebodyError):
    """Raised when another process holds the state."""

    exit_code = STATE_HELD


class StorageFailed(HomebodyError):
    """Raised when a disk is full, read-only, or cannot be read."""

    exit_code = STORAGE_FAILED

    @classmethod
    def from_os(cls, error: OSError, doing: str, where: object) -> StorageFailed:
        """Tell an OSError that came up while ``doing`` something (``"write the settings"``) at ``where``."""
        hint = _STORAGE_HINTS.get(error.errno or 0, "")
        if error.errno in (errno.EACCES, errno.EPERM) and isinstance(where, str | Path):
            hint = access_hint(Path(where), "u+rwX") or hint
        return cls(f"could not {doing}: {error.strerror or error}", where=str(where), hint=hint)


def as_homebody_error(error: Exception) -> HomebodyError | None:
    """Translate an error of any room into this one's words, or return None for a defect.

    The other rooms' errors carry a ``hint`` of their own; an OSError that speaks of the disk is a StorageFailed.
    """
    if isinstance(error, HomebodyError):
        return error
    if isinstance(error, OSError) and error.errno in _STORAGE_ERRNOS:
        return StorageFailed.from_os(error, "use this file", error.filename or "storage")
    hint = getattr(error, "hint", None)
    if isinstance(hint, str):
        return HomebodyError(str(error) or type(error).__name__, hint=hint)
    return None


def error_text(error: HomebodyError, *, as_json: bool) -> str:
    """Return what stderr shows for an error: lines for people, or one JSON object."""
    if as_json:
        facts = error.as_json()
        return json.dumps(facts | {"mend": as_started(facts["mend"])}, ensure_ascii=False)
    return f"homebody: {as_started(error.as_text())}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
