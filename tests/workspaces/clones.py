"""Workspaces on several machines that share one bare repository."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from agent.tools.untrusted_files import UntrustedFiles
from agent.tools.workspace_sandbox import WorkspaceSandbox
from gateway.workspaces.carried_files import CarriedFiles
from gateway.workspaces.git_program import RemoteAccess
from gateway.workspaces.git_workspace import GitWorkspace

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 26, 10, 0, tzinfo=UTC)


def git(*words: object, at: Path, env: dict[str, str] | None = None) -> str:
    """Run git as a person does, with a name."""
    named = ["-c", "user.name=Owner", "-c", "user.email=owner@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", *named, *map(str, words)], cwd=at, check=True, capture_output=True, text=True, env={**os.environ, **(env or {})}
    )
    return done.stdout


class Clones:
    """The repository of all, and the machines that use it."""

    def __init__(self, folder: Path, *, make: bool = True) -> None:
        self.folder = folder
        self.remote = folder / "all.git"
        if make:
            git("init", "-q", "--bare", self.remote, at=folder)
        self.made: list[Clone] = []

    def clone(self, name: str, **more: Any) -> Clone:
        """Return one machine; the same as before where it has that name."""
        made = Clone(self, name, **more)
        self.made.append(made)
        return made

    def close(self) -> None:
        for one in self.made:
            one.kept.close()


class Clone:
    """One machine: its workspace, and what keeps it."""

    def __init__(
        self,
        clones: Clones,
        name: str,
        *,
        url: str = "",
        token: str = "",
        ignore: tuple[str, ...] = (),
        inbox: bool = False,
        **more: Any,
    ) -> None:
        self.root = clones.folder / name
        self.root.mkdir(exist_ok=True)
        self.state = clones.folder / f"{name}-state"
        self.untrusted = UntrustedFiles(clones.folder / f"{name}-untrusted.jsonl")
        self.sandbox = WorkspaceSandbox(self.root)
        self.kept = GitWorkspace(
            "main",
            self.state,
            self.sandbox,
            RemoteAccess(url=url or str(clones.remote), token=token),
            os.environ,
            rules=CarriedFiles(ignore, inbox=inbox),
            now=lambda: NOW,
            day=lambda: date(2026, 11, 26),
            record=self.untrusted,
            **more,
        )

    def write(self, path: str, text: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode("utf-8", "surrogateescape"))

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def sync(self) -> None:
        self.kept.commit()
        self.kept.pull()
        self.kept.push()

    def files(self) -> dict[str, str]:
        """Return the whole folder."""
        found = sorted(path for path in self.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_text() for path in found}
