"""The recipe for bubblewrap: a command sees named system folders, its workspace, and nothing else of the machine.

Every option goes through a file, so that neither ``ps`` nor the process list inside shows the environment of a command, and
bubblewrap itself is started with an empty environment: the first process inside is bubblewrap, and everybody inside can read
the environment that it was started with.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator, Sequence

from msgspec import Struct

from gateway.sandbox import command, landlock, places
from gateway.sandbox.limits import rlimits
from gateway.sandbox.protocol import CannotConfine, Confined, LandlockRules, Limits, Request
from gateway.sandbox.syscall_filter import INET, INET6, NETLINK, UNIX, FilterOptions, assemble

_SHARED_MEMORY = 64 << 20
_TMP = "/tmp"


class Bubblewrap(Struct, frozen=True, kw_only=True):
    """What the installed program can do on this machine.

    ``version`` is such as (0, 8, 0). ``nested`` says that it can forbid further user namespaces (otherwise the filter of system
    calls does so alone), ``proc`` that it can mount /proc, which some containers and systemd units prevent. ``landlock`` is the
    version of Landlock that the kernel has, 0 for none.
    """

    program: str
    version: tuple[int, ...]
    nested: bool = True
    proc: bool = True
    landlock: int = 0

    def confine(self, request: Request, given: places.Places, limits: Limits) -> Confined:
        """Say how to run one command. Raises CannotConfine where its folders cannot be shown to it."""
        files = [b""]
        options = list(self._options(request, given, limits, files))
        if any("\0" in option for option in options):  # it would end the option, and what follows be one of its own
            raise CannotConfine("no path and no variable can hold a NUL character")
        files[0] = b"".join(os.fsencode(option) + b"\0" for option in options)
        return Confined(
            rung="bwrap",
            argv=(self.program, "--args", "3", "--", *command.command_line(request, processes=limits.processes)),
            env={},
            cwd="/",
            files=tuple(files),
            landlock=LandlockRules(scoped=landlock.ABSTRACT_SOCKETS) if self.landlock >= landlock.SCOPES else None,
            rlimits=rlimits(limits),
        )

    def _families(self, request: Request) -> tuple[int, ...]:
        """Unix sockets in the abstract namespace belong to the network: where it is shared, those of the machine are there."""
        unseen = not request.network or self.landlock >= landlock.SCOPES
        return (*((UNIX,) if unseen else ()), INET, INET6, NETLINK)

    def _options(self, request: Request, given: places.Places, limits: Limits, files: list[bytes]) -> Iterator[str]:
        yield from ("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try")
        yield from () if request.network else ("--unshare-net",)
        yield from ("--disable-userns",) if self.nested else ()
        yield from ("--die-with-parent", "--cap-drop", "ALL")
        shown = list(_system(network=request.network))
        for source, path in shown:
            yield from ("--ro-bind", source, path)
        for path, target in _links():
            yield from ("--symlink", target, path)
        for path, data in _made_up(request):
            yield from ("--file", _descriptor(files, data), path)
        yield from _proc() if self.proc else ()
        yield from ("--dev", "/dev", *self._memory(_SHARED_MEMORY), "/dev/shm", *self._memory(limits.tmp_bytes), _TMP)
        yield from ("--dir", places.HOME, "--dir", "/run", "--symlink", "../tmp", "/var/tmp")
        for bind, paths in (("--ro-bind", given.readable), ("--bind", given.writable)):
            for source, path in _present(paths):  # after the folders that are empty, in which they may lie
                yield from (bind, source, path)
                shown.append((source, path))
        if request.access != "none":
            found = command.workspace(request)
            yield from ("--bind" if request.access == "rw" else "--ro-bind", found, found)
            shown.append((found, found))
        for path in _covered(shown, given):
            yield from ("--tmpfs", path, "--remount-ro", path) if os.path.isdir(path) else ("--ro-bind", "/dev/null", path)
        yield from ("--remount-ro", "/dev", "--remount-ro", "/")
        yield from ("--chdir", places.HOME if request.access == "none" else command.folder(request))
        for name, value in command.environment(request, home=places.HOME, tmp=_TMP).items():
            yield from ("--setenv", name, value)
        program = assemble(FilterOptions(families=self._families(request)))
        yield from ("--seccomp", _descriptor(files, program)) if program else ()

    def _memory(self, size: int) -> tuple[str, ...]:
        return ("--size", str(size), "--tmpfs") if self.version >= (0, 7) else ("--tmpfs",)


def _descriptor(files: list[bytes], data: bytes) -> str:
    """Add a file to those that bubblewrap is started with, and return the number of its descriptor. Each has to be read by it."""
    files.append(data)
    return str(2 + len(files))


def _made_up(request: Request) -> Iterator[tuple[str, bytes]]:
    user, group = places.passwd(command.user_name(), os.geteuid(), os.getegid())
    yield from (("/etc/passwd", user), ("/etc/group", group))
    for path in places.settings(network=request.network):
        if _is_small(path):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                yield path, file.read(places.SMALL)
    if not request.network:
        yield "/etc/hosts", places.loopback(socket.gethostname())


def _is_small(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size <= places.SMALL


def _proc() -> Iterator[str]:
    """Read-only: root could write to settings of the kernel otherwise, in whatever namespace. Some files show the kernel's own facts."""
    yield from ("--proc", "/proc")
    for name in places.CLOSED_PROC:
        if os.access(f"/proc/{name}", os.R_OK):
            yield from ("--ro-bind", "/dev/null", f"/proc/{name}")
    yield from ("--remount-ro", "/proc")


def _system(*, network: bool) -> Iterator[tuple[str, str]]:
    for path in places.PROGRAMS:
        if os.path.isdir(path) and not os.path.islink(path):
            yield path, path
    for path in places.settings(network=network):
        if not _is_small(path):
            yield os.path.realpath(path), path


def _links() -> Iterator[tuple[str, str]]:
    """Links such as /bin -> usr/bin, made relative: they are followed while the new root is still elsewhere."""
    for path in places.PROGRAMS:
        if os.path.islink(path):
            yield path, os.path.relpath(os.path.realpath(path), os.path.dirname(path))


def _present(paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    for path in paths:
        if os.path.exists(path):
            found = os.path.realpath(path)
            yield from dict.fromkeys(((found, found), (found, path)))


def _covered(shown: list[tuple[str, str]], given: places.Places) -> Iterator[str]:
    """What must stay hidden though it lies in a folder that is shown."""
    for secret in dict.fromkeys(map(os.path.realpath, given.hidden)):
        if os.path.exists(secret) and any(command.below(secret, path) and secret != path for _, path in shown):
            yield secret
