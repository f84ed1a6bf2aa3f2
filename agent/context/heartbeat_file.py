"""HEARTBEAT.md: whether there is anything to do in it, and what of it a heartbeat is given."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from agent.context.prompt import cut_middle
from agent.context.workspace_files import HEARTBEAT, Workspace
from agent.errors import WorkspaceFileNotFound

LARGEST: Final = 1_000_000
"""A larger HEARTBEAT.md is not read, in bytes."""
_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_UNDERLINED: Final = re.compile(r"^(?!\s*(?:[-*+>]|\d+[.)])\s).*\n {0,3}(?:=+|-{2,})[ \t\r]*$", re.MULTILINE)
"""A heading with a line below it."""
_NOTHING: Final = re.compile(
    r"#{1,6}(?:\s.*)?"  # a heading
    r"|[-=*_~`+|:\s]+"  # a rule, an underline, an empty item, the fence of a block, an empty row of a table
    r"|(?:[-*+]|\d+[.)])?\s*\[[ \t]*\]"  # an empty checkbox
    r"|(?:[-*+]|\d+[.)])?\s*\[[xX]\].*"  # one that is ticked
    r"|\d+[.)]"  # an empty numbered item
)


def has_tasks(text: str) -> bool:
    """Return whether there is anything to do: a line that is no heading, comment, empty item, empty checkbox or ticked one."""
    bare = _UNDERLINED.sub("", _COMMENT.sub("", text))
    lines = (line.strip().lstrip("> ").strip("\0\ufffd\ufeff \t") for line in bare.splitlines())
    return any(line and _NOTHING.fullmatch(line) is None for line in lines)


def heartbeat_text(workspace: Workspace, most_chars: int) -> str:
    """Return HEARTBEAT.md as a heartbeat is given it: without lines that were written with untrusted text in view, and cut.

    Nothing where it has nothing to do or is missing. Blocking.

    Raises:
        WorkspaceFileError: it cannot be read.
    """
    path = PurePosixPath(HEARTBEAT)
    try:
        data = workspace.sandbox.read(path, limit=LARGEST).data
    except WorkspaceFileNotFound:
        return ""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\0", "\ufffd")
    kept, sources = workspace.untrusted.trusted(path, text)
    if not has_tasks(kept):
        return ""
    note = f"\n[left out: lines that were written with untrusted text in view; read {path} to see them]" if sources else ""
    return cut_middle(kept.strip(), most_chars, f"read {path} for the rest") + note
