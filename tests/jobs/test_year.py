"""200 jobs through the scheduler, the service and the ledger: half a month with a change of the clocks, and a year (`make thorough`)."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.jobs.scheduler import Scheduler
from gateway.schedules.schedule import next_after
from tests.jobs.bench import Bench

JANUARY = datetime(2026, 12, 31, 23, tzinfo=UTC)  # midnight in Berlin
MARCH = datetime(2027, 3, 13, 23, tzinfo=UTC)  # a day before the 15th, and two weeks before the change
HALF_MINUTE = timedelta(seconds=30)
HALF_HOUR = timedelta(minutes=30)
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (a year has 30,000 commits, and what is measured is not the disk)


def schedules(month: int) -> list[str]:
    """200 of them: most once a day or less, like those of a household. Those that fire once begin with a month of 2027."""
    daily = [f"{n * 7 % 60} {n % 24} * * *" for n in range(40)]
    weekdays = [f"{n * 11 % 60} {6 + n % 14} * * 1-5" for n in range(40)]
    weekly = [f"{n * 13 % 60} {n % 24} * * {n % 7}" for n in range(80)]
    monthly = [f"0 {n % 24} {1 + n % 28} * *" for n in range(20)]
    rest = ["30 2 * * *", "0 2,4 * * *", "0 0 L * *", "0 9 * * MON#1", "0 0 13 * 5", "every 6 hours", "every 25 hours"]
    once = [f"{2027 + n // 12}-{1 + n % 12:02}-15 02:30" for n in range(month - 1, month + 11)]
    return [*daily, *weekdays, *weekly, *monthly, *rest, *once, "0 */8 * * *"]


@pytest.mark.parametrize(
    ("begins", "month", "days", "least"), [(MARCH, 3, 16, 1_150), pytest.param(JANUARY, 1, 365, 28_000, marks=pytest.mark.long)]
)
def test_200_jobs_fire_when_they_are_due_and_once(begins: datetime, month: int, days: int, least: int) -> None:
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None) as folder:
        bench = Bench(Path(folder) / "ledger.sqlite", begins)
        fired = asyncio.run(lived(bench, schedules(month), begins, begins + timedelta(days=days)))
    assert fired > least


async def lived(bench: Bench, given: list[str], begins: datetime, ends: datetime) -> int:
    """Live until then, and return how often something fired."""
    await bench.open()
    bench.answers = False
    added = [await bench.add(schedule, kind="prompt") for schedule in given]
    assert len(added) == 200
    scheduler = Scheduler({}, bench.clock, reset=lambda *_: None, sweep=bench.ledger.tally, jobs=bench.jobs)
    answered = 0
    while bench.clock.now() < ends:
        due = bench.jobs.next_due
        assert due is not None
        if bench.handed[answered:] and due - bench.handed[answered].received_at > HALF_HOUR:  # agents are done by then
            await bench.ledger.inbox.settle([row.id for row in bench.handed[answered:]], "answered")
            answered = len(bench.handed)
        bench.clock.set(max(due, bench.clock.now() + HALF_MINUTE))
        await scheduler.tick()
    fired = Counter((step.job, step.fire) for _, step, result in bench.steps if result.outcome == "fired")
    expected: list[tuple[str, datetime]] = []
    for job in added:
        instant: datetime | None = begins
        while instant is not None and (instant := next_after(bench.jobs.checks.schedule_of(job), instant)) is not None:
            if instant > bench.clock.now():
                break
            expected.append((job.id, instant))
    assert sorted(fired) == sorted(expected)
    assert set(fired.values()) == {1}
    assert bench.told == []
    late = max(now - step.fire for now, step, _ in bench.steps if step.fire is not None)
    assert late <= HALF_MINUTE
    await bench.ledger.close()
    return len(fired)
