"""A year of 200 jobs through the scheduler, the service and the ledger: under a minute of computing where little else runs."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gateway.jobs.scheduler import Scheduler
from gateway.schedules.schedule import next_after
from tests.jobs.bench import Bench

JANUARY = datetime(2026, 12, 31, 23, tzinfo=UTC)  # midnight in Berlin
YEAR = timedelta(days=365)
HALF_MINUTE = timedelta(seconds=30)
HALF_HOUR = timedelta(minutes=30)
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (a year has 30,000 commits, and what is measured is not the disk)


def schedules() -> list[str]:
    """200 of them: most once a day or less, like those of a household."""
    daily = [f"{n * 7 % 60} {n % 24} * * *" for n in range(40)]
    weekdays = [f"{n * 11 % 60} {6 + n % 14} * * 1-5" for n in range(40)]
    weekly = [f"{n * 13 % 60} {n % 24} * * {n % 7}" for n in range(80)]
    monthly = [f"0 {n % 24} {1 + n % 28} * *" for n in range(20)]
    rest = ["30 2 * * *", "0 2,4 * * *", "0 0 L * *", "0 9 * * MON#1", "0 0 13 * 5", "every 6 hours", "every 25 hours"]
    once = [f"2027-{1 + n:02}-15 02:30" for n in range(12)]
    return [*daily, *weekdays, *weekly, *monthly, *rest, *once, "0 */8 * * *"]


def test_a_year_of_200_jobs() -> None:
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None) as folder:
        asyncio.run(lived(Bench(Path(folder) / "ledger.sqlite", JANUARY)))


async def lived(bench: Bench) -> None:
    await bench.open()
    bench.answers = False
    added = [await bench.add(schedule, kind="prompt") for schedule in schedules()]
    assert len(added) == 200
    scheduler = Scheduler({}, bench.clock, reset=lambda *_: None, sweep=bench.ledger.tally, jobs=bench.jobs)
    answered = 0
    while bench.clock.now() < JANUARY + YEAR:
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
        instant: datetime | None = JANUARY
        while instant is not None and (instant := next_after(bench.jobs.schedule_of(job), instant)) is not None:
            if instant > bench.clock.now():
                break
            expected.append((job.id, instant))
    assert sorted(fired) == sorted(expected)
    assert set(fired.values()) == {1}
    assert len(fired) > 28_000
    assert bench.told == []
    late = max(now - step.fire for now, step, _ in bench.steps if step.fire is not None)
    assert late <= HALF_MINUTE
    await bench.ledger.close()
