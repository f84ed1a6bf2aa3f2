"""What tools need to know of skills: whose text can be trusted, and which folders outside of the workspace may be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Protocol

from msgspec import Struct

from agent.tools.workspace_sandbox import WorkspaceSandbox


class SkillFile(Struct, frozen=True):
    """A file of a skill that lies outside of the workspace: ``sandbox`` is the skill's folder. ``sources``: empty if it is approved."""

    sandbox: WorkspaceSandbox
    path: PurePosixPath
    sources: tuple[str, ...]


class SkillFiles(Protocol):
    """The skills of one agent. All methods look at the disk: call them in a thread."""

    def opened(self, path: str) -> SkillFile | None:
        """Return the file of a skill outside of the workspace that a full path names; None for any other path."""
        ...

    def in_workspace(self) -> Mapping[PurePosixPath, str]:
        """Return the folders of skills in the workspace, each with its source, such as "skill:bread", or "" for an approved one."""
        ...

    def outside(self, path: Path) -> str | None:
        """Return the source of a skill outside of the workspace in which a path lies, "" if it is approved; None for any other path."""
        ...


class SkillCommands(Protocol):
    """What commands get because of skills. Methods look at the disk: call them in a thread."""

    def readable(self) -> Sequence[str]:
        """Return the folders outside of the workspace that commands of the owner's conversations may read."""
        ...

    def variables(self, argv: Sequence[str] | None, cwd: str) -> Mapping[str, str]:
        """Return the variables for a command that is one of an approved skill; empty for any other."""
        ...
