"""Whatever happens to jobs, processes, clocks and zones: each instant of a job fires at most once, and none is forgotten."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.schedules.schedule import next_after
from tests.jobs.bench import Bench
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.ledger.job_rows import Job

SECOND = timedelta(seconds=1)
STARTS = [
    datetime(2027, 3, 27, 22, 30, tzinfo=UTC),
    datetime(2027, 10, 30, 22, 30, tzinfo=UTC),
    datetime(2027, 6, 1, 12, tzinfo=UTC),
]
SCHEDULES = [
    *("in 90 minutes", "in 2 days", "every 7 minutes", "every 5 hours", "every 25 hours"),
    *("30 2 * * *", "*/20 2 * * *", "0 * * * *", "0 9 * * 1-5", "15,45 1-3 * * *", "0 0 * * *"),
]
ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Africa/Cairo", "UTC"]


@dataclass(frozen=True)
class Event:
    """Something that happens. ``seconds`` is how long it takes, or by how much the clock is set."""

    kind: str
    seconds: int = 0
    pick: int = 0


SPANS = st.sampled_from([1, 59, 60, 61, 1800, 3600, 7199, 7201, 20_000, 86_400, 90_000, 400_000])
CALM = st.one_of(
    st.builds(Event, st.just("add"), SPANS, st.integers(0, len(SCHEDULES) * 2 - 1)),
    st.builds(Event, st.sampled_from(["wait", "sleep", "off"]), SPANS),
)
WILD = CALM | st.one_of(
    st.builds(Event, st.just("zone"), SPANS, st.integers(0, len(ZONES) - 1)),
    st.builds(Event, st.sampled_from(["back", "ahead"]), SPANS | st.sampled_from([10**8])),
    st.builds(Event, st.sampled_from(["pause", "resume", "remove"]), SPANS, st.integers(0, 9)),
)


class History:
    """Lives through events."""

    def __init__(self, folder: str, start: datetime) -> None:
        self.bench = Bench(Path(folder) / "ledger.sqlite", start)
        self.added: list[tuple[datetime, Job]] = []
        self.moved = False
        self.began: list[int] = []

    async def live(self, events: Sequence[Event]) -> None:
        await self.bench.open()
        for event in events:
            self.began.append(len(self.bench.steps))
            await self._happen(event)
            await self.bench.sent()
        await self.bench.jobs.fire_due()
        await self.bench.sent()

    async def _happen(self, event: Event) -> None:
        bench, span = self.bench, timedelta(seconds=event.seconds)
        if event.kind == "add":
            kind = "prompt" if event.pick % 2 else "message"
            limit = None if event.seconds % 2 else event.seconds // 2
            job = await bench.add(SCHEDULES[event.pick // 2], kind=kind, catch_up_seconds=limit)
            self.added.append((bench.clock.now(), job))
        elif event.kind == "wait":
            await self._wait(bench.clock.now() + span)
        elif event.kind in {"sleep", "ahead", "back"}:
            bench.clock.set(bench.clock.now() + (-span if event.kind == "back" else span))
            await bench.jobs.fire_due()
        elif event.kind == "off":
            await bench.ledger.close()
            bench.clock.set(bench.clock.now() + span)
            await bench.open()
        elif event.kind == "zone":
            self.moved = True
            bench.targets.zones["main"] = ZONES[event.pick]
            await bench.jobs.fire_due()
        elif self.added:
            await self._by_hand(event.kind, self.added[event.pick % len(self.added)][1])

    async def _by_hand(self, kind: str, job: Job) -> None:
        found = await self.bench.ledger.jobs.get(job.id)
        may = found is not None and (
            found.state == "active" or (found.state == "paused" and not found.schedule.startswith("at "))
        )
        if may:
            await getattr(self.bench.jobs, kind)(job.id)

    async def _wait(self, end: datetime) -> None:
        while (due := self.bench.jobs.next_due) is not None and due <= end:
            self.bench.clock.set(max(due, self.bench.clock.now()))
            await self.bench.jobs.fire_due()
            await self.bench.sent()
        self.bench.clock.set(end)

    def fired(self) -> list[tuple[str, datetime]]:
        return [
            (step.job, step.fire) for _, step, result in self.bench.steps if result.outcome == "fired" and step.fire is not None
        ]

    def check_each_once(self) -> None:
        doubled = [one for one, count in Counter(self.fired()).items() if count > 1]
        assert not doubled
        jobs = {job.id: job for _, job in self.added}
        for now, step, result in self.bench.steps:
            catch_up = jobs[step.job].catch_up
            if result.outcome == "fired" and step.fire is not None:
                assert timedelta() <= now - step.fire <= catch_up
            if step.left_out is not None and step.left_out.state == "missed":
                assert now - step.left_out.until > catch_up
                assert any(step.job in told or "more jobs" in told for told in self.bench.told)

    def check_order(self) -> None:
        """What fires at one moment is in the order of instants."""
        for begin, end in pairwise([*self.began, len(self.bench.steps)]):  # a clock that was set shows a moment twice
            steps = self.bench.steps[begin:end]
            for now in {now for now, _, _ in steps}:
                ticks = [step.fire for at, step, result in steps if at == now and result.outcome == "fired"]
                assert ticks == sorted(ticks)  # type: ignore[type-var]  # those that fired have one

    def check_none_forgotten(self) -> None:
        """Each instant since a job was added has fired, or a step left it out. For histories in which the clock runs on."""
        for added, job in self.added:
            schedule, steps = (
                self.bench.jobs.checks.schedule_of(job),
                [step for _, step, _ in self.bench.steps if step.job == job.id],
            )
            covered = [(step.left_out.first, step.left_out.until) for step in steps if step.left_out is not None]
            covered += [(step.fire, step.fire) for step in steps if step.fire is not None]
            instant: datetime | None = added
            while instant is not None and (instant := next_after(schedule, instant)) is not None:
                if instant > self.bench.clock.now():
                    break
                assert any(first <= instant <= until for first, until in covered), f"{job.schedule}: {instant}"

    async def check_all_go_on(self) -> None:
        """Every active job has a next instant, which follows from its schedule in the zone at hand, and fires then."""
        for job in await self.bench.jobs.list():
            if job.state != "active":
                continue
            assert job.next_at is not None
            assert job.next_at > self.bench.clock.now()
            assert next_after(self.bench.jobs.checks.schedule_of(job), job.next_at - timedelta(microseconds=1)) == job.next_at
            if not (job.last_at or job.skipped or job.created_at > self.bench.clock.now()):
                assert next_after(self.bench.jobs.checks.schedule_of(job), self.bench.clock.now()) == job.next_at
            self._check_none_stands(job, job.next_at)
        before = len(self.fired())
        if (due := self.bench.jobs.next_due) is not None:
            await self._wait(due + SECOND)
            assert len(self.fired()) > before

    def _check_none_stands(self, job: Job, next_at: datetime) -> None:
        """Every instant of a job between now and its next one has fired: no job stands still because a clock was ahead."""
        if self.moved or job.schedule.startswith("at "):
            return
        schedule, fired, at = self.bench.jobs.checks.schedule_of(job), set(self.fired()), self.bench.clock.now() + 5 * SECOND
        for _ in range(1000):
            at = next_after(schedule, at) or next_at
            if at >= next_at:
                return
            assert (job.id, at) in fired, f"{job.schedule}: {at} is left out, the next one is {next_at}"
        raise AssertionError(f"{job.schedule} stands until {next_at}")


def lived(start: datetime, events: Sequence[Event], *, calm: bool) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            history = History(folder, start)
            await history.live(events)
            history.check_each_once()
            history.check_order()
            if calm:
                history.check_none_forgotten()
            await history.check_all_go_on()
            history.check_each_once()
            await history.bench.ledger.close()

    asyncio.run(run())


def listed(event: Any) -> Any:
    return st.lists(event, min_size=1, max_size=14).map(lambda events: [Event("add", 3600, 7), *events])


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(STARTS), listed(CALM))
def test_sleep_and_restarts_forget_no_instant_and_fire_none_twice(start: datetime, events: list[Event]) -> None:
    lived(start, events, calm=True)


@settings(max_examples=examples(90), deadline=None)
@given(st.sampled_from(STARTS), listed(WILD))
def test_clocks_that_are_set_zones_and_people_make_nothing_fire_twice(start: datetime, events: list[Event]) -> None:
    lived(start, events, calm=False)
