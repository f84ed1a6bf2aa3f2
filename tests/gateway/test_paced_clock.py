"""A clock that runs faster than the system's, and a gateway that lives under it for days."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.base.clock import PacedClock

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[2]


async def test_an_hour_passes_while_somebody_sleeps_for_an_hour_of_a_fast_clock() -> None:
    clock = PacedClock(BEGAN, pace=100_000)
    began = time.monotonic()
    await clock.sleep(3600)
    assert clock.now() >= BEGAN + timedelta(hours=1)
    assert time.monotonic() - began >= 0.036


async def test_sleepers_of_a_slow_clock_wake_when_it_is_made_fast() -> None:
    clock = PacedClock(BEGAN, pace=1.0)
    sleeping = asyncio.ensure_future(clock.sleep(86_400))
    await asyncio.sleep(0)
    clock.pace = 10_000_000
    await asyncio.wait_for(sleeping, 60)
    assert clock.monotonic() >= 86_400


def test_a_clock_does_not_leap_when_its_pace_changes() -> None:
    clock = PacedClock(BEGAN, pace=50)
    times = []
    for pace in (50, 0.5, 1000, 1):
        times.append(clock.monotonic())
        clock.pace = pace
        times.append(clock.monotonic())
    assert times == sorted(times)
    assert times[-1] < 1000


@pytest.mark.long
def test_days_of_a_busy_house_leave_no_descriptor_thread_or_task_behind() -> None:
    command = [sys.executable, "benchmarks/soak.py", "--days", "2"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={"PYTHONPATH": ".", "PATH": "/usr/bin:/bin:/usr/sbin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "0 unanswered" in done.stdout
