"""Which files of the machine a confined command may read, and the few that are made up for it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from glob import glob

from msgspec import Struct

from gateway.sandbox.command import below

PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system")
"""Folders of programs and libraries. On most systems all but the first are links into it; the last two are those of NixOS."""
SETTINGS = tuple(
    f"/etc/{name}"
    for name in (
        *("alternatives", "ca-certificates", "crypto-policies", "debian_version", "fonts", "gai.conf", "host.conf", "inputrc"),
        *("java*", "ld.so.cache", "ld.so.conf", "localtime", "magic", "mime.types", "networks", "nsswitch.conf", "os-release"),
        *("pki", "protocols", "services", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "static", "timezone"),
    )
)
"""What programs expect below /etc, as patterns of names: no passwords, private keys, tokens or mail settings are in these."""
SMALL = 4096
"""Files of /etc up to so many bytes are copied: each mount costs a command half a millisecond, and several on a busy machine."""
NETWORK_SETTINGS = ("/etc/hosts", "/etc/resolv.conf")
"""What looking up names needs; given only where the network is. Elsewhere there is `loopback` in the place of the first."""
CLOSED_PROC = ("kcore", "key-users", "keys", "sched_debug", "timer_list")
"""Files of /proc about the kernel's memory, keys and other processes."""
HOME = "/tmp/home"
_MOST_LINKS = 40
_NOT_READABLE = ("/", "/proc", "/sys", "/dev", "/run", "/tmp", "/var", "/etc", "/root", "/home")


class Places(Struct, frozen=True, kw_only=True):
    """What the sandbox of one agent is given of the machine.

    ``readable`` are further files and folders that may be read, ``writable`` those that may be written to as well. ``hidden`` are those
    that may not be seen wherever they lie: the state folder, the settings file, the workspaces of other agents.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


def why_not_readable(path: str, hidden: Iterable[str], home: str) -> str:
    """Say why a folder of the settings cannot be given to commands, or "". Folders are compared as they really lie.

    A folder of a home may be given, such as ~/.pyenv, but no home as a whole, nor keys in it. ``hidden`` holds the agent's own
    workspace too: what lies there is seen anyway, and a command could put a link to anything in its place.
    """
    if not path.startswith("/"):
        return "it is not a full path"
    found, house = os.path.realpath(path), os.path.realpath(home)
    if (
        found in _NOT_READABLE
        or below(house, found)
        or any(below(found, folder) for folder in ("/proc", "/sys", "/dev", "/run"))
    ):
        return "it holds more than programs"
    steps = [*_steps(path), found]
    for secret in (*map(os.path.realpath, hidden), *(os.path.join(house, name) for name in (".ssh", ".gnupg"))):
        if below(secret, found):
            return f"it would show {secret}"
        if any(below(step, secret) for step in steps):
            return f"it leads through {secret}"
    return ""


def _steps(path: str) -> Iterator[str]:
    """Yield where each part of a path really lies while its links are followed: who can write there decides where the path leads."""
    at, parts = "/", path.split("/")[::-1]
    followed = 0
    while parts and followed < _MOST_LINKS:
        part = parts.pop()
        if part in ("", ".", ".."):
            at = os.path.dirname(at) if part == ".." else at
            continue
        step = os.path.join(at, part)
        yield step
        if os.path.islink(step):
            followed += 1
            target = os.readlink(step)
            parts += target.split("/")[::-1]
            at = "/" if target.startswith("/") else at
        else:
            at = step


def passwd(user: str, uid: int, gid: int) -> tuple[bytes, bytes]:
    """Make up /etc/passwd and /etc/group: the user of the commands and nobody."""
    known = {uid: f"{user}:x:{uid}:{gid}:{user}:{HOME}:/bin/sh", 65534: "nobody:x:65534:65534:nobody:/:/bin/false"}
    groups = {gid: f"{user}:x:{gid}:", 65534: "nogroup:x:65534:"}
    return ("\n".join([*known.values(), ""]).encode(), "\n".join([*groups.values(), ""]).encode())


def loopback(host: str) -> bytes:
    """Make up /etc/hosts for a command without the network."""
    return f"127.0.0.1 localhost {host}\n::1 localhost {host}\n".encode()


def settings(*, network: bool) -> list[str]:
    """Return those of the files below /etc that exist here."""
    return [path for pattern in (*SETTINGS, *(NETWORK_SETTINGS if network else ())) for path in sorted(glob(pattern))]
