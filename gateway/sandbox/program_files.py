"""Which files and folders a program needs besides those of the system: its installation, and what its command line names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

_MODULES = "node_modules"
_SHEBANG = 256


def needed(argv: Sequence[str], search: str) -> list[str]:
    """Return the files and folders that a command line names: the program, what runs it, and arguments that are full paths."""
    found = shutil.which(argv[0], path=search) or argv[0]
    program = list(dict.fromkeys((found, os.path.realpath(found))))
    runs = _interpreter(program[-1])
    program += [runs, os.path.realpath(runs)] if runs else []
    return [*program, *(one for one in argv[1:] if one.startswith("/") and os.path.exists(one))]


def _interpreter(program: str) -> str:
    """Return the program that a script names in its first line; "" for other files."""
    try:
        with open(program, "rb") as file:
            first = file.read(_SHEBANG).split(b"\n", 1)[0]
    except OSError:
        return ""
    words = first[2:].split() if first.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words else ""


def around(path: str) -> tuple[str, ...]:
    """Return folders that belong to a file, the largest first: an installation with a ``bin``, packages of Node, its own folder."""
    if os.path.isdir(path):
        return ()
    folder = os.path.dirname(path)
    parts = path.split("/")
    if _MODULES in parts:
        return ("/".join(parts[: parts.index(_MODULES) + 1]),)
    return (os.path.dirname(folder), folder) if os.path.basename(folder) == "bin" else (folder,)
