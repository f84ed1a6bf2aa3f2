"""Lock on the state folder: a kernel file lock, which is released even after a crash."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import stat
import time
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from gateway.base.errors import AlreadyRunning, StorageFailed

_TRIES = 6
_PAUSE = 0.05
_MODE = 0o600


class Holder(Struct, frozen=True, kw_only=True):
    """The process that holds the lock, as it describes itself: for messages, and to find its socket. ``started`` is ISO 8601."""

    pid: int = 0
    boot: str = ""
    started: str = ""
    socket: str = ""
    http_port: int | None = None
    command: str = ""
    """The single command that it runs, such as ``homebody memory tidy``; nothing is served."""
    conversation: bool = False
    """It runs for a conversation in a terminal and ends with it; no chat platform is connected."""
    waits: str = ""
    """Why it does not listen yet, if its database does not answer; ``mend`` says what helps."""
    mend: str = ""
    restarts: bool = False
    """It has released the lock to start itself again, as the same process."""


class StateLock:
    """The lock on ``state/gateway.lock``, held as long as the file is open: until ``release`` or the end of the process."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path

    @classmethod
    def acquire(cls, path: Path, holder: Holder | None = None) -> StateLock:
        """Take the lock and write who holds it.

        Raises:
            AlreadyRunning: another process has it.
            StorageFailed: the file cannot be used.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, _MODE)
        except IsADirectoryError as error:
            raise _no_file(path) from error
        except OSError as error:
            raise StorageFailed.from_os(error, "take the state lock", path) from error
        if not _lock(descriptor):
            os.close(descriptor)
            found = describe(path) or Holder()
            if found.command:
                raise command_running(found, path.parent)
            by = f" ({found.pid}, since {found.started})" if found.pid else ""
            raise AlreadyRunning(
                f"a conversation in a terminal{by} is using this folder"
                if found.conversation
                else f"another Homebody process{by} is using this folder",
                where=str(path.parent),
                hint="Leave it first (Ctrl-D), or join it with `homebody chat`."
                if found.conversation
                else "Connect to it with `homebody chat`, or stop it first: homebody stop",
            )
        lock = cls(descriptor, path)
        lock.write(holder or Holder(pid=os.getpid()))
        return lock

    def write(self, holder: Holder) -> None:
        """Update the holder's description (with the port, say). It is informative only."""
        text = json.dumps(asdict(holder)).encode()
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, text, 0)
        except OSError as error:
            raise StorageFailed.from_os(error, "write the state lock", self._path) from error

    def release(self) -> None:
        """Release the lock. The file is not removed, because then two processes could lock two files of the same name."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _no_file(path: Path) -> StorageFailed:
    hint = f"Move it away: mv {shlex.quote(str(path))} {shlex.quote(f'{path}.broken')}"
    return StorageFailed("the state lock is a folder, and has to be a file", where=str(path), hint=hint)


def command_running(holder: Holder, folder: Path) -> AlreadyRunning:
    """Return the error that names the single command which holds a folder."""
    return AlreadyRunning(
        f"`{holder.command}` is running (process {holder.pid}, since {holder.started}) and uses this folder",
        where=str(folder),
        hint="Wait until it has ended, then run the command again: what it finds is kept.",
    )


def describe(path: Path) -> Holder | None:
    """Return who holds the lock; None if nobody does. An unreadable description gives an empty ``Holder``."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageFailed.from_os(error, "look at the state lock", path) from error
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise _no_file(path)
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def restarting(path: Path) -> Holder | None:
    """Return who held the lock last, where it is the same process that is about to take it again; else None."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        found = _read(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.kill(found.pid, 0)
    except PermissionError:
        pass
    except (OSError, OverflowError):
        return None
    return found if found.restarts and found.pid > 0 and found.boot == boot_id() else None


def boot_id() -> str:
    """The kernel's boot id; "" if there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _lock(descriptor: int) -> bool:
    """Retry for a moment, because ``describe`` in another process holds the lock briefly."""
    for attempt in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < _TRIES:
                time.sleep(_PAUSE)
        else:
            return True
    return False


def _read(descriptor: int) -> Holder:
    try:
        found = json.loads(os.pread(descriptor, 65536, 0))
        return Holder(**{name: value for name, value in found.items() if name in Holder.__struct_fields__})
    except (OSError, ValueError, TypeError, AttributeError):
        return Holder()
