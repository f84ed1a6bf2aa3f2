"""What the rungs share: the program that is started, its environment, and the folders that a request names."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Mapping

from gateway.sandbox.protocol import CannotConfine, Request

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/run/current-system/sw/bin"
_NO_WORKSPACE = ("/proc", "/sys", "/dev")


def command_line(request: Request, *, processes: int | None = None) -> tuple[str, ...]:
    """Return what to execute for a request. A shell finds the program and ends with 126 or 127 where it cannot be run.

    With ``processes`` it runs inside bubblewrap: the shell first limits how many there may be, which in a user namespace counts those
    inside alone, and the command takes the terminal for itself, so that Ctrl-C reaches it and not bubblewrap.
    """
    if not request.argv or any("\0" in argument for argument in request.argv):
        raise CannotConfine("a command has a program, and no NUL characters")
    if processes is None:
        return ("/bin/sh", "-c", 'exec "$@"', "sh", *request.argv)
    terminal = ("/usr/bin/setsid", "-c") if request.pty else ()
    limited = 'ulimit -u "$1" 2>/dev/null || ulimit -p "$1"; shift; exec "$@"'
    return (*terminal, "/bin/sh", "-c", limited, "sh", str(processes), *request.argv)


def environment(request: Request, *, home: str, tmp: str, path: str = PATH) -> Mapping[str, str]:
    """Return the whole environment of a command: a few variables that every program expects, and those of the request.

    Git is told that there are no settings of the machine: it gives up where it may not read them. Raises CannotConfine for a
    variable that no environment can hold.
    """
    for name, value in request.env.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            raise CannotConfine("this is no name, or no value, of a variable", where=repr(name)[:100])
    user = user_name()
    usual = {"PATH": path, "HOME": home, "TMPDIR": tmp, "USER": user, "LOGNAME": user, "SHELL": "/bin/sh", "LANG": "C.UTF-8"}
    git = {"GIT_CONFIG_NOSYSTEM": "1"}
    return {**usual, **git, "TERM": "xterm-256color" if request.pty else "dumb", **request.env}


def user_name() -> str:
    """Return the name of the user that the gateway runs as; his number where he has none."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user{os.geteuid()}"


def workspace(request: Request) -> str:
    """Return the workspace as it really lies. Raises CannotConfine where there is none that can be shown."""
    found = _real(request.workspace)
    if (
        not os.path.isabs(request.workspace)
        or found == "/"
        or f"{found}/".startswith(tuple(f"{folder}/" for folder in _NO_WORKSPACE))
    ):
        raise CannotConfine(
            "a command cannot be confined to this workspace", where=request.workspace, hint="Choose another folder for it."
        )
    try:
        if stat.S_ISDIR(os.stat(found).st_mode):
            return found
    except OSError as error:
        raise CannotConfine(f"the workspace cannot be opened ({error.strerror})", where=request.workspace) from error
    raise CannotConfine("the workspace is not a folder", where=request.workspace)


def folder(request: Request) -> str:
    """Return the folder to start in, as it really lies. Raises CannotConfine where it is not a folder of the workspace."""
    found, around = _real(request.cwd), workspace(request)
    if not below(found, around):
        raise CannotConfine("a command starts in the workspace or a folder in it", where=request.cwd)
    if not os.path.isdir(found):
        raise CannotConfine("there is no such folder", where=request.cwd)
    return found


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError as error:  # a NUL character
        raise CannotConfine("this is no path", where=repr(path)[:100]) from error


def below(path: str, outer: str) -> bool:
    """Whether a path is that folder or lies in it. Both are absolute and free of links."""
    return path == outer or path.startswith(outer.rstrip("/") + "/")
