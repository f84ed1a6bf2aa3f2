"""The gateway's errors, their exit codes and how they are printed.

HomebodyError               1   the command failed
├── UsageError              2   wrong usage of a command
├── SettingsError           3   invalid settings; lists all errors
├── NoModel                 4   no language model is configured, or its key was rejected
├── InvalidTransition       1   a ledger row is not in the state that the operation needs (a bug, or the operation was repeated)
├── GatewayNotResponding    1   a gateway holds the state lock but does not listen (yet)
├── AlreadyRunning          5   another process holds the state lock
└── StorageFailed           6   the disk is full, read-only or unreadable

The number is the exit code of the process. 0 is success, 130 an interruption by Ctrl-C.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from gateway.base.file_access import access_hint
from gateway.base.problem import Problem
from gateway.base.program import as_started

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
    errno.EFBIG: "Raise the file size limit (ulimit -f) and run the command again.",
    errno.EROFS: "The file system is read-only: mount it writable, or set HOMEBODY_HOME to another folder.",
    errno.EACCES: "Give your user access to it (chown, chmod), or set HOMEBODY_HOME to another folder.",
    errno.EPERM: "Give your user access to it (chown, chmod), or set HOMEBODY_HOME to another folder.",
}


class HomebodyError(Exception):
    """Base class. ``where`` is a file, a key or an address; ``hint`` is the command or step that fixes the problem."""

    exit_code: ClassVar[int] = FAILED

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message

    def as_json(self) -> dict[str, Any]:
        """Return the error as JSON values."""
        return {"error": self.message, "where": self.where, "mend": self.hint, "exitCode": self.exit_code}

    def as_text(self) -> str:
        """Return the error as text: one line, and a second one with the hint."""
        return _one_line(str(self)) + (f"\n  {self.hint}" if self.hint else "")


class UsageError(HomebodyError):
    """Raised for wrong usage of a command."""

    exit_code = USAGE


class SettingsError(HomebodyError):
    """Raised for invalid settings. ``problems`` lists all errors in the order of the file."""

    exit_code = SETTINGS_WRONG

    def __init__(self, problems: Sequence[Problem], *, where: str = "", hint: str = "") -> None:
        count = f"{len(problems)} errors" if len(problems) != 1 else "1 error"
        super().__init__(f"{count} in the configuration", where=where, hint=hint)
        self.problems = tuple(problems)

    def as_json(self) -> dict[str, Any]:
        """Return the error as JSON values."""
        return super().as_json() | {"problems": [problem.as_json() for problem in self.problems]}

    def as_text(self) -> str:
        """Return the errors as text: one line for each, with its hint below."""
        lines = [problem.as_text() for problem in self.problems]
        return "\n".join([*lines, *([self.hint] if self.hint else [])])


class NoModel(HomebodyError):
    """Raised when a language model is needed, and none is configured or its key was rejected."""

    exit_code = NO_MODEL


class InvalidTransition(HomebodyError):
    """Raised when a ledger row is not in the state that an operation needs, such as answering a message twice."""


class GatewayNotResponding(HomebodyError):
    """Raised when the running gateway's socket does not answer."""


class AlreadyRunning(HomebodyError):
    """Raised when another process holds the state lock."""

    exit_code = STATE_HELD


class StorageFailed(HomebodyError):
    """Raised when the disk is full, read-only or unreadable."""

    exit_code = STORAGE_FAILED

    @classmethod
    def from_os(cls, error: OSError, doing: str, where: object) -> StorageFailed:
        """Make the error from an OSError raised while ``doing`` something (``"write the settings"``) at ``where``."""
        hint = _STORAGE_HINTS.get(error.errno or 0, "")
        if error.errno in (errno.EACCES, errno.EPERM) and isinstance(where, str | Path):
            hint = access_hint(Path(where), "u+rwX") or hint
        return cls(f"could not {doing}: {error.strerror or error}", where=str(where), hint=hint)


def as_homebody_error(error: Exception) -> HomebodyError | None:
    """Convert an error of any package into a HomebodyError; None for an unexpected one.

    Errors of the other packages have a ``hint`` too. An OSError about the disk becomes StorageFailed.
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
    """Return the text that is printed on stderr for an error: lines for people, or one JSON object."""
    if as_json:
        facts = error.as_json()
        return json.dumps(facts | {"mend": as_started(facts["mend"])}, ensure_ascii=False)
    return f"homebody: {as_started(error.as_text())}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
