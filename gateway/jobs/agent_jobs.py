"""The jobs of one agent as its tool ``cron`` sees them: what a conversation may add, see and change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from agent.errors import JobRefused
from agent.taint import merged
from agent.tools.cron_tool import CronArguments
from agent.tools.protocol import Outcome, ToolContext
from channels.messages import CLIENT_CHANNELS, ChatAddress
from gateway.base.errors import UsageError
from gateway.jobs.job_service import JobService
from gateway.jobs.job_words import job_lines, kind_of, line, name_for, named, run_lines, target, whole
from gateway.ledger.job_rows import Job, JobKind, JobSession, NewJob
from gateway.schedules.schedule import At, to_text

_KINDS: Final[dict[str, JobKind]] = {"reminder": "message", "task": "prompt"}
_SHOWN: Final = 50
_LOG: Final = 10
_JUST_NOW: Final = timedelta(minutes=1)
"""A job that was started by hand so lately is not started again: the call may be one that a crash interrupted."""
_NOWHERE: Final = CLIENT_CHANNELS | {"internal"}
"""Channels in which nobody may be when a job is due: those of clients, and conversations that are never shown."""
_PATIENCE: Final = 30.0
"""Seconds that a preview waits for the ledger."""


class AgentJobs:
    """See ``agent.tools.cron_tool.Jobs``. The owner sees all jobs of the agent, everybody else those of their own audience.

    ``place`` returns the conversation that a session was last spoken in. Made in the event loop that the ledger belongs to.
    """

    def __init__(self, agent: str, service: JobService, *, place: Callable[[str], ChatAddress | None]) -> None:
        self._agent = agent
        self._service = service
        self._place = place
        self._loop = asyncio.get_running_loop()

    @property
    def _zone(self) -> ZoneInfo:
        return self._service.targets.zone(self._agent)

    async def perform(self, wish: CronArguments, context: ToolContext) -> Outcome:
        """See ``agent.tools.cron_tool.Jobs``."""
        try:
            return await self._performed(wish, context)
        except UsageError as error:
            raise JobRefused(str(error), hint=error.hint) from error

    def preview(self, wish: CronArguments, context: ToolContext) -> tuple[str, str]:
        """See ``agent.tools.cron_tool.Jobs``."""
        try:
            if wish.action == "add":
                new = self._new(wish, context)
                return f"set up the {kind_of(new)} “{new.name}”", whole(new, self._zone, context.now)
            found = self._found_from_thread(wish, context)
            name = f"the {kind_of(found)} “{found.name}” ({found.id})"
            if wish.action != "change":
                return f"{wish.action} {name}", whole(found, self._zone, context.now)
            changes = self._changes(found, wish, context)
            return f"change {name}", "\n".join(self._compared(found, changes, context))
        except UsageError as error:
            raise JobRefused(str(error), hint=error.hint) from error

    async def _performed(self, wish: CronArguments, context: ToolContext) -> Outcome:
        if wish.action == "add":
            return self._job_outcome(await self._added(wish, context), context)
        if wish.action == "list":
            return self._listed(await self._visible(context), context)
        found = await self._job_named(wish, context)
        try:
            if wish.action == "run":
                return await self._ran(found, context)
            if wish.action == "log":
                return await self._log_of(found, context)
            return await self._altered(found, wish, context)
        except UsageError as error:
            raise JobRefused(str(error), hint=error.hint, sources=found.sources) from error

    async def _altered(self, job: Job, wish: CronArguments, context: ToolContext) -> Outcome:
        match wish.action:
            case "remove":
                await self._service.remove(job.id)
                return Outcome(text=f"{named(job)} is removed.", details={"job": job.id}, sources=job.sources)
            case "pause":
                job = await self._service.pause(job.id)
            case "resume":
                job = await self._service.resume(job.id)
            case _:
                job = await self._service.change(job.id, **self._changes(job, wish, context))
        return self._job_outcome(job, context)

    async def _added(self, wish: CronArguments, context: ToolContext) -> Job:
        new = self._new(wish, context)
        former = [job for job in await self._service.list(self._agent, context.key) if job.created_by == new.created_by]
        return former[0] if former else await self._service.add(new)

    def _new(self, wish: CronArguments, context: ToolContext) -> NewJob:
        from gateway.schedules.parsing import parse_schedule

        text, kind = (wish.text or "").strip(), _KINDS[wish.kind or "reminder"]
        schedule = parse_schedule(wish.when or "", zone=self._zone, now=context.now)
        owner = context.audience.kind == "owner"
        return NewJob(
            agent=self._agent,
            name=" ".join((wish.name or "").split()) or name_for(text),
            schedule=to_text(schedule),
            kind=kind,
            text=text,
            session=self._session(wish, context) or "isolated",
            audience=context.audience,
            owner=owner,
            deliver=self._deliver(wish.to, kind, context),
            urgent=kind == "message" and isinstance(schedule, At),
            created_by=f"{context.turn}/{context.call}",
            asked_in=context.key,
            sources=self._sources(context),
        )

    def _changes(self, job: Job, wish: CronArguments, context: ToolContext) -> dict[str, Any]:
        """Return the fields that a call changes."""
        from gateway.schedules.parsing import parse_schedule

        changes: dict[str, Any] = {}
        kind = _KINDS[wish.kind] if wish.kind else job.kind
        if wish.when:
            schedule = parse_schedule(wish.when, zone=self._zone, now=context.now)
            changes |= {"schedule": to_text(schedule), "zone": "", "urgent": kind == "message" and isinstance(schedule, At)}
        if wish.text and wish.text.strip():
            changes |= {"text": wish.text.strip(), "sources": self._sources(context)}
        if wish.kind:
            changes["kind"] = kind
        if wish.name and wish.name.strip():
            changes["name"] = " ".join(wish.name.split())
            changes["sources"] = merged(changes.get("sources", job.sources), self._sources(context))
        if wish.to or (wish.kind and kind == "message" and job.deliver == "none"):
            changes["deliver"] = self._deliver(wish.to, kind, context)
        if session := self._session(wish, context):
            changes["session"] = session
        return changes

    def _compared(self, job: Job, changes: dict[str, Any], context: ToolContext) -> Sequence[str]:
        """Return what a change would alter, line by line, and the job as it would be."""
        wanted = NewJob(**{name: getattr(job, name) for name in NewJob.__struct_fields__} | changes)
        before, after = whole(job, self._zone, context.now), whole(wanted, self._zone, context.now)
        renamed = [f"New name: {wanted.name}"] if wanted.name != job.name else []
        return [*renamed, *after.split("\n"), "", "Before:", *before.split("\n")]

    def _session(self, wish: CronArguments, context: ToolContext) -> JobSession | None:
        if wish.session == "main" and context.audience.kind != "owner":
            raise UsageError(
                "the main conversation is the owner's", hint="Leave session out: the task gets a conversation of its own."
            )
        return wish.session

    def _deliver(self, to: str | None, kind: JobKind, context: ToolContext) -> ChatAddress | Literal["none"] | None:
        if to == "none" and kind == "message":
            raise UsageError("a reminder has to be sent somewhere", hint="Leave `to` out, or use kind task.")
        if to == "none":
            return "none"
        owner = context.audience.kind == "owner"
        if to == "owner" and not owner:
            raise UsageError("the owner's chat is not open to this conversation", hint="Leave `to` out: it is sent here.")
        if owner and to != "here":
            return None
        here = self._place(context.key)
        if here is not None and here.channel not in _NOWHERE:
            return here
        if owner:
            return None
        raise UsageError("it is not known where this conversation takes place", hint="Ask in a chat.")

    @staticmethod
    def _sources(context: ToolContext) -> tuple[str, ...]:
        """Name the untrusted sources behind a text. What the owner was shown and approved for himself is his own."""
        approved = context.approved and context.audience.kind == "owner"
        return () if approved else merged(context.taint)

    async def _visible(self, context: ToolContext) -> list[Job]:
        jobs = await self._service.list(self._agent)
        return [job for job in jobs if context.audience.kind == "owner" or job.audience == context.audience]

    async def _job_named(self, wish: CronArguments, context: ToolContext) -> Job:
        wanted = (wish.job or "").strip().strip("“”\"'`").casefold()
        jobs = await self._visible(context)
        found = [job for job in jobs if job.id == wanted] or [job for job in jobs if job.name.casefold() == wanted]
        if len(found) == 1:
            return found[0]
        shown = (found or jobs)[:10]
        there = ", ".join(f"{job.id} “{job.name}”" for job in shown)
        sources = merged(*(job.sources for job in shown))
        if found:
            raise JobRefused(f"{len(found)} jobs have the name {wish.job!r}", hint=f"Use an id: {there}", sources=sources)
        hint = f"There is: {there}" if there else "There are no jobs yet."
        raise JobRefused(f"there is no job {wish.job!r} here", hint=hint, sources=sources)

    def _found_from_thread(self, wish: CronArguments, context: ToolContext) -> Job:
        return asyncio.run_coroutine_threadsafe(self._job_named(wish, context), self._loop).result(_PATIENCE)

    async def _ran(self, job: Job, context: ToolContext) -> Outcome:
        runs = await self._service.log(job.id, 1)
        if runs and runs[0].by_hand and timedelta() <= context.now - runs[0].at < _JUST_NOW:
            raise UsageError(f"{job.id} was started less than a minute ago", hint="Its result comes by itself.")
        await self._service.run_now(job.id, f"{context.turn}/{context.call}")
        text = f"{named(job)} is started now. {target(job)}"
        return Outcome(text=text, details={"job": job.id}, sources=job.sources)

    async def _log_of(self, job: Job, context: ToolContext) -> Outcome:
        runs = run_lines(await self._service.log(job.id, _LOG), self._zone, context.now)
        head = job_lines(job, self._zone, context.now)[0]
        return Outcome(text="\n".join([head, *(runs or ["It has not run yet."])]), sources=job.sources)

    def _job_outcome(self, job: Job, context: ToolContext) -> Outcome:
        return Outcome(text=" ".join(job_lines(job, self._zone, context.now)), details={"job": job.id}, sources=job.sources)

    def _listed(self, jobs: Sequence[Job], context: ToolContext) -> Outcome:
        if not jobs:
            return Outcome(text="There are no jobs.")
        shown = jobs[:_SHOWN]
        rows = [f"{number}. {job.id} {line(job, self._zone, context.now)}" for number, job in enumerate(shown, 1)]
        more = [f"… and {len(jobs) - len(shown)} more"] if len(jobs) > len(shown) else []
        head = f"{len(jobs)} job{'' if len(jobs) == 1 else 's'}, times in {self._zone.key}:"
        return Outcome(text="\n".join([head, *rows, *more]), sources=merged(*(job.sources for job in shown)))
