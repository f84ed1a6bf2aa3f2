"""The work of ``homebody backup`` on this home: making a backup, trying one out, and what is held since a restore."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from gateway.backup.age_encryption import Keys, Lock, key_file
from gateway.backup.backup_folder import alone, copies_in, folder_of, free_name, prune, require_mounted
from gateway.backup.backup_schedule import read_last
from gateway.backup.comparison import Original
from gateway.backup.creation import Made, Wish, create
from gateway.backup.drill import Report, drill
from gateway.backup.extraction import Progress, verify
from gateway.backup.home_sources import can_open, lock_of, outside_files, settings_to_store, sources_of
from gateway.base.clock import SystemClock
from gateway.base.errors import HomebodyError, UsageError
from gateway.cli.gateway_calls import call_ledger, ledger_copier
from gateway.ledger.rows import RESTORED
from gateway.storage.moving import copy_conversations

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gateway.cli.invocation import Invocation

LONGEST_COMMAND: Final = 4 * 3600
"""Seconds that the owner's command may take to take a backup away."""


def make(
    invocation: Invocation,
    *,
    target: Path | None,
    no_secrets: bool,
    recipients: Sequence[str],
    passphrase: str,
    progress: Progress,
) -> tuple[Made, bool, bool]:
    """Make a backup; return it, whether a key was made for it, and whether it was read back."""
    paths, loaded = invocation.paths, invocation.loaded
    paths.prepare()
    sources = sources_of(paths, loaded, without_secrets=no_secrets)
    lock, fresh = lock_of(
        paths, recipients or loaded.settings.backup.recipients, passphrase=passphrase, without_secrets=no_secrets
    )
    now = SystemClock().now()
    with alone(paths.state / "backup-work.lock"):
        wish = Wish(
            sources=sources,
            target=_target(invocation, target, encrypted=bool(lock.recipients or lock.passphrase)),
            lock=lock,
            made=now,
            ledger=ledger_copier(invocation),
            conversations=partial(copy_conversations, loaded.settings.storage),
            settings_text=settings_to_store(paths, loaded, without_secrets=no_secrets),
            elsewhere=outside_files(paths, loaded, sources),
            progress=progress,
        )
        made = create(wish)
        checked = can_open(paths, lock)
        if checked:
            verify(made.path, _keys_for(invocation, lock), progress)
    return made, fresh, checked


def _keys_for(invocation: Invocation, lock: Lock) -> Keys:
    return Keys(files=(key_file(invocation.paths),), passphrase=lambda: lock.passphrase)


def _target(invocation: Invocation, target: Path | None, *, encrypted: bool) -> Path:
    now = SystemClock().now()
    if target is None:
        return free_name(folder_of(invocation.paths, invocation.loaded.settings.backup), now, encrypted=encrypted)
    if target.is_dir():
        return free_name(target, now, encrypted=encrypted)
    if os.path.lexists(target):
        raise UsageError(f"{target} exists already", hint="Name a folder, or a file that does not exist.")
    return target


def look_at_folder(invocation: Invocation) -> None:
    """Refuse to make a scheduled backup where the disk of the earlier ones is not mounted. Raises StorageFailed."""
    settings, paths = invocation.loaded.settings.backup, invocation.paths
    require_mounted(folder_of(paths, settings), paths.home, read_last(paths.state), taken_away=bool(settings.command))


def take_away(invocation: Invocation, made: Path) -> list[Path]:
    """Run the owner's command, then delete backups that need not be kept; return them. Raises HomebodyError where the command fails."""
    settings = invocation.loaded.settings
    named = settings.agent(settings.default_agent).settings.user_timezone
    if settings.backup.command:
        _run(settings.backup.command, made)
    from gateway.agents.memory_stores import machine_zone

    zone = ZoneInfo(named) if named else machine_zone()
    return [copy.path for copy in prune(folder_of(invocation.paths, settings.backup), settings.backup.keep, zone)]


def _run(command: str, made: Path) -> None:
    hint = "The backup itself was made. Try the command by hand, or change it: homebody config set backup.command ..."
    try:
        done = subprocess.run(  # noqa: S602  (the owner's own command, in the shell that it is written for)
            command,
            shell=True,
            check=False,
            timeout=LONGEST_COMMAND,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "BACKUP": str(made)},
        )
    except subprocess.TimeoutExpired as error:
        raise HomebodyError(
            "the command that takes the backup away takes too long", where="backup.command", hint=hint
        ) from error
    if done.returncode:
        last = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()[-1:]
        why = f"it ended with {done.returncode}" + (f": {last[0][:200]}" if last else "")
        raise HomebodyError(f"the command that takes the backup away failed: {why}", where="backup.command", hint=hint)


def chosen(invocation: Invocation, file: Path | None) -> Path:
    """Return the backup that was named, else the newest. Raises UsageError."""
    if file is not None:
        return file
    folder = folder_of(invocation.paths, invocation.loaded.settings.backup)
    copies = copies_in(folder)
    if not copies:
        raise UsageError(f"there is no backup in {folder}", hint="Make one: homebody backup create")
    return copies[0].path


def to_try(invocation: Invocation, file: Path | None, *, make_one: bool, progress: Progress) -> tuple[Path, bool]:
    """Return the backup that was named, the newest, or one made now; and whether a key was made for it."""
    if file is None and (make_one or not copies_in(folder_of(invocation.paths, invocation.loaded.settings.backup))):
        made, fresh, _ = make(invocation, target=None, no_secrets=False, recipients=(), passphrase="", progress=progress)
        return made.path, fresh
    return chosen(invocation, file), False


def drilled(invocation: Invocation, path: Path, *, scratch: Path | None, keys: Keys, progress: Progress) -> Report:
    """Try a backup out."""
    paths = invocation.paths
    original = (
        Original(
            sources=sources_of(paths, invocation.loaded),
            ledger=ledger_copier(invocation),
            conversations=partial(copy_conversations, invocation.loaded.settings.storage),
        )
        if paths.state.is_dir()
        else None
    )
    with alone(paths.state / "backup-work.lock"):
        return drill(
            path,
            keys,
            scratch or paths.home.parent,
            env=os.environ,
            now=SystemClock().now(),
            original=original,
            progress=progress,
        )


def held_rows(invocation: Invocation) -> dict[str, list[dict[str, Any]]]:
    """Return the messages and replies that are held since a restore."""
    replies = _call(invocation, "outbox.list")["outbox"]
    messages = _call(invocation, "inbox.missed")["inbox"]
    return {
        "messages": [row for row in messages if row["reason"] == RESTORED],
        "replies": [row for row in replies if row["reason"] == RESTORED],
    }


def release_all(invocation: Invocation) -> dict[str, int]:
    """Let all of them go on; return how many."""
    done = {"messages": 0, "replies": 0}
    while rows := held_rows(invocation):
        if not any(rows.values()):
            break
        for row in rows["messages"]:
            _call(invocation, "inbox.retry", row=row["id"])
        for row in rows["replies"]:
            _call(invocation, "outbox.retry", row=row["id"])
        done = {name: count + len(rows[name]) for name, count in done.items()}
    return done


def _call(invocation: Invocation, call: str, **arguments: Any) -> dict[str, Any]:
    from gateway.api.handlers.queues import QueueHandlers

    return call_ledger(invocation, lambda ledger: QueueHandlers(ledger).calls(), call, **arguments)
