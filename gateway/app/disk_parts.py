"""What becomes of a full disk: work pauses where nothing goes without it, and owner, status and page are told which one it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path

from gateway.app.dependencies import Dependencies
from gateway.ledger.open_ledger import LEDGER
from gateway.outbound.owner_notifications import OwnerNotifications, StartupNotices
from gateway.queue.pause import Cause, Pause
from gateway.settings.root import SettingsStore
from gateway.supervision.disk_guard import Disk, DiskGuard
from gateway.supervision.written_folders import WrittenFolder, written_folders

log = logging.getLogger(__name__)


class DiskParts:
    """Watches all disks that a gateway writes to."""

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        pause: Pause,
        *,
        notices: StartupNotices,
        owner: OwnerNotifications,
    ) -> None:
        self._pause = pause
        self._notices = notices
        self._owner = owner
        self._noted: dict[Path, str] = {}
        self._full: set[Cause] = set()
        pause.still = self._still
        loop = asyncio.get_running_loop()

        def changed(disk: Disk) -> None:
            loop.call_soon_threadsafe(self._changed, disk)

        def folders() -> list[WrittenFolder]:
            return written_folders(deps.paths, settings.current)

        def gone(file: Path) -> None:
            loop.call_soon_threadsafe(self._gone, file)

        self.guard = DiskGuard(deps.paths.state, folders, deps.clock, changed, watched=deps.paths.state / LEDGER, gone=gone)

    def _changed(self, disk: Disk) -> None:
        text, cause = disk.warning(), f"disk {disk.folder}"
        if (former := self._noted.pop(disk.folder, None)) is not None:
            self._notices.withdraw(former)
        if disk.stops and disk.level == "out":
            self._full.add(cause)
            self._pause.begin(cause, text, short=disk.short())
            return
        self._full.discard(cause)
        self._pause.end(cause)
        text = f"{self._pause.name}: {text}" if self._pause.name else text
        if disk.level != "fine":
            self._noted[disk.folder] = text
            self._notices.tell(text)
        self._owner.say(f"💾 {text}", waits=True)

    def _gone(self, file: Path) -> None:
        text = (
            f"{file} was removed while I run. What I take and do from now on is lost when I end. Restart me, and restore what was in it "
            "from a backup: homebody restart; homebody backup list"
        )
        log.error("the ledger was removed under the running gateway: %s", file)
        self._notices.tell(text)
        self._owner.say(f"⚠️ {text}", waits=True)

    async def _still(self) -> Collection[Cause]:
        await asyncio.to_thread(self.guard.check)
        await asyncio.sleep(0)  # what it found is told to this loop
        return set(self._full)
