"""The scheduler wakes when a job is due, and at once when one is added that is due earlier."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.clock import ManualClock, SystemClock
from gateway.jobs.scheduler import Scheduler
from gateway.jobs.waking import NextDue, Waker
from tests.jobs.bench import NOON, Bench
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

SECOND = timedelta(seconds=1)


def test_the_trigger_follows_the_next_job_and_is_always_ahead() -> None:
    clock = ManualClock(NOON)
    now = datetime(2030, 1, 1, tzinfo=UTC)
    for due, wait in (
        (None, 30.0),
        (NOON + 5 * SECOND, 5.0),
        (NOON + 99 * SECOND, 30.0),
        (NOON, 0.2),
        (NOON - 99 * SECOND, 0.2),
    ):
        trigger = NextDue(lambda due=due: due, clock, 30)  # type: ignore[misc]
        assert trigger.get_next_fire_time(None, now) == now + timedelta(seconds=wait)


async def test_a_job_that_is_added_is_not_kept_waiting_for_the_next_tick(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "ledger.sqlite", datetime.now(UTC))
    bench.clock = SystemClock()  # type: ignore[assignment]
    await bench.open()
    ticked = 0

    async def tick() -> None:
        nonlocal ticked
        ticked += 1

    scheduler = Scheduler({}, bench.clock, reset=lambda *_: None, sweep=tick, jobs=bench.jobs, every=PATIENCE * 10)
    await scheduler.start()
    await bench.add("every 1 hour", kind="prompt")
    began = time.monotonic()
    await bench.add("in 2 seconds", kind="prompt")
    async with asyncio.timeout(PATIENCE):
        while not bench.handed:  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.02)
    assert time.monotonic() - began > 0.9, "not before its time, which is cut to the second"
    assert len(bench.handed) == 1
    assert ticked == 0, "the rest of the work on a schedule keeps its own interval"
    scheduler.stop()
    await bench.ledger.close()


class SetClock(SystemClock):
    """The system's clock, set to another time."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


async def test_a_clock_that_is_set_either_way_wakes_it_long_before_the_next_tick() -> None:
    clock = SetClock()
    waker = Waker(lambda: None, clock, every=PATIENCE * 10, look=0.02)
    waker.start()
    try:
        for ahead in (timedelta(hours=1), timedelta(hours=-1), timedelta(seconds=3)):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(waker.woken(), 0.2)  # nothing happens while it goes as it should
            clock.ahead = ahead
            await asyncio.wait_for(waker.woken(), PATIENCE)
            waker.plan()
    finally:
        waker.stop()


async def test_what_is_due_beside_jobs_runs_at_its_instant() -> None:
    clock = SetClock()
    ran: list[datetime] = []
    due = clock.now() + timedelta(seconds=1)

    async def automation() -> None:
        ran.append(clock.now())

    def next_due() -> datetime | None:
        return due if not ran or ran[-1] < due else None

    scheduler = Scheduler(
        {}, clock, reset=lambda *_: None, sweep=automation, automation=automation, automation_due=next_due, every=PATIENCE * 10
    )
    await scheduler.start()
    try:
        async with asyncio.timeout(PATIENCE):
            while len(ran) < 2:  # noqa: ASYNC110  (nobody announces it; the first is that of the start)
                await asyncio.sleep(0.02)
        assert ran[1] >= due, "not before its instant, and long before the next tick"
    finally:
        scheduler.stop()


async def test_held_messages_are_sent_at_the_end_of_quiet_hours_and_before_the_jobs_that_are_due_then(bench: Bench) -> None:
    clock = SetClock()
    done: list[str] = []
    end = clock.now() + timedelta(seconds=1)
    sent: list[datetime] = []

    class Jobs:
        changed = staticmethod(lambda: None)

        @property
        def next_due(self) -> datetime | None:
            return end if "fired" not in done else None

        async def fire_due(self) -> int:
            if clock.now() >= end:
                done.append("fired")
            return 0

    async def release() -> None:
        sent.append(clock.now())
        done.append("released")

    scheduler = Scheduler(
        {},
        clock,
        reset=lambda *_: None,
        sweep=bench.ledger.tally,
        jobs=Jobs(),
        release=release,
        release_due=lambda: None if sent else end,
        every=PATIENCE * 10,
    )
    await scheduler.start()
    try:
        async with asyncio.timeout(PATIENCE):
            while "fired" not in done:  # noqa: ASYNC110  (nobody announces it)
                await asyncio.sleep(0.02)
    finally:
        scheduler.stop()
    assert done == ["released", "fired"]
    assert sent[0] - end < timedelta(seconds=20), "long before the next regular look"


async def test_an_agent_that_goes_while_others_are_tidied_up_ends_nothing(bench: Bench) -> None:
    """Where a cluster's gateway gives one up, say."""
    agents: dict[str, Any] = {}

    class Agent:
        def __init__(self, name: str) -> None:
            self.id = name
            self.store = self
            self.changed = None

        def all(self) -> list[Any]:
            return []

        def soon_forgotten(self, _now: object) -> list[str]:
            return []

        async def maintain(self) -> None:
            agents.pop("last", None)

        async def fold(self) -> None:
            folded.append(self.id)

    folded: list[str] = []
    agents |= {name: Agent(name) for name in ("first", "last")}
    scheduler = Scheduler(agents, bench.clock, reset=lambda *_: None, sweep=bench.ledger.tally, jobs=bench.jobs)
    await scheduler.tick()
    assert folded == ["first", "last"]


async def test_memory_is_given_back_once_an_hour_behind_the_copy_of_the_ledger(bench: Bench) -> None:
    done: list[str] = []

    async def backup() -> None:
        done.append("copied")

    scheduler = Scheduler(
        {},
        bench.clock,
        reset=lambda *_: None,
        sweep=bench.ledger.tally,
        backup=backup,
        give_back=lambda: done.append("given back"),
        jobs=bench.jobs,
    )
    for minutes in (0, 59, 1):
        bench.clock.move(60 * minutes)
        await scheduler.tick()
    assert done == ["copied", "given back"] * 2
