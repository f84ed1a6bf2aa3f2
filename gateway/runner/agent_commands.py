"""The commands of one agent: starts them confined, keeps what they print, and looks after those in the background."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Collection, Coroutine, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from agent.errors import CommandRefused
from agent.timing import Clock
from agent.tool_settings import ExecSettings
from agent.tools.command_runner import CommandRequest, Job, JobState
from agent.tools.command_taint import CommandTaint, Watch, is_output
from agent.tools.skill_files import SkillCommands
from agent.tools.unfinished_commands import UnfinishedCommands
from gateway.base.errors import HomebodyError
from gateway.logs.redaction import Redactor
from gateway.runner.job_records import JobRecord, JobRecords
from gateway.runner.runner_client import Runner
from gateway.runner.running_job import JobHome, LostJob, RunningJob, act_of
from gateway.sandbox.command import PATH
from gateway.sandbox.limits import limits_of
from gateway.sandbox.protocol import Access, Request, Sandbox
from memory.audience import Audience

if TYPE_CHECKING:
    from gateway.runner.output import Output

log = logging.getLogger(__name__)

TERMINAL: Final = (40, 120)
"""Rows and columns of the terminal that a command gets."""
MOST_LISTED: Final = 50
"""How many background commands that have ended are listed."""
_OUTPUT_NOT_RECORDED: Final = "it cannot be recorded that the output of a command is untrusted: %s"
_ID: Final = "abcdefghjkmnpqrstuvwxyz23456789"
_SHELL: Final = "/bin/bash" if os.access("/bin/bash", os.X_OK) else "/bin/sh"


class AgentFacts(Struct, frozen=True, kw_only=True):
    """What an agent's commands go by; the functions return what the settings say now."""

    id: str
    workspace: Path
    settings: Callable[[], ExecSettings]
    access: Callable[[], Access]


class AgentCommands:
    """Implements ``agent.tools.command_runner.CommandRunner``.

    ``ended`` is told of each background job whose end nobody waits for, with its session key; of one that a former process left it may be
    told again. ``files`` is told which commands may write untrusted text, and when they have ended. ``skills`` says what commands of the
    owner's conversations get because of skills. ``working`` is told of each command that begins, by its id and session key, and with None
    when it has ended.

    Where the settings do not let the agent write its workspace, output is kept in memory alone.
    """

    def __init__(
        self,
        facts: AgentFacts,
        runner: Runner,
        sandbox: Sandbox,
        records: JobRecords,
        *,
        clock: Clock,
        redactor: Redactor,
        ended: Callable[[str, JobState], None] = lambda _key, _state: None,
        files: CommandTaint | None = None,
        skills: SkillCommands | None = None,
        working: Callable[[str, str | None], None] = lambda _job, _key: None,
    ) -> None:
        self._skills = skills
        self._working = working
        self.facts = facts
        self.records = records
        self.clock = clock
        self._runner = runner
        self._sandbox = sandbox
        self._redactor = redactor
        self._ended = ended
        self._files = files
        self._unfinished = UnfinishedCommands(files) if files is not None else None
        self._jobs: dict[str, RunningJob | LostJob] = {}
        self._lost: list[tuple[str, JobState]] = []
        self._random = random.SystemRandom()
        self._tasks: set[asyncio.Task[None]] = set()
        self.workspace = os.path.realpath(facts.workspace)
        self._home = JobHome(
            clock=clock,
            workspace=Path(self.workspace),
            records=records,
            over=self.over,
            written=self.written,
            in_background=self.in_background,
        )

    async def load(self) -> None:
        """Take in the records of earlier processes. Call it once, before the first command, whose record looks like one of theirs."""
        for record in await asyncio.to_thread(self.records.load, self.clock.now()):
            if record.state.status == "unknown":
                await asyncio.to_thread(self._end_lost, record)
            self._jobs[record.state.id] = LostJob(record.state, record.audience, record.turn, Path(self.workspace))
            if record.state.status == "unknown" and record.state.background:
                self._lost.append((record.key, record.state))

    def _end_lost(self, record: JobRecord) -> None:
        """Record what a command changed whose end no process saw.

        One that had nothing untrusted within reach may have read what came there while it ran. Blocks.
        """
        if self._files is None or self._unfinished is None:
            return
        state = record.state
        taint = state.taint or tuple(one for one in self._files.sources_of(act_of(state)) if not is_output(one))
        since = int(state.started.timestamp() * 1e9)
        self._unfinished.put(state.id, Watch(since, frozenset(taint), {}, record.folders, complete=False))
        self._end(state.id)

    def report_lost(self) -> None:
        """Report background commands whose end no process saw to ``ended``, once. Call it when the agent's sessions can be reached."""
        lost, self._lost = self._lost, []
        for key, state in lost:
            self._ended(key, state)

    @property
    def background_seconds(self) -> float:
        """See ``CommandRunner``."""
        return self.facts.settings().background_ms / 1000

    async def start(self, request: CommandRequest) -> RunningJob:
        """See ``CommandRunner``."""
        settings = self.facts.settings()
        running = [job for job in self._jobs.values() if job.state.status == "running"]
        if len(running) >= settings.max_jobs:
            raise CommandRefused(
                f"{len(running)} commands are running, which is as many as may run at once (tools.exec.maxJobs)",
                hint="wait for one with process poll, or end one with process kill",
            )
        access = self.facts.access()
        timeout = min(request.timeout or settings.timeout_sec, settings.timeout_sec)
        job = RunningJob(self._new_id(), request, timeout, home=self._home, made=self._new_output(access))
        self._jobs[job.id] = job
        self._working(job.id, job.key)
        try:
            await asyncio.to_thread(self._prepare, job, request.audience, access)
            plan = await self._sandbox.confine(await self._with_skills(self._confinement(request, settings, access), request))
            job.note_confinement(plan.rung)
            process = await self._runner.start(
                plan,
                timeout=timeout,
                limits=limits_of(settings.limits),
                pty=TERMINAL if request.pty else None,
                input_open=request.input_open,
            )
        except BaseException as error:  # also a cancellation: a job that did not start must not stay listed
            del self._jobs[job.id]
            self._working(job.id, None)
            if self._unfinished is not None:
                self._unfinished.drop(job.id)
            self.records.remove(job.id)
            if isinstance(error, HomebodyError):
                raise CommandRefused(str(error), hint=error.hint) from error
            raise
        self._do(job.run(process))
        return job

    async def taint(self, job: Job, sources: Collection[str]) -> None:
        """See ``CommandRunner``."""
        new = isinstance(job, RunningJob) and not set(sources) <= {*job.state.taint} & {*job.state.sources}
        if isinstance(job, RunningJob) and new and job.state.status == "running":
            job.add_sources(sources)
            await asyncio.to_thread(self._prepare, job, job.audience, self.facts.access())

    async def refresh_sources(self, job: Job) -> None:
        """See ``CommandRunner``."""
        if isinstance(job, RunningJob) and not job.state.sources:
            await asyncio.to_thread(self._check_reach, job)

    def _check_reach(self, job: RunningJob) -> None:
        """Find what has come within reach of a command that had nothing untrusted there. Blocks."""
        files, unfinished = self._files, self._unfinished
        if files is None or unfinished is None:
            return
        with unfinished.others(job.id) as since:
            found = () if job.state.sources else files.sources_of(job.act)  # this may have been found meanwhile
        if all(map(is_output, found)):  # a command does not know the names of files of later output
            return
        job.add_sources(found)
        if (watch := unfinished.watch_of(job.id)) is not None:
            more = replace(watch, taint=watch.taint.union(found)) if watch.taint else files.tainted(watch, found, since)
            unfinished.put(job.id, more, partial(self._look_for_others, job))
            files.printed(PurePosixPath(job.record.path), frozenset(found))

    def _look_for_others(self, job: RunningJob) -> None:
        """Find it for somebody who asks about a file that the command may have written. Blocks."""
        try:
            self._check_reach(job)
        except OSError as error:
            log.warning(_OUTPUT_NOT_RECORDED, error)

    def _prepare(self, job: RunningJob, audience: Audience, access: Access) -> None:
        """Write down what is known of a command that is about to start or to be given input. Blocks; raises OSError."""
        taint = frozenset(job.state.taint)
        if self._files is not None and self._unfinished is not None and access == "rw":
            former = self._unfinished.watch_of(job.id)
            if former is not None and former.taint:
                watch = replace(former, taint=taint)
            else:
                watch = self._files.begin(taint, audience, self.clock.now().date())
            self._unfinished.put(job.id, watch, partial(self._look_for_others, job))
            if taint:
                job.folders = self._files.folders_to_keep(watch)
                self._files.printed(PurePosixPath(job.record.path), taint)
        job.write_record()

    def jobs(self, audience: Audience) -> Sequence[RunningJob | LostJob]:
        """See ``CommandRunner``."""
        self._clean_up()
        listed = [job for job in self._jobs.values() if job.audience == audience and job.state.background]
        return sorted(listed, key=lambda job: job.state.started, reverse=True)

    def lost_in(self, turn: str, command: str) -> JobState | None:
        """See ``CommandRunner``."""
        found = [job.state for job in self._jobs.values() if isinstance(job, LostJob) and job.turn == turn]
        return next((state for state in found if state.command == command), None)

    def forget(self, job: Job) -> None:
        """See ``CommandRunner``."""
        state = job.state
        if state.status == "running":
            return
        self._jobs.pop(state.id, None)
        self._do(asyncio.to_thread(self._remove, state))

    def _remove(self, state: JobState) -> None:
        from gateway.runner import output

        self.records.remove(state.id)
        if state.path:
            output.remove(Path(self.workspace), state.path)

    def stop_sessions(self, of: Callable[[str], bool]) -> int:
        """End the background commands of the sessions that ``of`` selects by their keys; return how many."""
        found = [one for one in self._jobs.values() if isinstance(one, RunningJob) and of(one.key)]
        stopped = [job for job in found if job.state.status == "running" and job.state.background]
        for job in stopped:
            job.kill()
        return len(stopped)

    async def settled(self) -> None:
        """Wait until what was begun is written down."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def over(self, job: RunningJob) -> None:
        """Note that a job has ended."""
        if job.state.background:
            self._do(self._note_end(job))
            return
        self._jobs.pop(job.id, None)
        if job.told:  # its call was cancelled, and a turn that goes on later can be told how it ended
            self._do(asyncio.to_thread(job.write_record))

    async def written(self, job: RunningJob) -> None:
        """Record which files a command changed that may have put untrusted text into them."""
        try:
            await self.refresh_sources(job)
        except OSError as error:
            log.warning(_OUTPUT_NOT_RECORDED, error)
        await asyncio.to_thread(self._end, job.id)
        self._working(job.id, None)

    def _end(self, name: str) -> None:
        """Record which files a command changed that has ended. Blocks."""
        try:
            if self._unfinished is not None:
                self._unfinished.end(name)
        except OSError as error:  # until it can be, they count as untrusted
            log.warning("it cannot be recorded which files hold untrusted text: %s", error)

    async def _note_end(self, job: RunningJob) -> None:
        await asyncio.to_thread(job.write_record)
        if self.facts.settings().notify_on_exit and not job.told:
            self._ended(job.key, job.state)

    def in_background(self, job: RunningJob) -> None:
        """Note that a job goes on in the background."""
        self._do(asyncio.to_thread(job.write_record))

    def _confinement(self, request: CommandRequest, settings: ExecSettings, access: Access) -> Request:
        argv = request.argv or (_SHELL, "-c", request.command)
        env: dict[str, str] = dict(request.env)
        if settings.path_prepend and "PATH" not in env:
            env["PATH"] = ":".join((*(os.path.expanduser(one) for one in settings.path_prepend), PATH))  # noqa: PTH111 -- text
        return Request(
            argv=argv,
            cwd=request.cwd or self.workspace,
            workspace=self.workspace,
            agent=self.facts.id,
            access=access,
            network=request.network,
            env=env,
            pty=request.pty,
            main=request.private,
        )

    async def _with_skills(self, made: Request, request: CommandRequest) -> Request:
        """Add the folders of skills and the variables of the skill whose command it is, in the owner's conversations alone."""
        if self._skills is None or request.audience.kind != "owner":
            return made
        readable = await asyncio.to_thread(self._skills.readable)
        given = await asyncio.to_thread(self._skills.variables, request.argv, made.cwd) if request.private else {}
        return replace(made, readable=tuple(readable), env={**given, **made.env})

    def _new_id(self) -> str:
        while (made := "".join(self._random.choices(_ID, k=4))) in self._jobs:
            pass
        return made

    def _new_output(self, access: Access) -> Callable[[JobState], Output]:
        from gateway.runner.output import Output

        folder = Path(self.workspace) if access == "rw" else None
        return lambda state: Output(self._redactor, folder, f"{state.started:%Y%m%d-%H%M%S}-{state.id}.txt")

    def _clean_up(self) -> None:
        """Take commands off the list that ended a while ago. Their output files stay until they are rotated."""
        now, after = self.clock.now(), timedelta(milliseconds=self.facts.settings().cleanup_ms)
        over = [job for job in self._jobs.values() if job.state.status != "running" and job.state.background]
        over.sort(key=lambda job: job.ended_at or job.state.started, reverse=True)
        for place, job in enumerate(over):
            if place >= MOST_LISTED or (job.ended_at is not None and now - job.ended_at > after):
                del self._jobs[job.state.id]
                self._do(asyncio.to_thread(self.records.remove, job.state.id))

    async def close(self) -> None:
        """End every command of the agent."""
        for job in self._jobs.values():
            if isinstance(job, RunningJob):
                job.shut_down()
        await self.settled()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
