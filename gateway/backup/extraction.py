"""Reads a backup to its end: checks every byte of it, and unpacks it into folders that are new."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from gateway.backup.age_encryption import LIST, Keys, reading
from gateway.backup.manifest import (
    HEAD,
    HOME,
    LARGEST,
    MANIFEST,
    WORKSPACE,
    Head,
    Manifest,
    StoredFile,
    check_path,
    later_version,
    link_stays_inside,
    read_head,
    read_manifest,
)
from gateway.backup.tar_archive import ArchivedFile, ArchiveReader
from gateway.backup.versions import state_versions
from gateway.base.errors import BackupUnusable, StorageFailed

_LARGEST_HEAD: Final = 64 * 1024
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A backup that was read to its end. ``links_left_out`` are those that lead outside and were not made."""

    head: Head
    manifest: Manifest
    links_left_out: tuple[str, ...] = ()


@dataclass
class _Reading:
    """The state of one pass. ``place_of`` returns where a file is to be written; None to check it alone."""

    where: str
    place_of: Callable[[str], Path | None]
    progress: Progress
    head: Head | None = None
    manifest: Manifest | None = None
    files: dict[str, StoredFile] = field(default_factory=dict)
    bytes: int = 0


def verify(path: Path, keys: Keys, progress: Progress = lambda _files, _bytes: None) -> Checked:
    """Check every byte of a backup. Raises BackupUnusable, StorageFailed. Blocking."""
    return _read(path, keys, lambda _: None, progress)


def unpack(
    path: Path, keys: Keys, home: Path, workspaces: Callable[[str], Path], progress: Progress = lambda _files, _bytes: None
) -> Checked:
    """Check a backup and unpack it into ``home`` and, for each agent, the folder that ``workspaces`` names; none of them exists yet.

    Files are new and belong to their owner alone; links that lead outside are left out. What was unpacked stays when it fails.

    Raises:
        BackupUnusable: it is damaged or forged, or of a later version.
        StorageFailed: the disk is full or cannot be written.
    """

    def place_of(stored: str) -> Path:
        parts = stored.split("/")
        return home.joinpath(*parts[1:]) if parts[0] == HOME else workspaces(parts[1]).joinpath(*parts[2:])

    checked = _read(path, keys, place_of, progress)
    links_left_out = []
    try:
        for folder in checked.manifest.folders:
            place_of(folder).mkdir(parents=True, exist_ok=True, mode=0o700)
        for agent in checked.manifest.workspaces:
            if f"{WORKSPACE}/{agent}" not in checked.manifest.left_out:
                workspaces(agent).mkdir(parents=True, exist_ok=True, mode=0o700)
        for link, target in checked.manifest.links.items():
            above_is_link = any(
                "/".join(link.split("/")[:depth]) in checked.manifest.links for depth in range(link.count("/") + 1)
            )
            if above_is_link or not link_stays_inside(link, target):
                links_left_out.append(link)
                continue
            place_of(link).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            place_of(link).symlink_to(target)
    except OSError as error:
        raise StorageFailed.from_os(error, "unpack the backup", home) from error
    return Checked(head=checked.head, manifest=checked.manifest, links_left_out=tuple(links_left_out))


def _read(path: Path, keys: Keys, place_of: Callable[[str], Path | None], progress: Progress) -> Checked:
    state = _Reading(str(path), place_of, progress)
    with reading(path, keys) as stream:
        ArchiveReader(stream, str(path)).read_all(partial(_take, state))

    if state.head is None or state.manifest is None:
        raise _damaged(state, "its manifest is missing")
    _compare(state, state.manifest)
    return Checked(head=state.head, manifest=state.manifest)


def _take(state: _Reading, entry: ArchivedFile) -> None:
    name, size = entry.path, entry.size
    if state.head is None:
        if name != HEAD or size > _LARGEST_HEAD:
            raise BackupUnusable("this file is no backup of Homebody", where=state.where, hint=LIST)
        state.head = read_head(b"".join(entry.chunks), state.where)
        _refuse_later(state.head, state.where)
        return
    if state.manifest is not None:
        raise _damaged(state, "there is more behind its manifest")
    if name == MANIFEST:
        if size > LARGEST:
            raise _damaged(state, "its manifest is too large")
        state.manifest = read_manifest(b"".join(entry.chunks), state.head, state.where)
        return
    try:
        check_path(name)
    except ValueError as error:
        raise _damaged(state, str(error)) from error
    if name in state.files:
        raise _damaged(state, f"{name!r} occurs twice")
    state.files[name] = _store(state, entry)
    state.progress(len(state.files), state.bytes)


def _store(state: _Reading, entry: ArchivedFile) -> StoredFile:
    name, digest, place = entry.path, hashlib.sha256(), state.place_of(entry.path)
    descriptor = -1
    try:
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(place, flags, 0o600)
        for chunk in entry.chunks:
            digest.update(chunk)
            state.bytes += len(chunk)
            if descriptor >= 0:
                _write(descriptor, chunk)
            state.progress(len(state.files), state.bytes)
        if descriptor >= 0:
            os.fchmod(descriptor, entry.mode & (0o700 if name.startswith(f"{HOME}/") else 0o777) | 0o600)
            with suppress(OverflowError):
                os.utime(descriptor, (entry.changed_at, entry.changed_at))
            os.fsync(descriptor)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise _damaged(state, f"{name!r} is a file and a folder at once, or occurs twice") from error
    except OSError as error:
        raise StorageFailed.from_os(error, "unpack the backup", place) from error
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    return StoredFile(entry.size, digest.hexdigest(), entry.mode & 0o777)


def _write(descriptor: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(descriptor, view) :]


def _compare(state: _Reading, manifest: Manifest) -> None:
    for name, wanted in manifest.files.items():
        found = state.files.get(name)
        if found is None:
            raise _damaged(state, f"{name!r} is missing")
        if (found.size, found.sha256) != (wanted.size, wanted.sha256):
            raise _damaged(state, f"{name!r} is not what was stored")
    if unknown := state.files.keys() - manifest.files.keys():
        raise _damaged(state, f"{min(unknown)!r} is not in its manifest")


def _refuse_later(head: Head, where: str) -> None:
    known = state_versions()
    for kind, number in head.state.items():
        if number > known.get(kind, -1):
            what = f"its {kind} are of version {number}, and this Homebody knows {known.get(kind, 'none')}"
            raise later_version(what, {"homebody": head.homebody}, where)


def _damaged(state: _Reading, what: str) -> BackupUnusable:
    return BackupUnusable(
        f"this backup cannot be used: {what}", where=state.where, hint="Take another copy: homebody backup list"
    )
