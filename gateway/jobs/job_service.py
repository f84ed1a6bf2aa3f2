"""Jobs: adds, changes and lists them, and fires those that are due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import fields, replace

from agent.timing import Clock
from channels.messages import ChatAddress
from gateway.base.errors import InvalidTransition, ScheduleError, UsageError, for_chat
from gateway.base.wait import finish_despite_cancel
from gateway.jobs.job_checks import LONGEST_NAME, JobChecks, JobTargets, Obstacle, not_to_others
from gateway.jobs.job_messages import asked_by, missed_notice, paused_notice, prompt_step, reminder_step
from gateway.jobs.planning import Plan, after_set_back, following, plan
from gateway.ledger.job_rows import Job, JobLedger, JobRun, JobStep, NewJob, StepResult
from gateway.ledger.rows import InboxRow, NewOutbound
from gateway.ledger.values import stamp
from gateway.schedules.schedule import At, Schedule, first_instant

log = logging.getLogger(__name__)

MOST: Final = 10_000
"""The most jobs of an agent that are not done."""
MOST_OF_OTHERS: Final = 20
"""The most jobs that were asked for in one session of a guest or a group."""
_DUE: Final = 500
"""Due jobs that are read at once."""
_AT_ONCE: Final = 50
"""Jobs that are planned without a break, and stored with one commit."""
_STOPPED_SHOWN: Final = 20
_SET_BACK: Final = timedelta(seconds=1)
_CHANGEABLE: Final = frozenset(field.name for field in fields(NewJob)) - {
    "agent",
    "audience",
    "owner",
    "created_by",
    "asked_in",
}
_BUDGETS: Final = frozenset({"daily_usd", "daily_tokens"})


class JobService:
    """Jobs of all agents. ``hand_out`` takes a stored message to its agent, ``tell`` sends the owner a line.

    Methods that take a ``job`` raise UsageError for an id that is not known (any more), and so do values that cannot be used.
    ``changed`` is called when the next instant may have changed.
    """

    def __init__(
        self,
        ledger: JobLedger,
        clock: Clock,
        targets: JobTargets,
        *,
        hand_out: Callable[[InboxRow], Awaitable[None]],
        tell: Callable[[str], Awaitable[None]],
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self.targets = targets
        self.checks = JobChecks(targets)
        self._hand_out = hand_out
        self._tell = tell
        self.changed: Callable[[], None] = lambda: None
        self.here: Callable[[str], bool] = lambda _: True
        """Whether jobs of an agent are fired in this process now, where several share them."""
        self._next: datetime | None = None
        self._known = False
        self._version = 0
        self._firing = asyncio.Lock()
        self._looked_at: datetime | None = None
        self._zones: dict[str, str] = {}

    async def look_again(self) -> None:
        """Read anew when the next job is due, because agents came or went."""
        self._known = False
        self._zones.clear()
        await self._read_earliest()

    @property
    def next_due(self) -> datetime | None:
        """The next instant of all jobs, as of the last look."""
        return self._next

    async def add(self, new: NewJob) -> Job:
        """Store a job and return it with its id and first instant."""
        schedule, zone = self.checks.checked(new)
        await self.checks.refuse_readers(new)
        first = first_instant(schedule, self._clock.now())
        if first is None:
            raise UsageError("this schedule has no instant that is still to come", hint="homebody cron add --help")
        most = MOST if new.owner else MOST_OF_OTHERS
        there = await self._ledger.count(new.agent) if new.owner else len(await self._ledger.all(asked_in=new.asked_in))
        if there >= most:
            raise UsageError(
                f"there are {there} jobs already, which is the most", hint="homebody cron list, homebody cron remove ID"
            )
        job = await self._ledger.add(new, first, zone.key)
        await self._read_earliest()
        return job

    async def change(self, job: str, **values: Any) -> Job:
        """Change fields of ``NewJob`` by name; the next instant follows from the schedule.

        A job that was done is active again; a budget alone changes for a run by hand, too.
        """
        found = await self._get(job)
        if unknown := values.keys() - _CHANGEABLE:
            raise UsageError(f"a job's {', '.join(sorted(unknown))} cannot be changed", hint=f"homebody cron show {job}")
        changed = replace(found, **values)
        schedule, zone = self.checks.checked(changed)
        if values.keys() & {"deliver", "kind", "session"}:
            await self.checks.refuse_readers(changed)
        if changed.schedule != found.schedule or changed.zone != found.zone or found.state == "done":
            now = self._clock.now()
            next_at = first_instant(schedule, now)
            if isinstance(schedule, At) and found.last_at == schedule.instant:
                next_at = None
            if next_at is None and found.state == "done" and values.keys() <= _BUDGETS:
                return await self._store(changed)
            if next_at is None:
                raise UsageError("this schedule has no instant that is still to come", hint=f"homebody cron show {job}")
            state = "active" if found.state == "done" else found.state
            changed = replace(
                changed,
                state=state,
                reason="" if state == "active" else found.reason,
                next_at=next_at if state == "active" else None,
                reckoned_in=zone.key,
                last_at=None if found.last_at is not None and found.last_at > now else found.last_at,
                skipped=(),
            )
        return await self._store(changed)

    async def remove(self, job: str, *, by_person: bool = True) -> Job:
        """Delete a job and its log; return what it was. A run that has begun goes on. ``by_person``: also by an agent for them."""
        found = await self._get(job)
        await self._ledger.remove(found.id, by_person=by_person)
        await self._read_earliest()
        return found

    async def stopped(self) -> Sequence[dict[str, str]]:
        """Return the jobs that were paused for a reason, as JSON values, for a status."""
        found = await self._ledger.stopped(_STOPPED_SHOWN)
        return [{"id": job.id, "name": job.name, "agent": job.agent, "reason": job.reason} for job in found]

    async def removed_alarms(self, begins: str) -> Mapping[str, str]:
        """Return the texts of reminders of alarms that people removed, by their ``created_by``, which ``begins`` so."""
        return await self._ledger.removed_alarms(begins)

    async def pause(self, job: str, reason: str = "") -> Job:
        """Fire it no more until it is resumed."""
        found = await self._get(job)
        if found.state == "done":
            raise UsageError(f"“{found.name}” is done and will not run again", hint=f"homebody cron remove {job}")
        return await self._store(replace(found, state="paused", reason=reason, next_at=None))

    async def resume(self, job: str) -> Job:
        """Fire it again, from its next instant on; instants of the meantime are not made up."""
        found = await self._get(job)
        if found.state == "active":
            return found
        self.checks.refuse_obstacle(found)
        schedule, zone = self.checks.checked(found)
        next_at = following(found, schedule, self._clock.now())
        if next_at is None:
            raise UsageError(
                f"the time of “{found.name}” has passed",
                hint=f"Run it now: homebody cron run {job}; or remove it: homebody cron remove {job}",
            )
        return await self._store(replace(found, state="active", reason="", next_at=next_at, reckoned_in=zone.key))

    async def run_now(self, job: str, request: str = "", *, by_person: bool = False) -> JobRun:
        """Fire it now, whatever its state is; its schedule does not change. The same ``request``, if it has a name, fires it once.

        What a person asks for is sent at once, in quiet hours too.
        """
        found = await self._get(job)
        self.checks.refuse_obstacle(found)
        now = self._clock.now()
        readers = await self.checks.readers(found)
        if (blocked := not_to_others(found, readers)) is not None:
            raise UsageError(blocked.reason, hint=blocked.mend)
        found = replace(found, audience=readers, urgent=found.urgent or by_person)
        step = asked_by(self._step(found, now, now, await self.targets.latest_chat(found.agent)), request)
        result = await finish_despite_cancel(self._do([replace(step, by_hand=True)]))
        if result[0].outcome == "busy":
            raise UsageError(f"the last run of “{found.name}” has not ended yet", hint=f"homebody cron log {job}")
        return (await self._ledger.log(found.id, 1))[0]

    async def list(self, agent: str | None = None, session: str | None = None) -> Sequence[Job]:
        """Return jobs by their next instant, ended ones last; those of an agent, or those that were asked for in a session."""
        return await self._ledger.all(agent=agent, asked_in=session)

    async def find(self, id_or_name: str, agent: str | None = None) -> Job:
        """Return the job with an id, or the only one with a name. Raises UsageError, with what there is, for none or several."""
        wanted = " ".join(id_or_name.split())
        found = await self._ledger.get(wanted.lower())
        if found is not None and agent in {None, found.agent}:
            return found
        jobs = await self._ledger.all(agent=agent)
        named = [job for job in jobs if job.name.casefold() == wanted.casefold()]
        if len(named) == 1:
            return named[0]
        if named:
            raise UsageError(
                f"several jobs are called {wanted!r}", hint=f"Take one by its id: {', '.join(job.id for job in named[:9])}"
            )
        there = ", ".join(f"{job.id} ({job.name})" for job in jobs[:9]) or "none"
        raise UsageError(
            f"there is no job {wanted[:LONGEST_NAME]!r}", hint=f"There is: {there}. All of them: homebody cron list"
        )

    async def log(self, job: str, limit: int = 20) -> Sequence[JobRun]:
        """Return the newest runs, newest first."""
        return await self._ledger.log((await self._get(job)).id, limit)

    async def fire_due(self) -> int:
        """Fire what is due now; return how many jobs were looked at.

        Raises:
            StorageFailed: the ledger could not be written; what is still due stays so.
        """
        async with self._firing:
            now, count = self._clock.now(), 0
            await self._follow_clock(now)
            await self._follow_zones(now)
            seen: set[tuple[str, datetime | None]] = set()
            while not self._known or (self._next is not None and self._next <= now):
                version, self._known = self._version, False
                due, later = await self._ledger.due(now, limit=_DUE)
                jobs = [job for job in due if self.here(job.agent) and (job.id, job.next_at) not in seen]
                following = await finish_despite_cancel(self._fire(jobs, now)) if jobs else []
                if version == self._version:
                    self._next = min([*following, *([later] if later is not None else [])], default=None)
                    self._known = len(due) < _DUE or not jobs
                if not jobs:
                    break
                seen |= {(job.id, job.next_at) for job in jobs}
                count += len(jobs)
            return count

    async def _follow_clock(self, now: datetime) -> None:
        """After the clock was set back, instants that were left out while it was ahead are due again."""
        if self._looked_at is not None and now >= self._looked_at - _SET_BACK:
            self._looked_at = now
            return
        for found in await self._ledger.skipped_ahead(now):
            job, schedule = after_set_back(found, now), self._readable(found)
            if schedule is not None and (next_at := following(job, schedule, now)) is not None:
                await self._ledger.reckon(replace(job, next_at=next_at, reckoned_in=self.checks.zone_of(job).key))
        self._looked_at, self._known = now, False

    async def _follow_zones(self, now: datetime) -> None:
        """Compute next instants anew where the owner's zone has changed."""
        for agent in self.targets.agents():
            zone = self.targets.zone(agent).key
            if self._zones.get(agent) == zone:
                continue
            for job in await self._ledger.of_former_zone(agent, zone):
                schedule = self._readable(job)
                due = job.next_at is not None and job.next_at <= now
                if schedule is not None and not due and (next_at := following(job, schedule, now)) is not None:
                    await self._ledger.reckon(replace(job, next_at=next_at, reckoned_in=zone))
            self._zones[agent], self._known = zone, False

    async def _fire(self, jobs: Sequence[Job], now: datetime) -> Sequence[datetime]:
        """Fire due jobs in the order of their instants; return when they are due next."""
        latest = {agent: await self.targets.latest_chat(agent) for agent in dict.fromkeys(job.agent for job in jobs)}
        steps: list[JobStep] = []
        missed: list[tuple[Job, datetime]] = []
        for number, job in enumerate(jobs):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            schedule = self._readable(job)
            obstacle = Obstacle("its schedule cannot be read", f"Give it another one: `homebody cron change {job.id}`.")
            if schedule is None or (found := self.targets.obstacle(job)) is not None:
                await self._pause(job, obstacle if schedule is None else found)
                continue
            readers = await self.checks.readers(job)
            if (found := not_to_others(job, readers)) is not None:
                await self._pause(job, found)
                continue
            job = replace(job, audience=readers)  # noqa: PLW2901 -- what it may know follows from who reads it
            planned = plan(job, schedule, now)
            steps.append(self._planned(job, planned, now, latest[job.agent]))
            missed += [] if planned.missed is None else [(job, planned.missed)]
        if missed:
            await self._miss([step for step in steps if step.fire is None], missed, now)
        coming = [step.next_at for step in steps if step.next_at is not None]
        steps = sorted(
            (step for step in steps if step.fire is not None or not missed), key=lambda step: (step.fire is None, step.fire)
        )
        names = {job.id: job for job in jobs}
        for start in range(0, len(steps), _AT_ONCE):
            part = steps[start : start + _AT_ONCE]
            for step, result in zip(part, await self._do(part), strict=True):
                if result.outcome == "refused":
                    mend = "Let me write there again, or give the job another chat (`homebody cron change`)."
                    await self._tell(paused_notice(names[step.job], f"its messages were refused: {result.reason}", mend))
        return coming

    async def _miss(self, steps: Sequence[JobStep], missed: Sequence[tuple[Job, datetime]], now: datetime) -> None:
        """Store that jobs were missed, together with the notice, so that a crash neither loses nor doubles it."""
        text = for_chat(missed_notice(missed, [self.targets.zone(job.agent) for job, _ in missed], now))
        if (latest := await self.targets.latest_chat()) is None:
            await self._tell(text)
            await self._do(steps)
        else:
            await self._ledger.miss(
                steps, NewOutbound(conversation=latest, text=text, key=f"missed:{missed[0][0].id}:{stamp(now):x}")
            )

    def _planned(self, job: Job, planned: Plan, now: datetime, latest: ChatAddress | None) -> JobStep:
        fire = planned.fire
        step = JobStep(job=job.id) if fire is None else self._step(job, fire, now, latest)
        return replace(
            step,
            due=job.next_at,
            left_out=planned.left_out,
            next_at=planned.next_at,
            skipped=planned.skipped,
            end_reason=planned.end_reason,
        )

    def _step(self, job: Job, fire: datetime, now: datetime, latest: ChatAddress | None) -> JobStep:
        place = latest if job.deliver is None else job.deliver if isinstance(job.deliver, ChatAddress) else None
        if job.kind == "prompt":
            return prompt_step(job, fire, now, place, self.targets.main_session(job.agent))
        assert place is not None
        name, unasked = self.targets.name_at(job.agent, place), self.targets.unasked(job)
        return reminder_step(job, fire, now, place, zone=self.checks.zone_of(job), unasked=unasked, name=name)

    async def _do(self, steps: Sequence[JobStep]) -> Sequence[StepResult]:
        """Store steps in their order, with one commit, and hand out the messages of those that fired."""
        results = await asyncio.gather(*(self._ledger.step(step) for step in steps), return_exceptions=True)
        failed = None
        for result in results:
            if isinstance(result, BaseException):
                failed = failed or result
            elif result.row is not None:
                await self._hand_out(result.row)
        if failed is not None:
            raise failed
        return [result for result in results if isinstance(result, StepResult)]

    async def _pause(self, job: Job, obstacle: Obstacle | None) -> None:
        assert obstacle is not None
        await self._tell(paused_notice(job, obstacle.reason, obstacle.mend))
        await self._ledger.pause(job.id, obstacle.reason)

    def _readable(self, job: Job) -> Schedule | None:
        try:
            return self.checks.schedule_of(job)
        except (ValueError, ScheduleError) as error:
            log.warning("the schedule of job %s cannot be read: %s", job.id, error)
            return None

    async def _get(self, job: str) -> Job:
        found = await self._ledger.get(job)
        if found is None:
            raise UsageError(
                f"there is no job {job[:LONGEST_NAME]!r} any more", hint="The jobs that there are: homebody cron list"
            )
        return found

    async def _store(self, job: Job) -> Job:
        try:
            stored = await self._ledger.change(job)
        except InvalidTransition as error:
            raise UsageError(
                f"there is no job {job.id!r} any more", hint="The jobs that there are: homebody cron list"
            ) from error
        await self._read_earliest()
        return stored

    async def _read_earliest(self) -> None:
        self._version += 1
        self._next = await self._ledger.earliest()
        self.changed()
