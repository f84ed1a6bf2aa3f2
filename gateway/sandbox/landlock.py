"""Landlock: rules of the kernel about which files a process and its children may open. The rung for machines without bubblewrap.

Without namespaces some things need the filter of system calls beside it: sockets are refused as a whole where the network is off,
unix sockets always (a rule about files does not stop a connection to one), and signals where the kernel cannot confine them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from msgspec import Struct

from gateway.sandbox import command, places
from gateway.sandbox.limits import rlimits
from gateway.sandbox.protocol import CannotConfine, Confined, LandlockRules, Limits, Request
from gateway.sandbox.syscall_filter import INET, INET6, NETLINK, FilterOptions, assemble

OLDEST = 3
"""The first version of the interface with which nothing outside can be truncated (Linux 6.2)."""
_TCP, _DEVICES, SCOPES = 4, 5, 6
"""The first versions with rules for TCP (6.7), for ioctls on devices (6.10), and for signals and abstract sockets (6.12)."""

# linux/landlock.h
_EXECUTE, _WRITE, _READ, _LIST, _TRUNCATE, _IOCTL = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_MAKE_DEVICES = 1 << 6 | 1 << 11
_CHANGE_FOLDER = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13  # remove, make, move between folders
_CONNECT_TCP, _BIND_TCP = 1 << 1, 1 << 0
ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1

_SEE = _READ | _LIST | _EXECUTE
_CHANGE = _WRITE | _TRUNCATE | _CHANGE_FOLDER
_ALL = _SEE | _CHANGE | _IOCTL | _MAKE_DEVICES
_DEVICES_GIVEN = ("null", "zero", "full", "random", "urandom", "tty")
_FACTS = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version")
"""Files of /proc about the machine. The folders of the processes stay closed: they show what others run, and with what."""


class Landlock(Struct, frozen=True, kw_only=True):
    """Landlock in the version that the kernel of this machine has."""

    version: int

    def confine(self, request: Request, given: places.Places, limits: Limits, *, tmp: str, processes: int) -> Confined:
        """Say how to run one command.

        ``tmp`` is a private folder for temporary files and the home. ``processes`` is how many the user may have in all.
        Raises CannotConfine where the folders cannot be told apart by rules that only allow.
        """
        shown = list(_shown(request, given, tmp))
        for path, _rights in shown:
            for secret in map(os.path.realpath, given.hidden):
                if command.below(secret, path):
                    raise CannotConfine(
                        f"{secret} lies in {path}, which commands can read",
                        hint="Install bubblewrap, which can hide a folder inside another one: apt install bubblewrap",
                    )
        program = assemble(self._calls(network=request.network))
        if program is None:
            raise CannotConfine("there is no filter of system calls for this processor", hint="Install bubblewrap.")
        return Confined(
            rung="landlock",
            argv=command.command_line(request),
            env=command.environment(request, home=tmp, tmp=tmp),
            cwd=tmp if request.access == "none" else command.folder(request),
            landlock=self._rules(shown, network=request.network),
            seccomp=program,
            rlimits=rlimits(limits, processes=processes),
            drop=True,
        )

    def _calls(self, *, network: bool) -> FilterOptions:
        families = (INET, INET6, NETLINK) if network else ()
        return FilterOptions(families=families, signals=self.version >= SCOPES, namespaces=False)

    def _rules(self, shown: list[tuple[str, int]], *, network: bool) -> LandlockRules:
        known = _ALL if self.version >= _DEVICES else _ALL & ~_IOCTL
        return LandlockRules(
            fs=known,
            net=_CONNECT_TCP | _BIND_TCP if self.version >= _TCP and not network else 0,
            scoped=ABSTRACT_SOCKETS | _SIGNALS if self.version >= SCOPES else 0,
            paths=tuple((path, rights & known) for path, rights in shown),
        )


def sealed_rules(version: int, readable: Iterable[str]) -> dict[str, object]:
    """Return the rules of a process that reads what lies in ``readable`` and opens, changes, executes and reaches nothing else.

    As ``restrict.apply`` takes them; see ``gateway/sandbox/sealing.py``.
    """
    known = _ALL if version >= _DEVICES else _ALL & ~_IOCTL
    return {
        "fs": known,
        "net": _CONNECT_TCP | _BIND_TCP if version >= _TCP else 0,
        "scoped": ABSTRACT_SOCKETS | _SIGNALS if version >= SCOPES else 0,
        "paths": [(path, _READ | _LIST) for path in readable],
    }


def _shown(request: Request, given: places.Places, tmp: str) -> Iterator[tuple[str, int]]:
    for path in (*places.PROGRAMS, *places.settings(network=request.network), "/etc/passwd", "/etc/group", *given.readable):
        if os.path.exists(path):
            yield os.path.realpath(path), _SEE
    yield from ((f"/proc/{name}", _READ) for name in _FACTS)
    yield from ((f"/dev/{name}", _READ | _WRITE | _IOCTL | _TRUNCATE) for name in _DEVICES_GIVEN)
    yield "/sys/devices/system/cpu", _SEE
    yield tmp, _SEE | _CHANGE
    if request.access != "none":
        yield command.workspace(request), _SEE | (_CHANGE if request.access == "rw" else 0)
