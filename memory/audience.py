"""Access rules: who may see which part of a workspace. Every tool uses them."""

from __future__ import annotations

import re
from datetime import date
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct

BEFORE_RESTORE = "before-restore-"
"""How the name of what a restore replaced begins, which may stand in the workspace: its memory is in it."""
_PRIVATE = ("memory.", "user.", "todo.", "heartbeat.", "bootstrap.")
"""How names of the owner's files in the workspace's top folder begin, and of their copies: ``MEMORY.conflict-2026-11-26.md``."""
SHARED = ("shared",)
"""Paths that every group and guest may read by default (``sharedPaths``)."""
INBOX = "inbox"
"""The folder of received files: the owner's is in the workspace, everybody else's in their own folder of memory."""
_FOLDER_OF = {"group": "groups", "peer": "peers"}


class Audience(Struct, frozen=True):
    """The people who can read a session: its owner, one group, or one other person.

    ``memory/groups/<key>/`` belongs to that group and ``memory/peers/<key>/`` to that person. The owner sees everything;
    everybody else sees that folder of theirs and what the owner shares, and nothing else of the workspace.
    """

    kind: Literal["owner", "group", "peer"] = "owner"
    key: str = ""

    def __post_init__(self) -> None:
        """Refuse a key that could name another folder."""
        if (self.kind == "owner") != (self.key == "") or (self.key and not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,79}", self.key)):
            raise ValueError(f"not an audience: {self.kind} {self.key!r}")

    @property
    def folder(self) -> PurePosixPath:
        """The folder of this audience's notes, relative to the workspace."""
        root = PurePosixPath("memory")
        return root if self.kind == "owner" else root / _FOLDER_OF[self.kind] / self.key

    @property
    def inbox(self) -> PurePosixPath:
        """The folder of files that this audience sent, relative to the workspace. It is not part of memory."""
        return PurePosixPath(INBOX) if self.kind == "owner" else self.folder / INBOX

    def daily_note(self, day: date) -> PurePosixPath:
        """The note of ``day`` (the owner's calendar), relative to the workspace."""
        return self.folder / f"{day:%Y-%m-%d}.md"

    def may_see(self, path: PurePosixPath, shared: tuple[str, ...] = SHARED) -> bool:
        """Return whether this audience may read ``path``, which must be relative to the workspace and normalised.

        ``shared`` are files and folders that the owner opened to everybody, ``"."`` for the workspace; whatever it says, the notes of
        others, the owner's private files and inbox, copies of these, and names that begin with a dot are visible to the owner only.
        Shared names are compared without case, because some file systems do.
        """
        if path.is_absolute() or ".." in path.parts:
            return False
        if self.kind == "owner":
            return True
        if any(part.startswith(".") for part in path.parts):
            return False
        if path.parts[: len(self.folder.parts)] == self.folder.parts:
            return True
        parts = tuple(part.casefold() for part in path.parts)
        if not parts or _is_never_shared(parts):
            return False
        opened = (PurePosixPath(one.casefold()).parts for one in shared)
        return any(parts[: len(one)] == one for one in opened)

    def is_given(self, name: str) -> bool:
        """Return whether a file in the workspace's top folder may be in this audience's prompt. They cannot change it."""
        return self.kind == "owner" or not name.casefold().startswith(_PRIVATE)


def _is_never_shared(parts: tuple[str, ...]) -> bool:
    """Return whether a path, in lower case, is of the owner's memory, inbox or private files, or of a copy of these."""
    top = parts[0]
    if top.startswith(BEFORE_RESTORE) or top.partition(".")[0] in {"memory", INBOX}:
        return True
    return len(parts) == 1 and top.startswith(_PRIVATE)


OWNER = Audience()
