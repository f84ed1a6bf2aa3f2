"""Checks where an agent's workspace is: it must not contain the state, the settings, keys, or another agent's workspace.

Folders are compared by inode, so symbolic links, bind mounts and ``..`` cannot bypass the checks.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gateway.settings.root import MAIN

Inode = tuple[int, int]

KEYS: Final = (".ssh", ".gnupg")
"""Folders of the home folder that no tool opens and no workspace may be in."""
_SYSTEM: Final = tuple(map(Path, ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr")))
"""Folders of the operating system, whose files are no notes."""
_OWN: Final = tuple(map(Path, ("/dev/shm", "/usr/local")))  # noqa: S108 - nothing is put there
"""What may be of a person's own in them."""
_STATES: Final = ".homebody*"
_DEPTH: Final = 2
_HOLD: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


def location_error(workspace: Path, state: Path, source: Path) -> str | None:
    """Return why a workspace must not be where it is, or None. ``source``: the settings file; ``state``: the state folder."""
    home = Path.home()
    here, above = _inode(workspace), {inode for inode in map(_inode, _upwards(workspace)) if inode}
    real = Path(os.path.realpath(workspace))
    if real == Path(real.anchor):
        return "is the whole disk"
    system = next((one for one in _SYSTEM if real.is_relative_to(one) and not any(map(real.is_relative_to, _OWN))), None)
    if system is not None:
        return f"is in {system}, which belongs to the operating system"
    if _holds(workspace, here, home):
        return f"is or contains your home folder {home}"
    for folder, name in ((state, "the state folder"), (source.parent / source.name, "the settings file")):
        if _holds(workspace, here, folder):
            return f"contains {name} {folder}"
    closed = {_inode(folder): folder for folder in _closed_folders(state)}
    for inode in above & closed.keys():
        return f"is inside {closed[inode]}"
    lexical = next(
        (one for one in (state, *(home / name for name in KEYS)) if real.is_relative_to(os.path.realpath(one))), None
    )
    return f"is inside {lexical}" if lexical is not None else None


def free_folder(agent_id: str, state: Path, source: Path) -> str:
    """Return a folder that may be the workspace of an agent."""
    names = [f"~/homebody-{agent_id}", "~/homebody-notes", "~/agent-notes"]
    if agent_id == MAIN:
        names.insert(0, "~/homebody")
    return next((name for name in names if location_error(Path(name).expanduser(), state, source) is None), names[-1])


def nested_workspaces(workspaces: Mapping[str, Path]) -> Iterator[tuple[str, str]]:
    """Yield each agent whose workspace is inside that of another, and that other. Equal workspaces are not reported."""
    inodes = {agent: _inode(workspace) for agent, workspace in workspaces.items()}
    real = {agent: Path(os.path.realpath(workspace)) for agent, workspace in workspaces.items()}
    for inner, workspace in real.items():
        for outer, holder in real.items():
            same = workspace == holder or (inodes[inner] is not None and inodes[inner] == inodes[outer])
            if inner != outer and not same and _holds(holder, inodes[outer], workspace):
                yield inner, outer


class ProtectedInodes:
    """Finds the inodes that no file tool opens by any path: state folders with the files in the upper ones, and key folders.

    Folders that were found are held open, so that one that is moved elsewhere is still known, and none leaves its inode to a
    new folder while it is. Files are not: what a file that is replaced leaves is known no more at the next call. Thread-safe.
    """

    def __init__(self, state: Path) -> None:
        self._state = state
        self._held: dict[Inode, int] = {}
        self._looking = threading.Lock()
        weakref.finalize(self, _close_all, self._held)

    def __call__(self) -> frozenset[Inode]:
        """Look again, and return the devices and inodes."""
        with self._looking:
            self._let_go()
            for folder in _closed_folders(self._state):
                self._hold(folder)
            files = (_inode(one) for one in _files_of(self._state))
            return frozenset((*self._held, *(inode for inode in files if inode is not None)))

    def close(self) -> None:
        """Let go of the folders that are held open."""
        with self._looking:
            _close_all(self._held)

    def _hold(self, folder: Path) -> None:
        inode = _inode(folder)
        if inode is None or inode in self._held:
            return
        try:
            descriptor = os.open(folder, _HOLD)
        except OSError:  # gone meanwhile, or not a folder
            return
        found = os.fstat(descriptor)
        if self._held.setdefault((found.st_dev, found.st_ino), descriptor) != descriptor:
            os.close(descriptor)

    def _let_go(self) -> None:
        """Forget folders that were deleted."""
        for inode, descriptor in list(self._held.items()):
            if os.fstat(descriptor).st_nlink == 0:
                os.close(self._held.pop(inode))


def _close_all(held: dict[Inode, int]) -> None:
    while held:
        os.close(held.popitem()[1])


def _holds(workspace: Path, inode: Inode | None, other: Path) -> bool:
    if Path(os.path.realpath(other)).is_relative_to(os.path.realpath(workspace)):
        return True
    return inode is not None and any(_inode(folder) == inode for folder in _upwards(other))


def _upwards(path: Path) -> Iterator[Path]:
    real = Path(os.path.realpath(path))
    yield real
    yield from real.parents


def _closed_folders(state: Path) -> list[Path]:
    """Return the state folders of all profiles with their subfolders, and the key folders."""
    home = Path.home()
    found = [home / name for name in KEYS]
    for top in {state, *home.glob(_STATES)}:
        found.append(top)
        for folder, inner, _ in os.walk(top):
            found += [Path(folder) / name for name in inner]
            if len(Path(folder).relative_to(top).parts) + 1 >= _DEPTH:
                inner.clear()
    return found


def _files_of(state: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return [one for folder in (state, state / "state") if folder.is_dir() for one in folder.iterdir() if one.is_file()]
    return []


def _inode(path: Path) -> Inode | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino
