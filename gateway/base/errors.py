"""The gateway's errors, their exit codes, and how they are printed with the command that mends them.

HomebodyError               1   the command failed
├── UsageError              2   wrong usage of a command
│   └── ScheduleError       2   a time, an interval or a cron expression that cannot be used
├── SettingsError           3   invalid settings; lists all errors
├── NoModel                 4   no language model is configured, or its key was rejected
├── Conflict                1   something was done already, or what it is about was changed meanwhile
│   └── InvalidTransition   1   a ledger row is not in the state that the operation needs (a bug, or the operation was repeated)
├── RunnerGone              1   the process that runs commands is not there
├── NotStarted              1   a command could not be executed
├── GitFailed               1   the git program, or the repository of a workspace
├── BackupUnusable          1   a backup that is damaged, cannot be opened with the key at hand, or does not belong there
├── GatewayNotResponding    1   a gateway holds the state lock but does not listen (yet)
├── HolderAway              1   the gateway of a cluster that something belongs to cannot be reached, or there is none at the moment
├── AlreadyRunning          5   another process holds the state lock
└── StorageFailed           6   the disk is full, read-only or unreadable, or too many files are open

The number is the exit code of the process. 0 is success, 130 an interruption by Ctrl-C.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from msgspec import Struct

OK = 0
FAILED = 1
USAGE = 2
SETTINGS_WRONG = 3
NO_MODEL = 4
STATE_HELD = 5
STORAGE_FAILED = 6
INTERRUPTED = 130

_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
_STORAGE_ERRNOS = _NO_DESCRIPTOR | frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO}
)
_STORAGE_HINTS = {
    errno.EMFILE: "A higher limit is set by LimitNOFILE= in the systemd unit, or by ulimit -n; ls -l /proc/PID/fd shows what is open.",
    errno.ENFILE: "The whole machine has too many files open: end programs, or raise fs.file-max (sudo sysctl).",
    errno.ENOSPC: "Free some space on that disk and run the command again.",
    errno.EDQUOT: "Free some of your disk quota and run the command again.",
    errno.EFBIG: "Raise the file size limit (ulimit -f) and run the command again.",
    errno.EROFS: "The file system is read-only: mount it writable, or set HOMEBODY_HOME to another folder.",
    errno.EACCES: "Give your user access to it (chown, chmod), or set HOMEBODY_HOME to another folder.",
    errno.ENOTDIR: "A parent of this path is a file. Move that file away.",
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


class ScheduleError(UsageError):
    """Raised for a schedule that cannot be used. ``hint`` has an example that works."""


def unknown_agent(agent: object, known: Iterable[str]) -> UsageError:
    """Return the error for an agent that the settings do not have."""
    new = shlex.quote(str(agent).strip().lower())
    return UsageError(
        f"there is no agent {agent!r}", hint=f"There is: {', '.join(known)}. To add it: homebody agents add {new}"
    )


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


class Conflict(HomebodyError):
    """Raised when something cannot be done as things are now: it was done already, or what it is about was changed meanwhile."""


class InvalidTransition(Conflict):
    """Raised when a ledger row is not in the state that an operation needs, such as answering a message twice."""

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message, where=where, hint=hint or "It was done already, or changed meanwhile: look at it again.")


class GitFailed(HomebodyError):
    """Raised when a workspace cannot be read from or brought to its repository. ``kind`` says what is wrong.

    "away": nobody answers. "refused": the other side does not let us in. "rejected": somebody else pushed before us. "damaged": the
    repository of this machine cannot be read. "unfit": the other one has an object that git takes from nobody. "failed": anything else,
    such as a git program that is not there.
    """

    def __init__(self, message: str, *, kind: str = "failed", where: str = "", hint: str = "") -> None:
        super().__init__(message, where=where, hint=hint)
        self.kind = kind


class BackupUnusable(HomebodyError):
    """Raised for a backup that is damaged, cannot be opened with the key at hand, or is of a later version."""


class BackupLocked(BackupUnusable):
    """Raised for a backup whose key or passphrase is not at hand: nothing is known of what is in it."""


class RestoreUnfinished(HomebodyError):
    """Raised where a restore or a migration was broken off, so that the home is not what it was nor what it is to be."""


class GatewayNotResponding(HomebodyError):
    """Raised when the running gateway's socket does not answer."""


class OtherVersion(HomebodyError):
    """Raised when the gateway that runs is of another version than the command, and does not know what the command asks."""


class HolderAway(HomebodyError):
    """Raised when what is asked for belongs to another gateway of a cluster, and that one does not answer: later it may."""


class AlreadyRunning(HomebodyError):
    """Raised when another process holds the state lock."""

    exit_code = STATE_HELD


class StorageFailed(HomebodyError):
    """Raised when the disk is full, read-only or unreadable, or too many files are open."""

    exit_code = STORAGE_FAILED

    @classmethod
    def from_os(cls, error: OSError, doing: str, where: object) -> StorageFailed:
        """Make the error from an OSError raised while ``doing`` something (``"write the settings"``) at ``where``."""
        hint = _STORAGE_HINTS.get(error.errno or 0, "")
        if error.errno in (errno.EACCES, errno.EPERM) and isinstance(where, str | Path):
            hint = access_hint(Path(where), "u+rwX") or hint
        return cls(f"could not {doing}: {error.strerror or error}", where=str(where), hint=hint)


class StorageAway(StorageFailed):
    """Raised when the server of the database does not answer, or is only starting: later it may."""


def no_descriptor(error: Exception) -> StorageFailed | None:
    """Return the error where a file or connection could not be opened because too many are open; None for any other."""
    if isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR:
        return StorageFailed.from_os(error, "open this file", error.filename or "storage")
    return None


def about_storage(error: BaseException) -> bool:
    """Whether an error of any package says so (its ``about_storage``), or comes of one that the disk caused."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, StorageFailed) or getattr(cause, "about_storage", False):
            return True
        if isinstance(cause, OSError) and cause.errno in _STORAGE_ERRNOS:
            return True
        cause = cause.__cause__
    return False


def first_of(error: BaseException) -> BaseException:
    """Return the first error of a group, also where groups are within groups; another error as it is."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def as_homebody_error(error: Exception) -> HomebodyError | None:
    """Convert an error of any package into a HomebodyError; None for an unexpected one.

    Errors of the other packages have a ``hint`` too. An OSError about the disk, and what comes of one, becomes StorageFailed. Of a
    group of errors it is the first that is known, if all are.
    """
    if isinstance(error, ExceptionGroup):
        known = [as_homebody_error(one) for one in error.exceptions]
        return known[0] if all(known) else None
    if isinstance(error, HomebodyError):
        return error
    if isinstance(error, OSError) and error.errno in _STORAGE_ERRNOS:
        return StorageFailed.from_os(error, "use this file", error.filename or "storage")
    hint = getattr(error, "hint", None)
    if isinstance(hint, str):
        kind = StorageFailed if about_storage(error) else HomebodyError
        return kind(str(error) or type(error).__name__, hint=hint)
    if isinstance(error, RuntimeError) and "home directory" in str(error):  # of pathlib
        return StorageFailed("your home folder is unknown", where="~", hint="Set HOME to a folder of yours.")
    return None


def error_text(error: HomebodyError, *, as_json: bool) -> str:
    """Return the text that is printed on stderr for an error: lines for people, or one JSON object."""
    if as_json:
        facts = error.as_json()
        return json.dumps(with_commands_as_started(facts), ensure_ascii=False)
    return f"homebody: {as_started(error.as_text())}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


class Problem(Struct, frozen=True):
    """An error or a warning.

    ``message``: what was found and what is allowed; never contains a secret. ``path``: the dotted key as written in the file.
    ``line``: 1-based, 0 if unknown. ``environment``: the file is valid but something outside it is missing (a variable, a
    secret's file), which does not prevent an edit of the file.
    """

    message: str
    path: str = ""
    file: str = ""
    line: int = 0
    hint: str = ""
    environment: bool = False

    @property
    def place(self) -> str:
        """``file:line``, as editors and terminals recognise it."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def as_json(self) -> dict[str, Any]:
        """Return the error as JSON values."""
        return {
            "path": self.path or None,
            "file": self.file or None,
            "line": self.line or None,
            "message": self.message,
            "mend": self.hint or None,
        }

    def as_text(self) -> str:
        """Return the problem as text for people."""
        head = ": ".join(part for part in (self.place, self.path, self.message) if part)
        return f"{head}\n  {self.hint}" if self.hint else head


NAME = "homebody"
_COMMAND = re.compile(rf"(?<![\w./~-]){NAME}(?= (?!{NAME} )(?:-{{1,2}}[a-z]|[a-z]+\b))")
_NAMES_A_HOME = re.compile(r" --(?:home|profile)\b")
_NOT_A_COMMAND = re.compile(r" (?:is|was|runs|has|holds|will|may|can|and|or|process|processes|gateway runs)\b")


def program_name(argv0: str | None = None, *, path: str | None = None, cwd: Path | None = None) -> str:
    """Return ``homebody`` if the shell finds this program under that name, else the path by which it was started.

    The path is relative if the program is inside the current folder. ``argv0``, ``path`` (the PATH) and
    ``cwd`` are those of the process unless given. A program started as ``python -m gateway`` is called ``homebody``.
    """
    started = Path(sys.argv[0] if argv0 is None else argv0)
    if started.name != NAME:
        return NAME
    found = shutil.which(NAME, path=path)
    if found is not None and os.path.realpath(found) == os.path.realpath(started):
        return NAME
    absolute, here = started.absolute(), (cwd or Path.cwd()).absolute()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)


def write_commands_with(options: Callable[[], str] | None) -> None:
    """Have every command in texts written with these global options, such as ``--profile work``; None: with none.

    They are asked for once, when the first command is written.
    """
    global _options
    _options = functools.cache(options) if options is not None else None


_options: Callable[[], str] | None = None


def as_started(text: str, name: str | None = None) -> str:
    """Return ``text`` with every ``homebody COMMAND`` written as this process was started, with its global options.

    ``name``: the program's name, if not the one by which it was started. A command that names its home already keeps that.
    """
    called = program_name() if name is None else name
    options = _options() if _options is not None and _COMMAND.search(text) else ""
    if called == NAME and not options:
        return text

    def written(found: re.Match[str]) -> str:
        if _NOT_A_COMMAND.match(text, found.end()):
            return found[0]
        return called if not options or _NAMES_A_HOME.match(text, found.end()) else f"{called} {options}"

    return _COMMAND.sub(written, text)


def for_chat(text: str) -> str:
    """Return a text of this program for a chat or the page: commands by the program's name, as they are typed wherever it is read."""
    return as_started(text, NAME)


OURS: Final = frozenset(
    {
        "mend",
        "hint",
        "raise",
        "next",
        "show",
        "why",
        "whyNot",
        "trouble",
        "problem",
        "note",
        "notes",
        "warning",
        "warnings",
        "reason",
        "error",
    }
)
"""Fields of JSON in which this program speaks, and not a person, a model or a platform."""


def with_commands_as_started(facts: Any, *, ours: bool = False, name: str | None = None) -> Any:
    """Return JSON values with the commands in the fields of ``OURS`` as ``as_started`` writes them in texts."""
    called = program_name() if name is None else name
    if called == NAME and _options is None:
        return facts
    if isinstance(facts, str):
        return as_started(facts, called) if ours else facts
    if isinstance(facts, Mapping):
        return {key: with_commands_as_started(one, ours=key in OURS, name=called) for key, one in facts.items()}
    if isinstance(facts, list | tuple):
        return [with_commands_as_started(one, ours=ours, name=called) for one in facts]
    return facts


IN_CONTAINER = "HOMEBODY_CONTAINER"
"""The variable that the container image sets."""


def access_hint(path: Path, rights: str = "u+rw", *, uid: int | None = None) -> str:
    """Return the command that gives this user access to ``path``, which need not exist; "" if no safe one is known.

    If another user owns it (as after a run with sudo), the command is ``sudo chown`` of the highest such folder below a folder
    that we own, or of the path alone if we own none above it. Otherwise it is ``chmod`` with ``rights``. ``uid`` defaults to
    that of the process.
    """
    us = os.geteuid() if uid is None else uid
    if os.environ.get(IN_CONTAINER):
        return (
            f"The container runs as user {us}. On the machine itself, run: sudo chown -R {us}:{os.getegid()} FOLDER   "
            f"(the folder that compose.yaml mounts at {path})"
        )
    there = [one for one in (path.absolute(), *path.absolute().parents) if _owner(one) is not None]
    if not there or len(there[0].parts) <= 2:  # noqa: PLR2004 - "/" and what lies right below it are the system's
        return ""
    if _owner(there[0]) == us:
        return f"Run: chmod {rights} {shlex.quote(str(there[0]))}"
    ours = next((place for place, one in enumerate(there) if _owner(one) == us), 1)
    return f'Another user owns it (this happens after a run with sudo). Run: sudo chown -R "$USER" {shlex.quote(str(there[ours - 1]))}'


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None
