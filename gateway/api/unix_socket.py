"""The unix socket of the API: its path, and the rights on it.

A unix socket's path must fit ``sun_path`` (108 bytes on Linux, 104 on macOS). When the wanted path is longer, the socket is bound in
a short private directory, and a symlink at the wanted path points to it. Both directories must belong to this user alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import stat
from pathlib import Path

from gateway.base.errors import HomebodyError
from gateway.base.paths import user_name

LONGEST = 100
_FOREIGN = "belongs to another user"
SOCKET = "gateway.sock"
"""The API's socket, in the state directory."""


def locate(wanted: Path) -> Path:
    """Return the path to connect to for a socket wanted at ``wanted``."""
    try:
        return wanted.readlink()
    except OSError:
        return wanted


def bind(wanted: Path) -> socket.socket:
    """Return a bound socket (0600, in a directory 0700), ready to listen. A socket left behind there is replaced.

    Only the process that owns the state may call this.

    Raises:
        HomebodyError: the place cannot be used; the message says why and what helps.
    """
    private_directory(wanted.parent)
    path = wanted if len(os.fsencode(wanted)) <= LONGEST else _short(wanted) / "gateway.sock"
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _clear(wanted)
        _clear(path)
        sock.bind(os.fspath(path))
        path.chmod(0o600)
        if path != wanted:
            wanted.symlink_to(path)
    except OSError as error:
        sock.close()
        raise HomebodyError(
            f"cannot serve the terminal at {wanted}: {error}", hint=f"check the rights on {path.parent}"
        ) from error
    return sock


def clear(wanted: Path) -> None:
    """Remove the socket and the symlink that led to it."""
    real = locate(wanted)
    real.unlink(missing_ok=True)
    if real != wanted:
        wanted.unlink(missing_ok=True)


def private_directory(path: Path, *, through_symlink: bool = True) -> None:
    """Create or check a directory that only this user can enter.

    Raises:
        HomebodyError: it cannot be made, is somebody else's, or is shared.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        entry = path.stat() if through_symlink else path.lstat()
        trouble = _unfit(entry)
        if trouble:
            hint = (
                f"Run as its owner: sudo -u {user_name(entry.st_uid)} homebody gateway"
                if trouble == _FOREIGN
                else f"move {path} away"
            )
            raise HomebodyError(f"{path} {trouble}, so the gateway's socket cannot be there", hint=hint)
        if stat.S_IMODE(entry.st_mode) & 0o077:
            path.chmod(0o700)
    except OSError as error:
        raise HomebodyError(f"cannot use {path} for the gateway's socket: {error}", hint=f"check {path}") from error


def _unfit(entry: os.stat_result) -> str:
    if not stat.S_ISDIR(entry.st_mode):
        return "is no directory"
    if entry.st_uid != os.getuid():
        return _FOREIGN
    return "is shared by all users" if entry.st_mode & stat.S_ISVTX else ""


def _short(wanted: Path) -> Path:
    """Return a short directory of this user's own for a path that is too long; the same one each time."""
    mark = hashlib.sha256(os.fsencode(wanted.absolute())).hexdigest()[:12]
    name = f"homebody-{os.getuid()}-{mark}"
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and len(os.fsencode(runtime)) < LONGEST // 2:
        with contextlib.suppress(HomebodyError):
            private_directory(Path(runtime) / name, through_symlink=False)
            return Path(runtime) / name
    fallback = Path("/tmp") / name  # noqa: S108 - short by need; its owner and rights are checked
    private_directory(fallback, through_symlink=False)
    return fallback


def _clear(path: Path) -> None:
    """Remove a socket or symlink of a former run; anything else stays, and bind will say so."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISSOCK(mode) or stat.S_ISLNK(mode):
        path.unlink()
