"""Checks owner and rights of our own files: settings, state, keys, transcripts, logs, and the workspaces."""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.base.errors import access_hint
from gateway.base.paths import REPOSITORY as WORKSPACE
from gateway.base.paths import why_unusable
from gateway.doctor.checked_installation import Installation, in_thread
from gateway.doctor.finding import Check, Finding, Fix, ok

MOST: Final = 50_000
"""Files and folders that are looked at in one place; a large workspace is not gone through to its end."""
_SHOWN: Final = 3
_SECRET: Final = ("auth-profiles.json", "gateway.token", "api-tokens.json")
_FOLDERS: Final = ("state", "agents", "memory", "logs")


@dataclass(slots=True)
class _Seen:
    """What was seen in one place: paths that belong to others, that their owner cannot use, and that others can read."""

    foreign: list[Path] = field(default_factory=list)
    closed: list[Path] = field(default_factory=list)
    open: list[Path] = field(default_factory=list)
    count: int = 0


def _examine(installation: Installation) -> Iterator[Finding]:
    home = installation.paths.home
    try:
        home.lstat()
    except (FileNotFoundError, NotADirectoryError):
        yield _unusable(home) or ok(f"{home} does not exist yet; the first command makes it")
        return
    except OSError as error:
        what, why = f"cannot be looked at: {error.strerror}", "A folder above it is closed to you, or its disk does not answer."
        yield Finding(
            level="error", what=what, where=str(home), why=why, mend=access_hint(home, "u+rwx") or f"ls -ld {home.parent}"
        )
        return
    if home.is_symlink():
        hint = f"Set HOMEBODY_HOME to the real place ({os.path.realpath(home)}), or replace the link by a folder."
        yield Finding(
            level="error", what="is a symbolic link", where=str(home), why="A link could redirect the state.", mend=hint
        )
        return
    if not home.is_dir() and (unusable := _unusable(home)):
        yield unusable
        return
    found = list(_in_home(installation, home))
    if installation.valid_settings is not None:
        for profile in installation.profiles:
            found += _in_workspace(installation, profile.workspace)
    yield from found or [ok("files and folders belong to you, and nobody else can read your settings and state")]


def _unusable(home: Path) -> Finding | None:
    if (refused := why_unusable(home)) is None:
        return None
    why = "Settings and state belong there: setup, start and messages to the agent fail."
    return Finding(level="error", what=refused.message, where=str(home), why=why, mend=refused.hint)


def _in_home(installation: Installation, home: Path) -> Iterator[Finding]:
    paths = installation.paths
    folders = [paths.state, paths.agents]
    if paths.gateway or not (home / "gateways").is_dir():  # gateways of a cluster have indexes and logs of their own
        folders += [paths.memory, paths.logs]
    missing = [folder for folder in folders if not os.path.lexists(folder)]
    started = len(missing) < len(folders)
    if missing and started:
        yield Finding(
            level="note",
            what=f"missing: {_names(missing)}",
            why="The next start makes it again; what was in it is gone.",
            mend="homebody doctor --fix, or start the gateway",
            fix=lambda: in_thread(_make, missing),
        )
    seen = _seen(home, installation.owner, private=True)
    named = installation.paths.chosen_config
    if named is not None and named.exists() and not named.is_relative_to(home):
        _judge(seen, named, named.lstat(), installation.owner, frozenset(), private=False, reach=0)
    yield from _findings(seen, installation.owner)
    if seen.open:
        yield Finding(
            level="warning",
            what=f"other users of this machine can read {_names(seen.open)}",
            why="They hold keys, conversations or where to find them.",
            mend=f"Run: chmod -R go-rwx {shlex.quote(str(home))}",
            where=str(home),
            fix=lambda: in_thread(close_to_others, seen.open),
        )


def _in_workspace(installation: Installation, workspace: Path) -> Iterator[Finding]:
    if not workspace.is_dir():
        if installation.paths.agents.is_dir() and any(installation.paths.agents.iterdir()):  # an agent has worked there
            yield Finding(
                level="warning",
                what="the workspace is not there",
                where=str(workspace),
                why="The next start makes an empty one. If it is on a disk that is not mounted, notes would be written beside it.",
                mend="Mount its disk. If it was deleted: homebody memory log lists what was in its notes",
            )
        return
    if os.statvfs(workspace).f_flag & os.ST_RDONLY:
        yield Finding(
            level="error",
            what="the workspace is on a disk that can only be read",
            where=str(workspace),
            why="The agent reads its notes, and can keep nothing new.",
            mend=f"See why: findmnt -T {shlex.quote(str(workspace))}; sudo dmesg | tail. Then: sudo mount -o remount,rw MOUNTPOINT",
        )
    yield from _findings(_seen(workspace, installation.owner, private=False), installation.owner)


def _seen(place: Path, owner: int, *, private: bool) -> _Seen:
    """Look at a folder and all below it. Links are not followed.

    What others may do with something counts as far as they can get to it: ``reach`` are the bits with which they can enter the folder.
    """
    seen, groups = _Seen(), _groups_of(owner)
    top = place.lstat()
    waiting = [(place, top.st_mode & 0o011)]
    _judge(seen, place, top, owner, groups, private=private, reach=0o011)
    while waiting and seen.count < MOST:
        folder, reach = waiting.pop()
        try:
            with os.scandir(folder) as listing:
                entries = [Path(entry.path) for entry in listing]
        except OSError:
            continue
        for path in entries:
            seen.count += 1
            try:
                found = path.lstat()
            except OSError:
                continue
            _judge(seen, path, found, owner, groups, private=private and _is_ours(path, place), reach=reach)
            if stat.S_ISDIR(found.st_mode):
                waiting.append((path, reach & found.st_mode))
    return seen


def _is_ours(path: Path, home: Path) -> bool:
    """Whether the gateway writes it: what the owner put into the home, such as skills, may be read-only, and so are git's objects."""
    if f"/{WORKSPACE}/" in str(path):
        return False
    return path.relative_to(home).parts[0] in _FOLDERS or path.parent == home


def _groups_of(owner: int) -> frozenset[int]:
    if owner == os.geteuid() != 0:
        return frozenset(os.getgroups())
    try:
        found = pwd.getpwuid(owner)
    except KeyError:
        return frozenset()
    return frozenset(os.getgrouplist(found.pw_name, found.pw_gid))


def _judge(
    seen: _Seen, path: Path, found: os.stat_result, owner: int, groups: frozenset[int], *, private: bool, reach: int
) -> None:
    mode = found.st_mode
    if stat.S_ISLNK(mode):
        return
    needed = 0o700 if stat.S_ISDIR(mode) else 0o600 if private else 0o400
    if found.st_uid != owner:
        if (private or not _may_write(found, groups)) and not any(path.is_relative_to(one) for one in seen.foreign):
            seen.foreign.append(path)
    elif mode & needed != needed and not path.name.startswith("."):
        seen.closed.append(path)
    elif private and not stat.S_ISSOCK(mode) and _is_open(path, mode, reach):
        seen.open.append(path)


def _may_write(found: os.stat_result, groups: frozenset[int]) -> bool:
    """Whether one who is not the owner may read and write something, as where people or programs share a workspace."""
    wanted = 0o7 if stat.S_ISDIR(found.st_mode) else 0o6
    given = found.st_mode >> (3 if found.st_gid in groups else 0)
    return given & wanted == wanted


def _is_open(path: Path, mode: int, reach: int) -> bool:
    if path.name in _SECRET:
        return bool(mode & 0o077)
    return bool((mode & 0o070 and reach & 0o010) or (mode & 0o007 and reach & 0o001))


def _findings(seen: _Seen, owner: int) -> Iterator[Finding]:
    for path in seen.foreign[:_SHOWN]:
        yield Finding(
            level="error",
            what=f"belongs to another user ({_user(path)})",
            where=str(path),
            why="The gateway cannot read and change it.",
            mend=access_hint(path, uid=owner)
            or f'It happens after a run with sudo. Run: sudo chown -R "$USER" {shlex.quote(str(path))}',
            fix=_giving_back([path], owner),
        )
    if (more := len(seen.foreign) - _SHOWN) > 0:
        place = os.path.commonpath(seen.foreign)
        what, fix = f"{more} more files belong to another user", _giving_back(seen.foreign[_SHOWN:], owner)
        yield Finding(level="error", what=what, where=place, mend="As above.", fix=fix)
    if seen.closed:
        yield Finding(
            level="error",
            what=f"you have no rights on your own {_names(seen.closed)}",
            why="The gateway cannot use them.",
            mend=f"Run: chmod -R u+rwX {shlex.quote(str(Path(os.path.commonpath(seen.closed))))}",
            fix=lambda: in_thread(_open, seen.closed),
        )


def _giving_back(places: list[Path], owner: int) -> Fix | None:
    """Return what gives files, and all below them, to their owner again, which root alone may do. Links are not followed."""

    def give() -> str:
        for place in places:
            group = place.parent.stat().st_gid
            for folder, folders, names in os.walk(place):
                for name in (*folders, *names):
                    os.chown(Path(folder) / name, owner, group, follow_symlinks=False)
            os.chown(place, owner, group, follow_symlinks=False)
        return f"gave {_names(places)} back to their owner"

    return (lambda: in_thread(give)) if os.geteuid() == 0 != owner else None


def _user(path: Path) -> str:
    try:
        return path.owner()
    except (KeyError, OSError):
        return f"number {path.lstat().st_uid}"


def _names(paths: list[Path]) -> str:
    shown = ", ".join(str(path) for path in paths[:_SHOWN])
    return shown if len(paths) <= _SHOWN else f"{shown} and {len(paths) - _SHOWN} more"


def _make(folders: list[Path]) -> str:
    for folder in folders:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"made {_names(folders)}"


def close_to_others(paths: list[Path]) -> str:
    """Take the rights of other users off files and folders; return what was done."""
    for path in paths:
        path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~0o077)
    return f"took the rights of other users off {_names(paths)}"


def _open(paths: list[Path]) -> str:
    for path in paths:
        mode = stat.S_IMODE(path.lstat().st_mode)
        path.chmod(mode | (0o700 if path.is_dir() else 0o600))
    return f"gave you the rights on {_names(paths)}"


PERMISSIONS = Check(name="permissions", examine=_examine, quick=True)
