"""Removing Homebody from a machine: service, link, completions, and the state when asked. Workspaces are never deleted."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.base.errors import StorageFailed
from gateway.base.home_lock import running_in
from gateway.base.installation import find_installation, links_of
from gateway.base.paths import Paths
from gateway.service.actions import Action, Delete
from gateway.service.service_selection import installed

_COMPLETIONS = (
    ".local/share/bash-completion/completions/homebody",
    ".zfunc/_homebody",
    ".config/fish/completions/homebody.fish",
)


@dataclass(frozen=True, slots=True)
class Removal:
    """What is removed. ``state`` are the folders and files to delete, ``kept`` what stays of the owner's.

    ``gateways``: the processes of the gateways that run, which are stopped first.
    """

    actions: Sequence[Action]
    state: Sequence[Path]
    kept: Sequence[Path]
    gateways: Sequence[int] = ()

    def as_text(self) -> str:
        """Return it as lines for people."""
        lines = [f"stop   the gateway that runs (process {pid})" for pid in self.gateways]
        lines += [str(action) for action in self.actions] + [f"delete {path}" for path in self.state]
        return "\n".join([*(lines or ["Nothing is to be removed."]), *(f"keep   {path}" for path in self.kept)])

    def delete_state(self) -> None:
        """Delete settings and state. Raises StorageFailed."""
        for path in self.state:
            try:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            except OSError as error:
                raise StorageFailed.from_os(error, "delete this", path) from error


def plan_removal(paths: Paths, env: Mapping[str, str], workspaces: Sequence[Path], *, with_state: bool) -> Removal:
    """Return what removing Homebody would do for these paths."""
    home = Path(env.get("HOME") or Path.home())
    manager = installed(paths, env)
    actions: list[Action] = [*manager.remove()] if manager else []
    found = links_of(home, find_installation(env), env.get("PATH", ""))
    found += [home / name for name in _COMPLETIONS if (home / name).exists()]
    actions += [Delete(path) for path in found]
    state = _without(paths.home, [place.resolve() for place in workspaces]) if with_state and paths.home.exists() else []
    kept = [place for place in workspaces if place.exists()]
    if not with_state and paths.home.exists():
        kept.append(paths.home)
    return Removal(actions, state, kept, [holder.pid for holder in running_in(paths.home).values()])


def _without(folder: Path, workspaces: Sequence[Path]) -> list[Path]:
    """Return what to delete so that all of a folder goes except workspaces in it."""
    if not any(place.is_relative_to(folder.resolve()) for place in workspaces):
        return [folder]
    if folder.resolve() in workspaces or folder.is_symlink() or not folder.is_dir():
        return []
    return [path for child in sorted(folder.iterdir()) for path in _without(child, workspaces)]
