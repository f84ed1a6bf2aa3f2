"""Which program a command runs: its path, and whether an agent could have put it there."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.approvals.command_paths import is_inside

SYSTEM_FOLDERS: Final = (
    "/usr/",
    "/bin/",
    "/sbin/",
    "/lib/",
    "/lib64/",
    "/nix/store/",
    "/opt/homebrew/",
    "/run/current-system/",
)
"""Where programs lie that come with the system or its package manager."""
_LEADING: Final = re.compile(
    r"PATH|HOME|SHELL|IFS|ENV|BASH_ENV|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|ZDOTDIR|BASH_FUNC_.*|LD_.*|DYLD_.*|GCONV_PATH|LOCPATH|TMPDIR|XDG_.*|"
    r"GIT_.*|SSH_.*|PYTHON.*|PERL.*|RUBY.*|GEM_.*|NODE_.*|NPM_.*|LUA_.*|PHP.*|R_.*|JAVA_.*|JDK_.*|_JAVA_OPTIONS|CLASSPATH|MAVEN_.*|GRADLE_.*|"
    r"CARGO.*|RUST.*|GO.*|PIP_.*|UV_.*|CC|CXX|CPP|AR|LD|MAKE.*|.*FLAGS|.*EDITOR|VISUAL|.*PAGER|LESS.*|BROWSER|.*_PROXY|.*_COMMAND|.*_OPTIONS|OPENSSL_.*",
    re.IGNORECASE,
)
"""Names of variables that can change which code runs, or what a program connects to."""
_NOT_FIXED: Final = ("//", "/proc/", "/dev/")
"""Paths that mean something else for each process."""
_CHUNK: Final = 1 << 20


def find_program(name: str, folders: Sequence[str], workspace: str | Path) -> str | None:
    """Return the path of the program that a command's first word runs; None if there is none, or if it lies in the workspace.

    A name without a slash is searched in ``folders``, in their order; one with a slash must be a full path. The current folder is
    never searched.
    """
    if "/" in name:
        places = [name] if name.startswith("/") and not name.startswith(_NOT_FIXED) and os.path.normpath(name) == name else []
    else:
        places = [f"{folder.rstrip('/')}/{name}" for folder in folders]
    for place in places:
        if not place.startswith("/"):
            return None
        if Path(place).is_file() and os.access(place, os.X_OK):
            return None if _lies_in(place, workspace) else place
    return None


def is_of_the_system(program: str) -> bool:
    """Whether a program came with the system, by its path after all symbolic links are followed."""
    return os.path.realpath(program).startswith(SYSTEM_FOLDERS)


def sha256_of(path: str | Path) -> str | None:
    """Return the SHA-256 of a file in hex; None if it is no regular file or cannot be read."""
    digest = hashlib.sha256()
    try:
        if not Path(path).is_file():
            return None
        with Path(path).open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError:
        return None
    return digest.hexdigest()


def _lies_in(place: str, workspace: str | Path) -> bool:
    """Whether a program, or any link on the way to it, lies in the workspace."""
    root = os.path.abspath(workspace).rstrip("/") + "/"  # noqa: PTH100 -- links must not be followed here
    return is_inside(place, workspace) or place.startswith(root)


def leading_first(env: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return variables in their order, those first that can change which code a command runs."""
    return sorted(env, key=lambda one: _LEADING.fullmatch(one[0]) is None)
