"""The folder of the backups: their names, which there are, and which are deleted because newer ones stand for them."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from gateway.backup.backup_schedule import LastBackup
from gateway.backup.retention import kept
from gateway.base.atomic_file import sync
from gateway.base.errors import AlreadyRunning, StorageFailed
from gateway.base.paths import Paths
from gateway.settings.backup_settings import BackupSettings, KeepSettings

DEFAULT: Final = "backups"
_NAME: Final = re.compile(r"homebody-(\d{8}T\d{6}Z)(?:-\d+)?\.tar\.gz(?:\.age)?")
_PART: Final = re.compile(r"\.homebody-.*\.part")
_STAMP: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A backup in the folder, by its name: what is in it is not looked at."""

    path: Path
    made: datetime
    size: int
    encrypted: bool


def folder_of(paths: Paths, settings: BackupSettings) -> Path:
    """Return the folder of the backups; a relative one is relative to the home."""
    return paths.home / Path(settings.folder or DEFAULT).expanduser()


def copies_in(folder: Path) -> list[Copy]:
    """Return the backups of a folder, newest first. Blocking. Raises StorageFailed."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageFailed.from_os(error, "read the folder of the backups", folder) from error
    found: list[Copy] = []
    for name in names:
        if (matched := _NAME.fullmatch(name)) and (path := folder / name).is_file():
            made = datetime.strptime(matched[1], _STAMP).replace(tzinfo=UTC)
            found.append(Copy(path=path, made=made, size=path.stat().st_size, encrypted=name.endswith(".age")))
    return sorted(found, key=lambda copy: (copy.made, copy.path.name), reverse=True)


def same_disk(folder: Path, home: Path) -> bool:
    """Return whether what is written into a folder goes to the disk of the home. Neither needs to exist. Blocking."""

    def device(path: Path) -> int:
        while not path.exists() and path != path.parent:
            path = path.parent
        return path.stat().st_dev

    return device(folder) == device(home)


def require_mounted(folder: Path, home: Path, last: LastBackup | None, *, taken_away: bool) -> None:
    """Refuse to go on in a folder which is without the backup that was last put there: its disk is not mounted, most likely.

    ``taken_away``: a command of the owner may move each backup away, so that an empty folder says nothing by itself. Blocking.
    Raises StorageFailed.
    """
    if last is None or not last.file or Path(last.file).parent != folder or copies_in(folder):
        return
    if taken_away and not (last.apart and same_disk(folder, home)):
        return
    why = "the backups that were made so far are not in their folder"
    raise StorageFailed(why, where=str(folder), hint="Mount its disk, or make one there by hand if it is to begin anew.")


def free_name(folder: Path, now: datetime, *, encrypted: bool) -> Path:
    """Return a name for a new backup that no file has."""
    end = ".tar.gz.age" if encrypted else ".tar.gz"
    path, number = folder / f"homebody-{now.astimezone(UTC):{_STAMP}}{end}", 1
    while os.path.lexists(path):
        number += 1
        path = folder / f"homebody-{now.astimezone(UTC):{_STAMP}}-{number}{end}"
    return path


def unfinished_name(path: Path) -> Path:
    """Return the name of a backup while it is written."""
    return path.with_name(f".{path.name}.part")


def prune(folder: Path, keep: KeepSettings, zone: ZoneInfo) -> Sequence[Copy]:
    """Delete the backups that need not be kept; return them. Other files are never touched. Blocking. Raises StorageFailed."""
    copies = copies_in(folder)
    stay = kept([copy.made for copy in copies], keep, zone)
    deleted = [copy for copy in copies if copy.made not in stay]
    try:
        for copy in deleted:
            copy.path.unlink(missing_ok=True)
        if deleted:
            sync(folder)
    except OSError as error:
        raise StorageFailed.from_os(error, "delete a backup that need not be kept", folder) from error
    return deleted


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold the lock of those who make or restore a backup of a home. Raises AlreadyRunning, StorageFailed."""
    try:
        lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageFailed.from_os(error, "take the lock of the backups", lock) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "Wait until it is done: homebody backup list"
            raise AlreadyRunning("another backup is being made", where=str(lock.parent), hint=hint) from None
        yield
    finally:
        os.close(descriptor)


def clear_unfinished(folder: Path) -> None:
    """Delete what backups that were killed have left. The caller is alone. Blocking."""
    for path in folder.iterdir():
        if _PART.fullmatch(path.name):
            path.unlink(missing_ok=True)
