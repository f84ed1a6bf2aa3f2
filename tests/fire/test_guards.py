"""What watches over the house: crashes that repeat, a loop that stands still, a disk that fills."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gateway.api import api_client
from gateway.base.clock import ManualClock
from gateway.supervision.crash_loop import TOO_OFTEN, CrashLoopBreaker
from gateway.supervision.disk_guard import MB, Disk, DiskGuard
from gateway.supervision.watchdog import STOOD_STILL, Watchdog, supervised
from gateway.supervision.written_folders import WrittenFolder
from tests.fire.world import STATE, Nursery, World, missing_tools
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_only_recent_lives_that_ended_badly_count(tmp_path: Path) -> None:
    clock = ManualClock(NOON)
    assert CrashLoopBreaker(tmp_path, clock).begin() == 0
    clock.move(10)
    assert CrashLoopBreaker(tmp_path, clock).begin() == 1
    clock.move(10)
    good = CrashLoopBreaker(tmp_path, clock)
    assert good.begin() == 2
    good.end()
    clock.move(10)
    assert CrashLoopBreaker(tmp_path, clock).begin() == 2
    clock.move(10)
    assert CrashLoopBreaker(tmp_path, clock).begin() == TOO_OFTEN
    clock.move(301)
    assert CrashLoopBreaker(tmp_path, clock).begin() == 0
    (tmp_path / "starts.json").write_text("rubbish")
    assert CrashLoopBreaker(tmp_path, clock).begin() == 0


async def test_a_loop_that_stands_still_is_told_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), Watchdog(stalled=0.05, tick=0.01) as dog:
        await asyncio.sleep(0.03)
        time.sleep(0.3)  # noqa: ASYNC251  (this is what must be seen)
        await asyncio.sleep(0.03)
    told = [record.getMessage() for record in caplog.records if "time.sleep(0.3)" in record.getMessage()]
    assert len(told) == 1, "once, however long it lasts; a busy machine may add other stalls"
    assert dog.stalls >= 1
    assert "test_a_loop_that_stands_still" in told[0]


async def test_a_loop_that_never_comes_back_ends_the_process_where_it_is_started_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended = threading.Event()
    with Watchdog(stalled=0.02, tick=0.01, hopeless=0.1, end=ended.set):
        assert ended.wait(PATIENCE), "the thread ends it while the loop stands still"
    assert "must be restarted" in caplog.text
    assert "test_a_loop_that_never_comes_back" in caplog.text


def test_the_process_ends_at_once_with_a_code_that_asks_for_another_try() -> None:
    code = "from gateway.supervision.watchdog import end_at_once; import atexit; atexit.register(print, 'late'); end_at_once()"
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert (ended.returncode, ended.stdout) == (STOOD_STILL, b"")
    assert supervised({"INVOCATION_ID": "x"})
    assert not supervised({})


def test_a_pause_is_told_once_until_it_is_over(tmp_path: Path) -> None:
    clock = ManualClock(NOON)

    def crash() -> CrashLoopBreaker:
        clock.move(1)
        life = CrashLoopBreaker(tmp_path, clock)
        life.begin()
        return life

    for _ in range(TOO_OFTEN):
        assert not crash().owner_knows
    first = crash()
    assert not first.owner_knows, "it died before it could tell"
    second = crash()
    assert not second.owner_knows
    second.record_owner_told()
    third = crash()
    assert third.owner_knows
    third.resumed()
    assert not crash().owner_knows, "that is another pause"
    clock.move(3600)
    (tmp_path / "starts.json").write_text(json.dumps([[clock.now().timestamp(), False]] * TOO_OFTEN))
    life = CrashLoopBreaker(tmp_path, clock)
    assert (life.begin(), life.owner_knows) == (TOO_OFTEN, False), "an earlier version did not write whether it was paused"


def test_a_ledger_that_is_removed_under_a_running_gateway_is_told_once(tmp_path: Path) -> None:
    state = tmp_path / "state"
    gone: list[Path] = []
    state.mkdir()
    file = state / "ledger.sqlite"
    guard = DiskGuard(state, list, ManualClock(NOON), lambda _: None, watched=file, gone=gone.append)
    guard.check()
    assert gone == [], "where there is none, in a database elsewhere, none is missed"
    file.touch()
    guard.check()
    shutil.rmtree(state)
    guard.check()
    guard.check()
    assert gone == [file]


def test_a_full_disk_is_told_and_the_reserve_is_given_up(tmp_path: Path) -> None:
    free = [1000 * MB]
    told: list[str] = []
    guard = DiskGuard(
        tmp_path,
        lambda: [WrittenFolder(tmp_path)],
        ManualClock(NOON),
        lambda disk: told.append(disk.level),
        free=lambda _: free[0],
    )
    guard.check()
    assert ((tmp_path / "reserve").stat().st_size, told) == (8 * MB, [])
    for megabytes in (150, 140, 20, 30, 100, 500):
        free[0] = megabytes * MB
        guard.check()
        if megabytes == 20:
            assert not (tmp_path / "reserve").exists()
    assert told == ["low", "out", "fine"]
    assert (tmp_path / "reserve").exists()


def test_each_disk_is_told_of_once_and_only_what_nothing_works_without_stops_the_gateway(tmp_path: Path) -> None:
    home, notes, logs = tmp_path / "home", tmp_path / "notes", tmp_path / "logs"
    for folder in (home, notes, logs):
        folder.mkdir()
    folders = [
        WrittenFolder(home),
        WrittenFolder(notes / "main" / "not yet there", "notes of main"),
        WrittenFolder(notes, "notes of cook"),
        WrittenFolder(logs, "log lines"),
    ]
    free = {home: 1000 * MB, notes: 100 * MB, logs: 100 * MB}
    disks = {home: 1, notes: 2, logs: 3}
    told: list[Disk] = []
    guard = DiskGuard(
        home, lambda: folders, ManualClock(NOON), told.append, free=lambda path: free[path], device=lambda path: disks[path]
    )
    guard.check()
    assert told == []
    free[notes] = 3 * MB
    guard.check()
    guard.check()
    (disk,) = told
    assert (disk.level, disk.stops, disk.lost) == ("out", False, "notes of main, notes of cook")
    assert "I go on answering, but what I write there is not kept (notes of main, notes of cook)" in disk.warning()
    free[notes], free[home] = 100 * MB, 10 * MB
    guard.check()
    assert [(one.folder, one.level, one.stops) for one in told[1:]] == [(home, "out", True), (folders[1].path, "fine", False)]
    disks[notes] = disks[logs] = 1
    del told[:]
    guard.check()
    assert told == [], "all of it is on the disk that is known to be full"
    del disks[home]
    disks |= {home: 1, notes: 2, logs: 3}
    free[logs] = 0
    guard.check()
    folders.pop()
    guard.check()
    assert [(one.folder, one.level) for one in told] == [(logs, "out"), (logs, "fine")]
    assert told[-1].warning() == f"Nothing is written to the disk of {logs} any more."


@pytest.mark.skipif("Linux with pidfd" in missing_tools(), reason="gateways are forked and watched as Linux does it")
async def test_a_house_that_fell_over_three_times_pauses_until_it_is_told_to_go_on(tmp_path: Path) -> None:
    async with Nursery.opened() as nursery, World(tmp_path / "house", nursery) as world:
        await world.say("tell me apple")
        assert not await world.live()
        for _ in range(TOO_OFTEN):
            life = await world.start()
            assert await world.quiet(life)
            await life.end(signal.SIGKILL)
        life = await world.start()
        await world.say("tell me plum")
        await world.platform.until(lambda: any("I crashed 3 times" in text for text in world.said()))
        await world.say("/status")
        await world.platform.until(lambda: any("Running" in text for text in world.said()))
        status = await api_client.ask(world.root / STATE, "status")
        assert (len(status["paused"]), status["inbox"]["waiting"], world.model.calls) == (1, 1, 0)
        await life.end(signal.SIGKILL)
        life = await world.start()
        assert len((await world.until_paused())["paused"]) == 1
        await world.say("/status")
        await world.platform.until(lambda: sum("Running" in text for text in world.said()) == 2)
        assert sum("I crashed 3 times" in text for text in world.said()) == 1, "once for each pause, not for each start"
        await world.say("/resume")
        assert await world.quiet(life)
        await life.end()
        assert world.said()[-1] == "heard plum"
        assert not await world.live()
