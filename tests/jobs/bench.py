"""Jobs on a real ledger and the real service, with a clock that tests turn, and agents that answer at once."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from channels.messages import ChatAddress
from gateway.base.clock import ManualClock
from gateway.base.errors import StorageFailed
from gateway.jobs.job_checks import Obstacle
from gateway.jobs.job_service import JobService
from gateway.ledger.job_rows import Job, JobStep, NewJob, StepResult
from gateway.ledger.rows import Unasked
from gateway.ledger.sqlite import SqliteLedger
from gateway.schedules.parsing import parse_schedule
from gateway.schedules.schedule import to_text
from gateway.settings.quiet_hours import DailyHours, UnaskedRule
from memory.audience import OWNER, Audience

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from gateway.ledger.jobs import JobsPart
    from gateway.ledger.rows import InboxRow, NewOutbound

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 23, 11, tzinfo=UTC)  # in Berlin
HOME = ChatAddress(channel="telegram", kind="direct", id="42")
ACCOUNT = "telegram:default"


@dataclass
class Targets:
    """Two agents and one chat, some of which may be gone."""

    zones: dict[str, str] = field(default_factory=lambda: {"main": "Europe/Berlin", "work": "UTC"})
    gone: set[str] = field(default_factory=set)
    quiet: DailyHours | None = None

    def zone(self, agent: str) -> ZoneInfo:
        return ZoneInfo(self.zones.get(agent, "UTC"))

    def agents(self) -> list[str]:
        return list(self.zones)

    def main_session(self, agent: str) -> str:
        return f"agent:{agent}:main"

    def obstacle(self, job: NewJob) -> Obstacle | None:
        for what in (job.agent, job.model):
            if what in self.gone:
                return Obstacle(f"there is no {what!r} any more", f"Add {what}.")
        return None

    def unasked(self, job: Job) -> Unasked | None:
        rule = UnaskedRule(zone=self.zone(job.agent), quiet=self.quiet)
        return None if job.urgent else Unasked(agent=job.agent, source=f"job:{job.id}", name=job.name, rule=rule)

    def name_at(self, agent: str, place: ChatAddress) -> str:
        return ""

    async def latest_chat(self, agent: str | None = None) -> ChatAddress:
        return HOME

    async def audience(self, agent: str, place: ChatAddress) -> Audience:
        del agent
        return Audience(place.kind, place.id) if place.kind == "group" else OWNER

    async def is_stranger(self, place: ChatAddress) -> bool:
        return place.id == "stranger"


class Recording:
    """The jobs of a ledger, whose steps are written down: when, what and how it ended."""

    def __init__(self, jobs: JobsPart, bench: Bench) -> None:
        self._jobs = jobs
        self._bench = bench
        self._clock = bench.clock
        self._steps = bench.steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    async def miss(self, steps: list[JobStep], notice: NewOutbound) -> list[StepResult]:
        self._bench.look()
        results = await self._jobs.miss(steps, notice)
        self._steps += [(self._clock.now(), step, result) for step, result in zip(steps, results, strict=True)]
        self._bench.told.append(notice.text)
        return results

    async def step(self, step: JobStep) -> StepResult:
        self._bench.look()
        result = await self._jobs.step(step)
        self._steps.append((self._clock.now(), step, result))
        return result


class Bench:
    """One process after another on the same ledger. ``fired`` are the runs, in the order in which agents and chats got them."""

    def __init__(self, path: Path, now: datetime = NOON) -> None:
        self.path = path
        self.clock = ManualClock(now)
        self.targets = Targets()
        self.told: list[str] = []
        self.refuses = False
        self.handed: list[InboxRow] = []
        self.answers = True
        self.steps: list[tuple[datetime, JobStep, StepResult]] = []
        self.ledger: SqliteLedger
        self.jobs: JobService

    @contextlib.asynccontextmanager
    async def process(self) -> AsyncIterator[JobService]:
        await self.open()
        try:
            yield self.jobs
        finally:
            await self.ledger.close()

    async def open(self) -> None:
        self.ledger = await SqliteLedger.open(self.path, self.clock)
        recording: Any = Recording(self.ledger.jobs, self)
        self.jobs = JobService(recording, self.clock, self.targets, hand_out=self._hand_out, tell=self._tell)
        await self.jobs.fire_due()

    async def add(self, schedule: str, **more: Any) -> Job:
        agent = more.pop("agent", "main")
        zone = ZoneInfo(more["zone"]) if more.get("zone") else self.targets.zone(agent)
        read = parse_schedule(schedule, zone=zone, now=self.clock.now())
        plain = NewJob(agent=agent, name="water", schedule=to_text(read), kind="message", text="Water the plants.")
        return await self.jobs.add(replace(plain, **more))

    async def until(self, when: str | datetime | timedelta) -> None:
        """Let time pass as a scheduler would: it wakes at each instant that is due."""
        if isinstance(when, timedelta):
            when = self.clock.now() + when
        elif isinstance(when, str):
            when = datetime.fromisoformat(when).replace(tzinfo=BERLIN).astimezone(UTC)
        while (due := self.jobs.next_due) is not None and due <= when:
            self.clock.set(max(due, self.clock.now()))
            await self.jobs.fire_due()
        self.clock.set(when)
        await self.jobs.fire_due()

    async def sent(self) -> list[str]:
        """Send what is queued; return the texts that were sent since the last time."""
        texts = []
        while chunks := await self.ledger.outbox.due([ACCOUNT]):
            for chunk in chunks:
                await self.ledger.outbox.sending(chunk.id)
                await self.ledger.outbox.sent(chunk.id, f"p{chunk.id}")
                texts += [chunk.text] if chunk.text not in self.told else []
        return texts

    def look(self) -> None:
        """Raise StorageFailed while the disk ``refuses``."""
        if self.refuses:
            raise StorageFailed("the disk refuses")

    async def runs(self, job: Job) -> list[tuple[str, str, str]]:
        """Return instant, state and reason of the runs, oldest first, in Berlin."""
        log = await self.jobs.log(job.id, 1000)
        return [(f"{run.instant.astimezone(BERLIN):%a %H:%M}", run.state, run.reason) for run in reversed(log)]

    async def _hand_out(self, row: InboxRow) -> None:
        self.handed.append(row)
        if self.answers:
            await self.ledger.inbox.settle([row.id], "answered")

    async def _tell(self, text: str) -> None:
        self.told.append(text)
