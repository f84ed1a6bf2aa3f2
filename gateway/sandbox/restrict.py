"""Applies a confinement plan to the current process and executes its command. Imports the standard library alone.

The runner loads this file by its path and calls `become` in the child, after fork and after the standard streams are in place.
It is also a program: ``python -I -S restrict.py FD`` reads a plan as JSON from that descriptor, to its end, and executes it.
The plan is what ``Confined.to_json`` in ``protocol.py`` returns.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import resource
import signal
import stat
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

LANDLOCK_CREATE_RULESET = 444
LANDLOCK_ADD_RULE = 445
LANDLOCK_RESTRICT_SELF = 446  # the same numbers on every architecture
_VERSION = 1
_PATH_BENEATH = 1
_FILE_RIGHTS = (
    1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15
)  # execute, write, read, truncate, ioctl: what a rule for a file may name
_CLOSE_RANGE = 436
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_CLEAR_ALL = 4
_CAPABILITY_VERSION = 0x20080522
_SECCOMP_MODE_FILTER = 2

_libc = ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """Return the version of the kernel's Landlock interface; 0 where there is none."""
    found: int = _libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION))
    return max(found, 0)


def become(plan: Mapping[str, Any]) -> NoReturn:
    """Apply the plan and execute its command. Raises OSError where a step fails, and the command has not been started then."""
    apply(plan)
    argv = plan["argv"]
    os.execve(argv[0], argv, plan["env"])  # noqa: S606 -- no shell is wanted


def apply(plan: Mapping[str, Any]) -> None:
    """Do everything that the plan says but execute the command. Descriptors above 2 are closed, but for those that the plan makes."""
    os.chdir(plan["cwd"])
    # Python ignores the first two, and a gateway that was started with nohup or in the background of a script the others.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _files(plan["files"])
    for name, value in plan["rlimits"]:
        _limit(getattr(resource, f"RLIMIT_{name}"), value)
    if plan["drop"]:
        _drop_capabilities()
    if plan["landlock"] or plan["seccomp"]:
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if plan["landlock"]:
        _landlock(**plan["landlock"])
    if plan["seccomp"]:
        _seccomp(base64.b64decode(plan["seccomp"]))


def _files(contents: Sequence[str]) -> None:
    """Put the contents behind descriptors 3, 4, ... and close every other descriptor above 2."""
    made = [_file(base64.b64decode(encoded)) for encoded in contents]
    above = max((2 + len(made), *made)) + 1
    moved = [os.dup2(number, above + place) for place, number in enumerate(made)]
    for place, number in enumerate(moved):
        os.dup2(number, 3 + place)
    _close_from(3 + len(made))


def _file(data: bytes) -> int:
    made = os.memfd_create("plan")
    while data:
        data = data[os.write(made, data) :]
    os.lseek(made, 0, os.SEEK_SET)
    return made


def _close_from(first: int) -> None:
    if _libc.syscall(ctypes.c_long(_CLOSE_RANGE), ctypes.c_uint(first), ctypes.c_uint(0xFFFF_FFFF), ctypes.c_uint(0)):
        highest = max((int(entry.name) for entry in os.scandir("/proc/self/fd")), default=first)  # kernels before 5.9
        os.closerange(first, highest + 1)


def _limit(which: int, value: int) -> None:
    _soft, hard = resource.getrlimit(which)
    most = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (most, most))


def _prctl(option: int, value: int, more: int = 0) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(more), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        _fail(f"prctl {option}")


def _drop_capabilities() -> None:
    """Give up what root may do besides owning its files, for every program that is executed from here on."""
    for capability in range(64):
        _libc.prctl(
            _PR_CAPBSET_DROP, ctypes.c_ulong(capability), *([ctypes.c_ulong(0)] * 3)
        )  # fails beyond the last, and for non-root
    _libc.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_CLEAR_ALL), *([ctypes.c_ulong(0)] * 3))
    header, none = struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)
    if _libc.capset(header, none):
        _fail("capset")


def _landlock(fs: int, net: int, scoped: int, paths: Sequence[tuple[str, int]]) -> None:
    ruleset = _call(LANDLOCK_CREATE_RULESET, struct.pack("=QQQ", fs, net, scoped), 24, 0)
    for path, rights in paths:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = rights if stat.S_ISDIR(os.fstat(opened).st_mode) else rights & _FILE_RIGHTS
            if allowed:
                _call(LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", allowed, opened), 0)
            os.close(opened)
    _call(LANDLOCK_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _seccomp(program: bytes) -> None:
    code = ctypes.create_string_buffer(program, len(program))
    fprog = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(code)))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(fprog))


def _call(number: int, *arguments: int | bytes) -> int:
    given = [one if isinstance(one, bytes) else ctypes.c_long(one) for one in arguments]
    done: int = _libc.syscall(ctypes.c_long(number), *given)
    if done < 0:
        _fail(f"system call {number}")
    return done


def _fail(what: str) -> NoReturn:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    import json

    with open(int(sys.argv[1]), "rb") as given:
        read = json.load(given)
    try:
        become(read)
    except OSError as error:
        sys.exit(f"cannot start confined: {error}")
