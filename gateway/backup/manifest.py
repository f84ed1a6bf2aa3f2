"""What a backup says of itself, at its beginning and at its end, and the rules for paths in it.

Paths are ``home/...`` and ``workspace/<agent>/...``. Names that are not UTF-8 are kept byte for byte (as surrogates, like Python's).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from gateway.base.errors import BackupUnusable
from gateway.settings.root import AGENT_ID

FORMAT: Final = 1
HEAD: Final = "backup.json"
MANIFEST: Final = "manifest.json"
HOME: Final = "home"
WORKSPACE: Final = "workspace"
LEDGER: Final = f"{HOME}/state/ledger.sqlite"
LARGEST: Final = 512 * 1024 * 1024
"""Bytes of a manifest that is believed: it is read into memory."""
_LONGEST_PATH: Final = 4000
_LONGEST_NAME: Final = 255
_AGENT: Final = re.compile(AGENT_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The first file of a backup. ``made`` is ISO 8601; ``secrets``: keys and passwords are in it; ``state``: versions of its files."""

    id: str
    made: str
    homebody: str
    secrets: bool
    state: Mapping[str, int]
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file. ``changed``: it was written to while it was read, so that it may be half old and half new."""

    size: int
    sha256: str
    mode: int
    changed: bool = False


@dataclass(kw_only=True)
class Manifest:
    """The last file of a backup; without it the backup is not complete.

    ``home`` and ``workspaces`` are where things were. ``links`` and ``folders`` (empty ones) are not in the archive itself. ``left_out``
    maps paths to reasons. ``sessions`` maps agents to their sessions by key; ``jobs`` tells of each job when it was
    made, and a digest.
    """

    id: str
    home: str
    profile: str
    workspaces: dict[str, str]
    files: dict[str, StoredFile] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, dict[str, str]] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files.values())


def to_bytes(value: Head | Manifest) -> bytes:
    """Return the bytes that are stored."""
    return json.dumps(asdict(value), indent=1, sort_keys=True).encode()


def read_head(data: bytes, where: str) -> Head:
    """Read the first file. Raises BackupUnusable, also for a backup of a later version."""
    raw = _raw(data, where)
    if raw["format"] > FORMAT:
        raise later_version(f"it is of format {raw['format']}, and this Homebody knows {FORMAT} at most", raw, where)
    try:
        head = Head(**{name: raw[name] for name in Head.__dataclass_fields__})
        return replace(head, state={str(kind): int(number) for kind, number in head.state.items()})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BackupUnusable("this backup cannot be used: its beginning is damaged", where=where) from error


def later_version(what: str, head: Mapping[str, Any], where: str) -> BackupUnusable:
    """Return the error for a backup of a later Homebody."""
    hint = f"Use Homebody {head.get('homebody', '')} or later, which made it."
    return BackupUnusable(f"this backup is of a later version: {what}", where=where, hint=hint)


def read_manifest(data: bytes, head: Head, where: str) -> Manifest:
    """Read the last file and check every path in it. Raises BackupUnusable."""
    raw = _raw(data, where)
    try:
        stored = {str(path): StoredFile(**one) for path, one in raw["files"].items()}
        manifest = Manifest(**{name: raw[name] for name in Manifest.__dataclass_fields__} | {"files": stored})
        _check(manifest, head)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BackupUnusable(f"this backup cannot be used: its manifest is damaged ({error})", where=where) from error
    return manifest


def _check(manifest: Manifest, head: Head) -> None:
    if manifest.id != head.id:
        raise ValueError("its end belongs to another backup")
    paths = [*manifest.files, *manifest.folders, *manifest.links]
    if len(paths) != len(set(paths)):
        raise ValueError("a path occurs twice")
    for path in paths:
        check_path(path, manifest.workspaces)


def check_path(path: str, workspaces: Mapping[str, str] | None = None) -> None:
    """Raise ValueError for a path that does not belong into a backup, such as one that leads outside."""
    parts = path.split("/")
    inside = 2 if parts[0] == WORKSPACE else 1
    if len(os.fsencode(path)) > _LONGEST_PATH or "\0" in path or len(parts) <= inside or parts[0] not in {HOME, WORKSPACE}:
        raise ValueError(f"the path {path[:80]!r} does not belong into a backup")
    if any(part in {"", ".", ".."} or len(os.fsencode(part)) > _LONGEST_NAME for part in parts):
        raise ValueError(f"the path {path[:80]!r} leads outside")
    if parts[0] == WORKSPACE and not (_AGENT.match(parts[1]) and (workspaces is None or parts[1] in workspaces)):
        raise ValueError(f"the path {path[:80]!r} belongs to no agent")


def link_stays_inside(path: str, target: str) -> bool:
    """Return whether a link at ``path`` leads to a place in the same root (the home, or one workspace)."""
    root = 2 if path.startswith(f"{WORKSPACE}/") else 1
    depth = len(path.split("/")) - root - 1
    if target.startswith("/") or "\0" in target or not target:
        return False
    for part in target.split("/"):
        depth += 0 if part in {"", "."} else -1 if part == ".." else 1
        if depth < 0:
            return False
    return True


def _raw(data: bytes, where: str) -> dict[str, Any]:
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        raw = None
    if not isinstance(raw, dict) or not isinstance(raw.get("format"), int):
        raise BackupUnusable("this backup cannot be used: it is none of Homebody, or damaged", where=where)
    return raw
