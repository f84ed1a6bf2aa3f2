"""Jobs on a calendar: the instants of a span of days, what came of earlier ones, what each cost, and what a typed schedule means."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from agent.timing import Clock
from gateway.base.errors import ScheduleError, UsageError
from gateway.budget.usage_report import first_day
from gateway.jobs.job_service import JobService
from gateway.jobs.job_words import facts, run_facts
from gateway.ledger.job_rows import Job
from gateway.ledger.spending_rows import SpendingLedger
from gateway.schedules.parsing import parse_schedule, zone_named
from gateway.schedules.schedule import At, Schedule, next_after
from gateway.schedules.schedule_words import in_words, next_three
from gateway.settings.root import Settings

LONGEST: Final = timedelta(days=62)
MOST_OF_JOB: Final = 100
"""The most instants of one job: for one that is due more often, only how often is told."""
MOST_JOBS: Final = 500
MOST_RUNS: Final = 50
COST_DAYS: Final = 30
_AT_ONCE: Final = 50
"""Jobs whose instants are computed without a break."""


class JobCalendarHandlers:
    """Answers for the owner's calendar. All answers are JSON values; instants have the offset of the owner's time zone."""

    def __init__(
        self, service: JobService, spending: SpendingLedger, clock: Clock, *, settings: Callable[[], Settings]
    ) -> None:
        self._service = service
        self._spending = spending
        self._clock = clock
        self._settings = settings

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {"jobs.calendar": self.calendar, "jobs.preview": self.preview}

    async def calendar(self, start: str, days: int, agent: str | None = None) -> dict[str, Any]:
        """Return the jobs, and their runs and coming instants in ``days`` days from ``start`` (YYYY-MM-DD, the owner's calendar).

        Raises:
            UsageError: there is no such agent, or the span cannot be used.
        """
        known = self._settings()
        zone = self._service.targets.zone(known.agent(agent).id if agent else known.default_agent)
        first, until = _span(start, days, zone)
        now = self._clock.now()
        all_jobs = await self._service.list(agent)
        jobs = all_jobs[:MOST_JOBS]
        due: list[dict[str, Any]] = []
        dense: dict[str, int] = {}
        for number, job in enumerate(jobs):
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
            found, more = await asyncio.to_thread(self._instants, job, max(first, now), until)
            due += [{"job": job.id, "at": one.astimezone(zone).isoformat(timespec="minutes")} for one in found]
            if more:
                dense[job.id] = len(found)
        runs = [one for job in jobs if first < now for one in await self._runs(job, first, until, zone)]
        return {
            "zone": zone.key,
            "today": f"{now.astimezone(zone).date()}",
            "start": f"{first.astimezone(zone).date()}",
            "days": days,
            "more": len(all_jobs) - len(jobs),
            "jobs": [facts(job, self._service.targets.zone(job.agent), now) for job in jobs],
            "due": sorted(due, key=lambda one: str(one["at"])),
            "oftener": sorted(dense),
            "runs": runs,
            "costs": await self._costs(zone, now),
            "costDays": COST_DAYS,
        }

    async def preview(self, when: str, zone: str | None = None, agent: str | None = None) -> dict[str, Any]:
        """Return what a typed schedule means, in words and with its next instants, or the ``problem`` of one that cannot be used (yet)."""
        known = self._settings()
        owners = self._service.targets.zone(known.agent(agent).id if agent else known.default_agent)
        now = self._clock.now()
        try:
            schedule = parse_schedule(when, zone=zone_named(zone) if zone else owners, now=now)
        except ScheduleError as error:
            return {"problem": error.message, "hint": error.hint}
        coming = [schedule.instant.astimezone(owners)] if isinstance(schedule, At) else next_three(schedule, owners, now)
        return {
            "words": in_words(schedule, owners, now),
            "next": [one.isoformat(timespec="seconds") for one in coming],
            "zone": owners.key,
            "once": isinstance(schedule, At),
        }

    def _instants(self, job: Job, start: datetime, until: datetime) -> tuple[Sequence[datetime], bool]:
        """Return the instants of a job from ``start`` to before ``until``, and whether there are more than are told."""
        if job.state != "active":
            return [], False
        found: list[datetime] = []
        schedule, at = self._schedule(job), job.next_at
        while at is not None and at < until:
            if at >= start:
                if len(found) == MOST_OF_JOB:
                    return found, True
                found.append(at)
            elif schedule is not None:
                at = start - timedelta(microseconds=1)
            at = next_after(schedule, at) if schedule is not None else None
        return found, False

    def _schedule(self, job: Job) -> Schedule | None:
        try:
            return self._service.checks.schedule_of(job)
        except (ValueError, UsageError):
            return None

    async def _runs(self, job: Job, start: datetime, until: datetime, zone: ZoneInfo) -> list[dict[str, Any]]:
        runs = await self._service.log(job.id, MOST_RUNS)
        return [{"job": job.id, **run_facts(one, zone)} for one in runs if start <= one.instant < until]

    async def _costs(self, zone: ZoneInfo, now: datetime) -> dict[str, dict[str, Any]]:
        """Return what the jobs' turns cost in the last days, by the job's id."""
        costs: dict[str, dict[str, Any]] = {}
        for row in await self._spending.usage(first_day(now, zone, COST_DAYS), "source"):
            kind, _, job = row.name.partition(":")
            if kind == "job" and job:
                one = costs.setdefault(job, {"calls": 0, "usd": 0.0, "tokens": 0, "unpriced": 0})
                one["calls"] += row.calls
                one["usd"] += row.cost
                one["tokens"] += row.input + row.output + row.cache_read + row.cache_write
                one["unpriced"] += row.unpriced
        return costs


def _span(start: str, days: object, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return the instants between which the days lie, which may have 23 or 25 hours."""
    wrong = UsageError(
        f"{start!r} with {days!r} days is no span of a calendar", hint=f"Write it as 2026-01-31, with 1 to {LONGEST.days} days."
    )
    if not isinstance(days, int) or not 0 < days <= LONGEST.days:
        raise wrong
    try:
        day = date.fromisoformat(start)
        first, until = (datetime.combine(one, time(), zone) for one in (day, day + timedelta(days=days)))
        return first.astimezone(UTC), until.astimezone(UTC)
    except (ValueError, OverflowError, TypeError):
        raise wrong from None
