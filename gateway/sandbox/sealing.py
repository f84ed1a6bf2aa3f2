"""Confines the present process for good: a helper of ours that parses foreign input, and from then on needs nothing but its streams.

Unlike commands, which are confined before they are executed, such a process loads its libraries first. It may go on reading those, because
Python imports parts of them late.
"""

from __future__ import annotations

import base64
import contextlib
import os
import sys

from gateway.sandbox import restrict
from gateway.sandbox.landlock import OLDEST, sealed_rules
from gateway.sandbox.syscall_filter import FilterOptions, assemble


def seal() -> list[str]:
    """Give up files, network, other processes and new programs. Returns which means of the kernel took effect: none on some machines."""
    if not sys.platform.startswith("linux"):
        return []
    done = []
    version = restrict.landlock_version()
    plan = {"cwd": "/", "files": [], "rlimits": [("CORE", 0)], "drop": True, "landlock": None, "seccomp": None}
    for name, value in (
        ("landlock", sealed_rules(version, _libraries()) if version >= OLDEST else None),
        ("seccomp", _filter()),
    ):
        if value is None:
            continue
        with contextlib.suppress(OSError):  # a container may refuse one of them; the limits on time and memory hold anyway
            restrict.apply({**plan, name: value})
            done.append(name)
    return done


def _filter() -> str | None:
    program = assemble(FilterOptions(families=(), signals=False, namespaces=False))
    return None if program is None else base64.b64encode(program).decode()


def _libraries() -> tuple[str, ...]:
    """Return where Python's own modules and installed packages lie."""
    return tuple(path for path in sys.path if path and os.path.isdir(path) and _is_library(path))


def _is_library(path: str) -> bool:
    return "python3" in path.rpartition("/lib/")[2] or "site-packages" in path or "dist-packages" in path
