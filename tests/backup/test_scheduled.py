"""The gateway begins a backup when it is due, gives it its ledger, and tells its owner once of failures."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from gateway.app.backups import ScheduledBackups
from gateway.app.dependencies import Dependencies
from gateway.backup.backup_schedule import read_last
from gateway.base.clock import ManualClock
from gateway.base.paths import Paths
from gateway.ledger.snapshot import VERSION, read_version
from gateway.ledger.sqlite import SqliteLedger
from gateway.settings.root import Settings, SettingsStore

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


class Runs:
    """Starts a program in place of the command, which prints and ends as it is told."""

    def __init__(self, said: list[tuple[str, str, int]]) -> None:
        self._said = said
        self.commands: list[tuple[str, ...]] = []

    async def __call__(self, *words: str, **how: Any) -> asyncio.subprocess.Process:
        self.commands.append(words)
        out, err, code = self._said.pop(0)
        program = f"import sys; print({out!r}); print({err!r}, file=sys.stderr); sys.exit({code})"
        return await asyncio.create_subprocess_exec(sys.executable, "-c", program, **how)


async def test_failures_are_told_once_and_tried_again_and_a_success_ends_that(tmp_path: Path) -> None:
    full = json.dumps({"error": "could not make the backup: No space left on device", "mend": "Free some space"})
    runs = Runs(
        [("", full, 6), ("", full, 6), (json.dumps({"file": "/b/x.age", "keyMade": True}), "", 0), ("", "Traceback\nboom", 1)]
    )
    clock, told = ManualClock(NOW), []
    paths = Paths(tmp_path / "home")
    paths.prepare()
    settings = SettingsStore(
        Settings.model_validate({"backup": {"schedule": "03:30"}, "agents": {"defaults": {"userTimezone": "UTC"}}})
    )
    ledger = await SqliteLedger.open(paths.state / "ledger.sqlite", clock)
    deps = Dependencies(settings=settings.current, paths=paths, env={}, clock=clock, serving=True)
    backups = ScheduledBackups(deps, settings, ledger, told.append, spawn=runs)

    async def ticks(ahead: timedelta) -> None:
        clock.set(clock.now() + ahead)
        await backups.tick()
        await backups.done()
        last[0] = read_last(paths.state)

    last: list[Any] = [None]
    await ticks(timedelta(0))
    why = "could not make the backup: No space left on device. Free some space."
    assert told == [f"⚠️ The backup failed: {why} I try again every hour. By hand: `homebody backup create`"]
    await ticks(timedelta(minutes=30))
    assert len(runs.commands) == 1
    await ticks(timedelta(minutes=31))
    assert (len(runs.commands), len(told)) == (2, 1)
    await ticks(timedelta(hours=1, minutes=1))
    assert last[0].file == "/b/x.age"
    assert not last[0].failed
    assert "`homebody backup key` shows it" in told.pop()
    await ticks(timedelta(hours=1))
    assert len(runs.commands) == 3, "the next one is due at night"
    await ticks(timedelta(days=1))
    assert told[1].startswith("⚠️ The backup failed: boom.")
    assert runs.commands[0][-4:] == ("backup", "create", "--scheduled", "--json")
    copy = (await backups.copy_ledger())["copy"]
    assert read_version(paths.state / "backup-work" / copy.rpartition("/")[2]) == VERSION
    await backups.close()
    await ledger.close()


async def test_nothing_is_begun_while_the_schedule_is_off(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "home")
    paths.prepare()
    settings = SettingsStore(Settings())
    ledger = await SqliteLedger.open(paths.state / "ledger.sqlite", ManualClock(NOW))
    deps = Dependencies(settings=settings.current, paths=paths, env={}, serving=True)
    runs = Runs([])
    await ScheduledBackups(deps, settings, ledger, print, spawn=runs).tick()
    assert runs.commands == []
    await ledger.close()
