"""The slash command ``/jobs``: lists jobs, and runs, pauses and removes them, with buttons."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, TypeAlias

from agent.timing import Clock
from channels.messages import Button
from gateway.base.errors import HomebodyError, UsageError
from gateway.base.foreign_words import unformatted
from gateway.jobs.job_service import JobService
from gateway.jobs.job_words import job_lines, kind_of, line, named, run_lines, target
from gateway.ledger.job_rows import Job
from gateway.routing.routed_message import RoutedMessage
from gateway.routing.router import Route

Reply: TypeAlias = "tuple[str, Sequence[Button]]"
_SHOWN: Final = 15
_LABEL: Final = 28
_TEXT: Final = 600
_JUST_NOW: Final = timedelta(minutes=1)
_DOES: Final = frozenset({"run", "pause", "resume", "remove"})
_USAGE: Final = "Send /jobs for the list, /jobs ID for one, or /jobs run ID, /jobs pause ID, /jobs resume ID, /jobs remove ID."
_NONE: Final = "There are no jobs. Ask me to remind you of something, or to do something every morning."


class JobsCommand:
    """Answers ``/jobs``. In the owner's private chats it is about all jobs of the agent, elsewhere about those of the conversation.

    May be called twice for one message after a crash.
    """

    def __init__(self, service: JobService, clock: Clock) -> None:
        self._service = service
        self._clock = clock

    async def reply(self, argument: str, message: RoutedMessage) -> Reply:
        """Do what the argument says and return the reply with its buttons."""
        try:
            return await self._reply(argument.split(), message.route, message.inbound.key)
        except HomebodyError as error:
            text = str(error)
            return f"{text[:1].upper()}{text[1:]}. {error.hint}".strip(), ()

    async def _reply(self, words: Sequence[str], route: Route, request: str) -> Reply:
        visible = await self._service.list(route.agent)
        jobs = [job for job in visible if route.audience.kind == "owner" or job.audience == route.audience]
        if not words:
            return self._listed(jobs, route)
        if words[0] in _DOES and len(words) == 1:
            raise UsageError(f"/jobs {words[0]} needs the id of a job", hint=_USAGE)
        job = _job_named(jobs, words[1] if words[0] in _DOES else words[0])
        match words:
            case [_]:
                return await self._shown(job, route)
            case ["run", _]:
                return await self._ran(job, route, request), ()
            case ["remove", _]:
                return _removal_question(job)
        return await self._altered(job, words, route)

    async def _altered(self, job: Job, words: Sequence[str], route: Route) -> Reply:
        match words:
            case ["pause", _]:
                return await self._shown(await self._service.pause(job.id), route)
            case ["resume", _]:
                return await self._shown(await self._service.resume(job.id), route)
            case ["remove", _, "yes"]:
                return f"🗑 {named(await self._service.remove(job.id))} is removed.", ()
        raise UsageError(f"“{' '.join(words)[:60]}” is nothing that /jobs can do", hint=_USAGE)

    def _listed(self, jobs: Sequence[Job], route: Route) -> Reply:
        if not jobs:
            return _NONE, ()
        zone, now = self._service.targets.zone(route.agent), self._clock.now()
        shown = jobs[:_SHOWN]
        rows = [f"{number}. {line(job, zone, now)}" for number, job in enumerate(shown, 1)]
        more = [f"… and {len(jobs) - len(shown)} more: `homebody cron list`"] if len(jobs) > len(shown) else []
        buttons = [
            Button(label=f"{number}. {_short(job.name)}", value=f"/jobs {job.id}") for number, job in enumerate(shown, 1)
        ]
        return "\n".join([f"🗓 Jobs (times in {zone.key}):", "", *rows, *more]), buttons

    async def _shown(self, job: Job, route: Route) -> Reply:
        zone, now = self._service.targets.zone(route.agent), self._clock.now()
        text = job.text if len(job.text) <= _TEXT else f"{job.text[:_TEXT]}…"
        quoted = [f"> {one}" for one in text.split("\n")]
        runs = [f"Last run: {one}" for one in run_lines(await self._service.log(job.id, 1), zone, now)]
        lines = [" ".join(job_lines(job, zone, now, _whose(route))), "", *quoted, *([""] if runs else []), *runs]
        turn = (
            Button(label="⏸ Pause", value=f"/jobs pause {job.id}")
            if job.state == "active"
            else Button(label="⏯ Resume", value=f"/jobs resume {job.id}")
        )
        ends = [] if job.state == "done" else [turn]
        run, remove = (
            Button(label="▶️ Run now", value=f"/jobs run {job.id}"),
            Button(label="🗑 Remove", value=f"/jobs remove {job.id}"),
        )
        return "\n".join(lines), (run, *ends, remove)

    async def _ran(self, job: Job, route: Route, request: str) -> str:
        runs = await self._service.log(job.id, 1)
        if runs and runs[0].by_hand and timedelta() <= self._clock.now() - runs[0].at < _JUST_NOW:
            return f"{named(job)} was started less than a minute ago."
        await self._service.run_now(job.id, request, by_person=True)
        return f"▶️ {named(job)} is started. {target(job, _whose(route))}"


def _whose(route: Route) -> str:
    return "your" if route.audience.kind == "owner" else "my owner's"


def _removal_question(job: Job) -> Reply:
    yes = Button(label="🗑 Yes, remove it", value=f"/jobs remove {job.id} yes")
    return f"Remove the {kind_of(job)} “{unformatted(job.name)}” ({job.id})? It cannot be brought back.", (
        yes,
        Button(label="Keep it", value=f"/jobs {job.id}"),
    )


def _job_named(jobs: Sequence[Job], which: str) -> Job:
    found = next((job for job in jobs if job.id == which.casefold()), None)
    if found is None and which.isdecimal() and 0 < int(which) <= len(jobs):
        return jobs[int(which) - 1]
    if found is None:
        raise UsageError(f"there is no job “{which[:40]}” here (any more)", hint="/jobs lists them.")
    return found


def _short(name: str) -> str:
    return name if len(name) <= _LABEL else f"{name[: _LABEL - 1].rstrip()}…"
