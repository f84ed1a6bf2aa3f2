"""Parses a patch over several files and applies it to text. No file access.

The notation is the one that OpenAI's models write: a file is added, updated (perhaps moved) or deleted; an update has hunks
of lines that stay (a blank in front), go (``-``) and come (``+``), and ``@@`` may name a line above the hunk.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct, field

from agent.errors import WorkspaceFileError

BEGIN, END = "*** Begin Patch", "*** End Patch"
_HEAD = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE = re.compile(r"\*\*\* Move to: (.+)")
_END_OF_FILE = "*** End of File"

Action = Literal["add", "update", "delete"]


class Hunk(Struct):
    """Lines that belong together. ``below`` is a line that stands somewhere above them, or empty; ``steps`` are (sign, line)."""

    below: str = ""
    steps: list[tuple[str, str]] = field(default_factory=list)
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        """The lines as the file has them now."""
        return [line for sign, line in self.steps if sign != "+"]


class FileChange(Struct):
    """What is to happen to one file."""

    action: Action
    path: str
    move_to: str | None = None
    hunks: list[Hunk] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def parsed(patch: str) -> list[FileChange]:
    """Read a patch. Raises WorkspaceFileError with the number of the line that is wrong."""
    lines = patch.replace("\r\n", "\n").strip("\n").split("\n")
    if lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise WorkspaceFileError(f'patch: must begin with "{BEGIN}" and end with "{END}"')
    changes: list[FileChange] = []
    for number, line in enumerate(lines[1:-1], 2):
        head = _HEAD.fullmatch(line.rstrip())
        if head:
            actions: dict[str, Action] = {"Add": "add", "Update": "update", "Delete": "delete"}
            changes.append(FileChange(actions[head[1]], head[2].strip()))
        elif not changes or not _taken(changes[-1], line):
            raise WorkspaceFileError(f"patch: line {number} is unclear: {line[:80]!r}")
    for change in changes:
        if change.action == "update" and not change.move_to and not any(hunk.steps for hunk in change.hunks):
            raise WorkspaceFileError(f"patch: the update of {change.path} changes nothing")
    if not changes:
        raise WorkspaceFileError("patch: names no file")
    return changes


def _taken(change: FileChange, line: str) -> bool:
    """Add a line to the change it belongs to, or say that it fits nowhere."""
    if change.action == "add" and line.startswith("+"):
        change.lines.append(line[1:])
        return True
    move = _MOVE.fullmatch(line.rstrip())
    if change.action != "update":
        return False
    if move and not change.hunks and not change.move_to:
        change.move_to = move[1].strip()
    elif line.startswith("@@"):
        change.hunks.append(Hunk(below=line[2:].strip().removesuffix("@@").strip()))
    elif line.rstrip() == _END_OF_FILE and change.hunks:
        change.hunks[-1].at_end = True
    elif not line or line[0] in " +-":
        if not change.hunks:
            change.hunks.append(Hunk())
        change.hunks[-1].steps.append((line[:1] or " ", line[1:]))
    else:
        return False
    return True


def patched(data: bytes, change: FileChange) -> bytes:
    """Give the bytes of a file after its hunks. Bytes that are not UTF-8, and line ends, stay. Raises WorkspaceFileError."""
    text = data.decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    closed = lines[-1] == ""
    if closed:
        lines.pop()
    end = "\r" if "\r\n" in text else ""
    made: list[str] = []
    at = 0
    for number, hunk in enumerate(change.hunks, 1):
        start = _place(lines, hunk, at, f"{change.path}: hunk {number}")
        made += lines[at:start]
        at = start
        for sign, line in hunk.steps:
            if sign == "+":
                made.append(line + end)
            else:
                made += [lines[at]] if sign == " " else []
                at += 1
    made += lines[at:]
    return ("\n".join(made) + ("\n" if made and (closed or not data) else "")).encode("utf-8", "surrogateescape")


def _place(lines: list[str], hunk: Hunk, at: int, what: str) -> int:
    """Find the one place where a hunk fits, at or after ``at``: by its exact lines, else without regard to spaces at their ends."""
    for plain in (_without_return, str.rstrip):
        known = [plain(line) for line in lines]
        start = at
        if hunk.below:
            start = next((n + 1 for n in range(at, len(known)) if known[n].strip() == hunk.below), len(known) + 1)
        places = _places(known, [plain(line) for line in hunk.old], start, at_end=hunk.at_end or not (hunk.old or hunk.below))
        if len(places) > 1 and not hunk.below:
            raise WorkspaceFileError(
                f"{what} fits in {len(places)} places; take more lines around it, or name a line above it after @@"
            )
        if places:
            return places[0]
    raise WorkspaceFileError(f"{what} does not fit; read the file again and copy its lines exactly")


def _places(known: list[str], old: list[str], start: int, *, at_end: bool) -> list[int]:
    last = len(known) - len(old)
    if not old:
        return [last] if at_end else [start] if start <= last else []
    begins = range(max(start, last), last + 1) if at_end else range(start, last + 1)
    return [n for n in begins if known[n : n + len(old)] == old]


def _without_return(line: str) -> str:
    return line.removesuffix("\r")
