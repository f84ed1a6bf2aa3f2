"""The command by which the person's shell finds this program.

Texts say ``homebody …``. If it is not on the PATH (before ``make install``), that would fail: only ``.venv/bin/homebody`` exists.
``as_started`` puts the working path into a text before a person reads it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

NAME = "homebody"
_COMMAND = re.compile(rf"(?<![\w./~-]){NAME}(?= (?!{NAME} )(?:-{{1,2}}[a-z]|[a-z]+\b))")
_NOT_A_COMMAND = re.compile(r" (?:is|was|runs|has|holds|will|may|can|and|or|process|processes|gateway runs)\b")


def program_name(argv0: str | None = None, *, path: str | None = None, cwd: Path | None = None) -> str:
    """Return ``homebody`` if the shell finds this program under that name, else the path by which it was started.

    The path is relative if the program is inside the current folder. ``argv0``, ``path`` (the PATH) and
    ``cwd`` are those of the process unless given. A program started as ``python -m gateway`` is called ``homebody``.
    """
    started = Path(sys.argv[0] if argv0 is None else argv0)
    if started.name != NAME:
        return NAME
    found = shutil.which(NAME, path=path)
    if found is not None and os.path.realpath(found) == os.path.realpath(started):
        return NAME
    absolute, here = started.absolute(), (cwd or Path.cwd()).absolute()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)


def as_started(text: str, name: str | None = None) -> str:
    """Return ``text`` with every ``homebody COMMAND`` written as this process was started (``name``: something else)."""
    called = program_name() if name is None else name
    if called == NAME:
        return text
    return _COMMAND.sub(lambda found: found[0] if _NOT_A_COMMAND.match(text, found.end()) else called, text)
