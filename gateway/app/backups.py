"""Backups on their schedule. A process of its own makes each (``homebody backup create``); the gateway gives it a copy of the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from agent.tools.child_process import Spawn
from gateway.agents.memory_stores import machine_zone
from gateway.app.dependencies import Dependencies
from gateway.app.own_command import OwnCommand
from gateway.base.errors import StorageFailed
from gateway.base.paths import private_folder
from gateway.ledger.protocol import Ledger
from gateway.settings.backup_settings import schedule_parts
from gateway.settings.root import SettingsStore

if TYPE_CHECKING:
    from gateway.backup.backup_schedule import LastBackup

log = logging.getLogger(__name__)

LONGEST: Final = 6 * 3600.0
"""Seconds that one backup may take, with the owner's command that takes it away."""

_KEY_MADE: Final = (
    "🔑 The first backup was made, and with it a key that opens this and all later ones. Keep a copy of it where this machine is not: "
    "`homebody backup key` shows it. Without it nobody can open the backups on another machine, you included."
)


class ScheduledBackups:
    """Looks at every tick of the scheduler whether a backup is due. ``say`` tells the owner of failures."""

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        ledger: Ledger,
        say: Callable[[str], None],
        *,
        spawn: Spawn = asyncio.create_subprocess_exec,
    ) -> None:
        self._deps = deps
        self._settings = settings
        self._ledger = ledger
        self._say = say
        self._command = OwnCommand(deps.paths, deps.env, spawn=spawn)
        self._task: asyncio.Task[None] | None = None

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {"backup.ledger": self.copy_ledger}

    async def copy_ledger(self) -> dict[str, Any]:
        """Copy the ledger for a backup that is being made, and tell where. Whoever asked takes the file away. Raises StorageFailed."""
        from gateway.backup.contents import WORK

        folder = await asyncio.to_thread(private_folder, self._deps.paths.state / WORK)
        place = folder / "ledger-of-gateway.sqlite"
        await self._ledger.copy_to(place)
        return {"copy": str(place)}

    async def facts(self) -> dict[str, Any]:
        """Return when the newest backup was made, and what became of the last one on the schedule, as JSON values."""
        settings = self._settings.current.backup

        def look() -> dict[str, Any]:
            from gateway.backup.backup_folder import copies_in, folder_of
            from gateway.backup.backup_schedule import read_last

            folder, last = folder_of(self._deps.paths, settings), read_last(self._deps.paths.state)
            try:
                copies = copies_in(folder)
            except StorageFailed as error:
                return {"newest": None, "count": 0, "failed": str(error)}
            newest = copies[0] if copies else None
            return {
                "newest": newest.made.isoformat(timespec="seconds") if newest else None,
                "bytes": newest.size if newest else 0,
                "encrypted": newest.encrypted if newest else False,
                "count": len(copies),
                "failed": last.failed if last else "",
            }

        return {"schedule": settings.schedule, **await asyncio.to_thread(look)}

    async def tick(self) -> None:
        """Begin a backup if one is due and none is being made."""
        settings = self._settings.current
        if not self._deps.serving or (self._task is not None and not self._task.done()):
            return
        if schedule_parts(settings.backup.schedule) is None:
            return
        from gateway.backup.backup_schedule import is_due, read_last

        named = settings.agent(settings.default_agent).settings.user_timezone
        last = await asyncio.to_thread(read_last, self._deps.paths.state)
        if is_due(settings.backup.schedule, last, self._deps.clock.now(), ZoneInfo(named) if named else machine_zone()):
            self._task = asyncio.ensure_future(self._make(last))

    async def done(self) -> None:
        """Wait for a backup that is being made."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """End a backup that is being made; what it has written so far is deleted by the next one."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _make(self, former: LastBackup | None) -> None:
        from gateway.backup.backup_folder import same_disk
        from gateway.backup.backup_schedule import LastBackup, write_last

        tried = self._deps.clock.now().isoformat(timespec="seconds")
        before = former or LastBackup(tried=tried)
        outcome = replace(before, tried=tried, failed="", told=bool(before.failed) and before.told)
        try:
            facts = await self._run()
        except (OSError, TimeoutError, ValueError) as error:
            outcome = replace(outcome, failed=str(error) or "it took too long")
        else:
            outcome = replace(outcome, failed=facts.get("failed", ""))
            if "file" in facts:
                apart = not await asyncio.to_thread(same_disk, Path(facts["file"]).parent, self._deps.paths.home)
                outcome = replace(outcome, file=facts["file"], apart=apart)
            if facts.get("keyMade"):
                self._say(_KEY_MADE)
        if outcome.failed:
            log.warning("the backup failed: %s", outcome.failed)
        else:
            log.info("a backup was made: %s", outcome.file)
        if outcome.failed and not outcome.told:
            self._say(f"⚠️ The backup failed: {outcome.failed} I try again every hour. By hand: `homebody backup create`")
        with contextlib.suppress(
            OSError, StorageFailed
        ):  # a full disk is told of elsewhere; the backup is only tried again earlier
            await asyncio.to_thread(write_last, self._deps.paths.state, replace(outcome, told=bool(outcome.failed)))

    async def _run(self) -> dict[str, Any]:
        """Run the command; return ``file`` that it made and ``keyMade``, or why it ``failed``. Raises OSError, TimeoutError, ValueError."""
        printed = await self._command.run("backup", "create", "--scheduled", "--json", longest=LONGEST)
        if printed.code == 0:
            facts: dict[str, Any] = json.loads(printed.out)
            return {"file": str(facts["file"]), "keyMade": facts.get("keyMade", False)}
        return {"failed": _reason(printed.errors)}


def restored_notice(about: dict[str, Any]) -> str:
    """Return what the owner is told at the first start after a restore. ``about`` is what ``Ledger.begin_restored`` returned."""
    held = about.get("held", {})
    waits = sum(held.get(name, 0) for name in ("messages", "replies", "unasked"))
    kept = "1 message is" if waits == 1 else f"{waits} messages are"
    rest = f" {kept} held, because they may have been dealt with since: `homebody backup release` shows them." if waits else ""
    return (
        f"This home was restored from a backup of {about.get('made', '')[:16].replace('T', ' ')} UTC. What came since is not in it. "
        f"Jobs that were due since are told and not run.{rest}"
    )


def _reason(printed: bytes) -> str:
    lines = printed.decode("utf-8", "replace").strip().splitlines()
    try:
        facts = json.loads(lines[-1])
        return ". ".join(str(part).rstrip(".") for part in (facts["error"], facts["mend"]) if part) + "."
    except (ValueError, KeyError, TypeError, IndexError):
        return f"{lines[-1] if lines else 'it ended without a word'}."
