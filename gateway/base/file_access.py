"""Suggests the shell command that gives this program access to a file or folder."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def access_hint(path: Path, rights: str = "u+rw", *, uid: int | None = None) -> str:
    """Return the command that gives this user access to ``path``, which need not exist; "" if no safe one is known.

    If another user owns it (as after a run with sudo), the command is ``sudo chown`` of the highest such folder below a folder
    that we own, or of the path alone if we own none above it. Otherwise it is ``chmod`` with ``rights``. ``uid`` defaults to
    that of the process.
    """
    us = os.geteuid() if uid is None else uid
    there = [one for one in (path.absolute(), *path.absolute().parents) if _owner(one) is not None]
    if not there or len(there[0].parts) <= 2:  # noqa: PLR2004 - "/" and what lies right below it are the system's
        return ""
    if _owner(there[0]) == us:
        return f"Run: chmod {rights} {shlex.quote(str(there[0]))}"
    ours = next((place for place, one in enumerate(there) if _owner(one) == us), 1)
    return f'Another user owns it (this happens after a run with sudo). Run: sudo chown -R "$USER" {shlex.quote(str(there[ours - 1]))}'


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None
