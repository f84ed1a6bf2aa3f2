"""What to type so that this program may use a file or a folder that it may not use now."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def access_hint(path: Path, rights: str = "u+rw", *, uid: int | None = None) -> str:
    """Return the command that gives this user access to ``path``, which need not exist; "" where no safe one is known.

    Where it belongs to somebody else (as after one run with sudo), that is ``sudo chown``: of the highest such folder below
    one of our own, or of the path alone where none above it is ours. Else it is ``chmod`` with ``rights``. ``uid`` is the
    process's own unless given.
    """
    us = os.geteuid() if uid is None else uid
    there = [one for one in (path.absolute(), *path.absolute().parents) if _owner(one) is not None]
    if not there or len(there[0].parts) <= 2:  # noqa: PLR2004 - "/" and what lies right below it are the system's
        return ""
    if _owner(there[0]) == us:
        return f"Run: chmod {rights} {shlex.quote(str(there[0]))}"
    ours = next((place for place, one in enumerate(there) if _owner(one) == us), 1)
    return (
        f'It belongs to another user, as after a run with sudo. Run: sudo chown -R "$USER" {shlex.quote(str(there[ours - 1]))}'
    )


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None
