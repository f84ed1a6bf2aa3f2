"""Checks the backups: is one made regularly, did the last one succeed, and is the newest whole?"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from gateway.backup.age_encryption import Keys, key_file, was_shown
from gateway.backup.backup_folder import Copy, copies_in, folder_of, same_disk
from gateway.backup.backup_schedule import LastBackup, read_last
from gateway.backup.extraction import verify
from gateway.backup.unfinished_restore import left_over, unfinished
from gateway.base.errors import BackupLocked, BackupUnusable
from gateway.doctor.checked_installation import Installation, in_thread
from gateway.doctor.finding import Check, Finding, ok
from gateway.settings.backup_settings import BackupSettings, schedule_parts

GRACE: Final = timedelta(days=2)
"""How much later than its schedule a backup may be: the gateway may have been off."""
BY_HAND: Final = timedelta(days=31)
LONGEST: Final = 10.0
"""Seconds for which the newest backup is read."""
_SCHEDULE: Final = "homebody config set backup.schedule 03:30"
_LOST: Final = "If this disk breaks, settings, conversations and notes since then are lost."


def _examine(installation: Installation) -> Iterator[Finding]:
    if (broken_off := unfinished(installation.paths.home)) is not None:
        yield Finding(level="error", what=broken_off.message, where=broken_off.where, mend=broken_off.hint)
        return
    settings, paths = installation.settings.backup, installation.paths
    folder = folder_of(paths, settings)
    copies = copies_in(folder)
    whole, damage = _newest(copies, Keys(files=(key_file(paths),)))
    found = [*_age(settings, copies, folder), *_last(read_last(paths.state)), *damage, *_left_over(installation)]
    if copies and not settings.command and same_disk(folder, paths.home):
        why = "A disk that breaks takes both."
        mend = "homebody config set backup.folder PATH (on another disk), or let a command take each copy away: backup.command"
        found.append(
            Finding(
                level="note",
                what="the backups are on the disk of what they are copies of",
                where=str(folder),
                why=why,
                mend=mend,
            )
        )
    if copies and not was_shown(paths):
        found.append(
            Finding(
                level="note",
                what="nobody was shown the key of the backups yet",
                where=str(key_file(paths)),
                why="Without a copy of it, nobody can open them on another machine.",
                mend="homebody backup key",
            )
        )
    shown = f"the newest of {len(copies)} backups is from {copies[0].made:%Y-%m-%d %H:%M} UTC, and {whole}" if copies else ""
    yield from found or [ok(shown)]


def _age(settings: BackupSettings, copies: list[Copy], folder: Path) -> Iterator[Finding]:
    parts = schedule_parts(settings.schedule)
    age = datetime.now(UTC) - copies[0].made if copies else None
    if parts is None and age is None:
        yield Finding(level="note", what="no backups are made", why=_LOST, mend=f"{_SCHEDULE}, or once: homebody backup create")
    elif parts is None and age is not None and age > BY_HAND:
        what = f"the newest backup is {age.days} days old, and none are made by themselves"
        yield Finding(level="note", what=what, where=str(folder), why=_LOST, mend=_SCHEDULE)
    elif parts is not None and age is not None and age > GRACE + (timedelta(days=1) if parts[0] is None else timedelta(days=7)):
        what = f"the newest backup is {age.days} days old, though the schedule is {settings.schedule}"
        yield Finding(
            level="warning",
            what=what,
            where=str(folder),
            why=_LOST,
            mend="homebody backup create, and: homebody logs --grep backup",
        )


def _left_over(installation: Installation) -> Iterator[Finding]:
    for folder in left_over(installation.paths.home, [profile.workspace for profile in installation.profiles]):
        yield Finding(
            level="warning",
            what="a restore that was killed has left this folder",
            where=str(folder),
            why="It holds what the backup holds, keys and conversations included.",
            mend=f"rm -r {shlex.quote(str(folder))}",
            fix=partial(_remove, folder),
        )


async def _remove(folder: Path) -> str:
    await in_thread(shutil.rmtree, folder)
    return f"removed {folder}"


def _last(last: LastBackup | None) -> Iterator[Finding]:
    if last is not None and last.failed:
        what = f"the last backup failed ({last.tried[:16]}): {last.failed}"
        yield Finding(level="error", what=what, why=_LOST, mend="Try it by hand: homebody backup create")


def _newest(copies: list[Copy], keys: Keys) -> tuple[str, list[Finding]]:
    """Return what is known of the newest backup, in words, and what is wrong with it."""
    if not copies:
        return "", []
    path = copies[0].path
    again = f"Make another: homebody backup create. Then: rm {shlex.quote(str(path))}"
    ends = time.monotonic() + LONGEST

    def progress(files: int, count: int) -> None:
        if time.monotonic() > ends:
            raise _LongEnough(files, count)

    try:
        verify(path, keys, progress)
    except _LongEnough as so_far:
        files, count = so_far.args
        return f"whole as far as was looked ({files} files, {count / 1e6:.0f} MB; to the end: homebody backup verify)", []
    except BackupLocked as reason:
        return f"was not opened: {reason}", []
    except BackupUnusable as error:
        what = f"the newest backup is damaged: {error}"
        return "", [Finding(level="error", what=what, where=str(path), why="It cannot be restored.", mend=again)]
    return "every byte of it is right", []


class _LongEnough(Exception):
    """Ends the look at a large backup."""


BACKUPS = Check(name="backups", examine=_examine, seconds=60.0)
