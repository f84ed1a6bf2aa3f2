"""Checks the backups: is one made regularly, did the last one succeed, and is the newest file one?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from gateway.backup.folder import Copy, copies_in, folder_of
from gateway.backup.schedule import LastBackup, read_last
from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok
from gateway.settings.backup import BackupSettings, schedule_parts

GRACE: Final = timedelta(days=2)
"""How much later than its schedule a backup may be: the gateway may have been off."""
BY_HAND: Final = timedelta(days=31)
_BEGINNINGS: Final = (b"\x1f\x8b", b"age-encryption.org/", b"-----BEGIN AGE ENCRYPTED FILE-----")
_SCHEDULE: Final = "homebody config set backup.schedule 03:30"
_LOST: Final = "If this disk breaks, settings, conversations and notes since then are lost."


def _look(installation: Installation) -> Iterator[Finding]:
    settings, paths = installation.settings.backup, installation.paths
    folder = folder_of(paths, settings)
    copies = copies_in(folder)
    found = [*_age(settings, copies, folder), *_last(read_last(paths.state)), *_newest(copies)]
    if copies and not settings.command and _same_disk(folder, paths.state):
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
    shown = f"the newest of {len(copies)} backups is from {copies[0].made:%Y-%m-%d %H:%M} UTC" if copies else ""
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


def _last(last: LastBackup | None) -> Iterator[Finding]:
    if last is not None and last.failed:
        what = f"the last backup failed ({last.tried[:16]}): {last.failed}"
        yield Finding(level="error", what=what, why=_LOST, mend="Try it by hand: homebody backup create")


def _newest(copies: list[Copy]) -> Iterator[Finding]:
    if not copies:
        return
    path = copies[0].path
    with path.open("rb") as file:
        beginning = file.read(64)
    if not beginning.startswith(_BEGINNINGS):
        what = "the newest backup is damaged: it is neither packed nor encrypted"
        mend = f"Make another: homebody backup create. Then: rm {shlex.quote(str(path))}"
        yield Finding(level="error", what=what, where=str(path), why="It cannot be restored.", mend=mend)


def _same_disk(one: Path, two: Path) -> bool:
    return two.exists() and one.stat().st_dev == two.stat().st_dev


BACKUPS = Check(name="backups", look=_look)
