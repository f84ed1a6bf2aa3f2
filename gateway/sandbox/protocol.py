"""The interface of the sandbox: what is asked of it for one command, and the plain data that the runner applies."""

from __future__ import annotations

import base64
import errno
from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol

from msgspec import Struct, field

from gateway.base.errors import HomebodyError

Rung = Literal["bwrap", "landlock", "off"]
"""How commands are confined: by bubblewrap's namespaces, by Landlock rules in the kernel, or not at all."""
Access = Literal["rw", "ro", "none"]
"""What a command may do with the workspace: read and write it, read it, or not see it."""


class Limits(Struct, frozen=True, kw_only=True):
    """What one command may use. Memory, processor time and file size count for each of its processes; ``processes`` for all of them."""

    memory_bytes: int = 4 << 30
    processes: int = 256
    file_bytes: int = 4 << 30
    cpu_seconds: int = 3600
    tmp_bytes: int = 256 << 20
    open_files: int = 4096


class Request(Struct, frozen=True, kw_only=True):
    """One command that is to run confined.

    ``argv`` is run without a shell (a shell command is ``("/bin/sh", "-c", text)``). ``cwd`` and ``workspace`` are absolute
    paths, the first inside the second. ``env`` is added to the few variables that every command gets. ``limits`` unset: those
    of the agent's settings. With ``pty`` the caller starts the command with a terminal's slave end as its standard streams.
    ``main`` says whether the turn is the owner's in private, which ``sandbox.mode: non-main`` leaves unconfined. ``readable`` are folders
    that this command may read besides those of the settings.
    """

    argv: tuple[str, ...]
    cwd: str
    workspace: str
    agent: str
    access: Access = "rw"
    network: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    pty: bool = False
    limits: Limits | None = None
    main: bool = True
    readable: tuple[str, ...] = ()


class LandlockRules(Struct, frozen=True, kw_only=True):
    """A Landlock ruleset as the kernel takes it; the bits are those of ``linux/landlock.h``.

    ``fs``, ``net`` and ``scoped`` are what is handled, so refused unless a rule allows it. ``paths`` holds (path, rights).
    """

    fs: int = 0
    net: int = 0
    scoped: int = 0
    paths: tuple[tuple[str, int], ...] = ()


class Confined(Struct, frozen=True, kw_only=True):
    """What to execute, and what to apply to the child between fork and exec. ``gateway/sandbox/restrict.py: apply`` does all of it.

    ``argv[0]`` is an absolute path, ``env`` the whole environment and ``cwd`` the folder to start in. ``files`` are contents that
    the child finds behind descriptors 3, 4, ... ``rlimits`` holds (name without ``RLIMIT_``, value). ``seccomp`` is a BPF program
    to install. ``drop`` gives up root's capabilities.
    """

    rung: Rung
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    files: tuple[bytes, ...] = ()
    landlock: LandlockRules | None = None
    seccomp: bytes | None = None
    rlimits: tuple[tuple[str, int], ...] = ()
    drop: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return this as JSON values, which is what ``restrict.apply`` takes."""
        rules = self.landlock
        return {
            "rung": self.rung,
            "argv": list(self.argv),
            "env": dict(self.env),
            "cwd": self.cwd,
            "files": [base64.b64encode(data).decode() for data in self.files],
            "landlock": rules
            and {"fs": rules.fs, "net": rules.net, "scoped": rules.scoped, "paths": [list(path) for path in rules.paths]},
            "seccomp": self.seccomp and base64.b64encode(self.seccomp).decode(),
            "rlimits": [list(limit) for limit in self.rlimits],
            "drop": self.drop,
        }


class Standing(Struct, frozen=True, kw_only=True):
    """How an agent's commands are confined.

    ``reason`` says why it is no better; ``hint`` what would mend that. Not ``usable``: the settings ask for a means that does not work
    here, so no command may run at all.
    """

    rung: Rung
    reason: str = ""
    hint: str = ""
    usable: bool = True


SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""Errors of a system that is short of descriptors, memory or processes: they say nothing about what works on it."""


class Tried(Struct, frozen=True, kw_only=True):
    """What came of trying one means. ``reason`` and ``hint`` say why it is missing, or what it lacks here.

    Not ``lasting``: the system was short of something, so it is to be tried again.
    """

    works: bool
    reason: str = ""
    hint: str = ""
    lasting: bool = True


class CannotConfine(HomebodyError):
    """This command cannot be run as its agent's settings ask, so it must not run at all."""


class Sandbox(Protocol):
    """Confines commands. The machine is probed at first need, in a process of its own, and the answer is kept."""

    async def standing(self, agent: str, *, main: bool = True) -> Standing:
        """Say how that agent's commands are confined now. With rung "off" every command has to be asked for."""
        ...

    async def confine(self, request: Request) -> Confined:
        """Say how to start one command. Raises `CannotConfine`."""
        ...

    async def explain(self, agent: str) -> dict[str, Any]:
        """Describe what a command of that agent can see, write, reach and use, as JSON values, for each origin of a turn."""
        ...
