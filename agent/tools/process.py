"""The ``process`` tool: looks after commands in the background."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, ValidationError

from agent.taint import merged
from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.command_runner import CommandRunner, Job, JobState
from agent.tools.exec import duration, ending, facts, shortened, where_all_is, without_its_words
from agent.tools.protocol import Act, Outcome, ToolContext

MAX_WAIT = 300.0
"""Longest wait of one poll, in seconds."""
LINES = 200
_LESS_THAN_ALL = 400
_LISTED_CHARS = 80
_KEYS = {
    "enter": "\r",
    "return": "\r",
    "tab": "\t",
    "escape": "\x1b",
    "esc": "\x1b",
    "space": " ",
    "backspace": "\x7f",
    "delete": "\x1b[3~",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
}


class ProcessArguments(Arguments):
    """What ``process`` takes."""

    action: Literal["list", "poll", "log", "write", "send-keys", "kill", "clear", "remove"]
    job: Annotated[
        str,
        Field(
            validation_alias=AliasChoices("job", "sessionId", "session_id", "id", "bash_id", "shell_id"),
        ),
    ] = ""
    data: CleanText = ""
    eof: Annotated[bool, Field(description="close its input")] = False
    keys: Annotated[list[str], Field(default_factory=list, description="ctrl-c, enter, up, or text")]
    timeout: Annotated[float, Field(description="seconds to wait for news")] = 0.0
    offset: Annotated[int | None, Field(description="first line")] = None
    limit: Annotated[int, Field(exclude=True)] = LINES


class ProcessTool(CheckedTool[ProcessArguments]):
    """Lists, reads, feeds and ends the background commands of this audience."""

    def __init__(self, runner: CommandRunner) -> None:
        super().__init__(
            ProcessArguments,
            name="process",
            description=(
                "Look after background commands: poll tells news, log output by lines, clear forgets those that ended."
            ),
            effect="effect",
        )
        self._runner = runner

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return input to a command as a command of its own: what a shell or an interpreter is told, it does."""
        try:
            given = ProcessArguments.model_validate({name: value for name, value in arguments.items() if value is not None})
            text = given.data if given.action == "write" else typed(given.keys)
        except (ValidationError, ValueError):
            return None
        job = self._find(given.job, context)
        if given.action not in {"write", "send-keys"} or not text or job is None:
            return None
        state = job.state
        return Act(
            kind="exec",
            summary=f"type `{shortened(text)}` into the background command {state.id}",
            command=text,
            cwd=state.cwd or self._runner.workspace,
            env=state.env,
            network=state.network,
            pty=state.pty,
            into=state.command,
            confinement=state.confinement,
        )

    async def act(self, arguments: ProcessArguments, context: ToolContext) -> Outcome:
        """Do what ``action`` says."""
        if arguments.action in {"list", "clear"}:
            return self._list(context) if arguments.action == "list" else self._clear(context)
        job = self._find(arguments.job, context)
        if job is None:
            known = ", ".join(one.state.id for one in self._runner.jobs(context.audience)) or "none"
            return failed(f"there is no background command {arguments.job!r}; there is {known}")
        room = max(0, context.max_chars - _LESS_THAN_ALL)
        match arguments.action:
            case "poll":
                return await self._poll(job, min(arguments.timeout, MAX_WAIT), room)
            case "log":
                text = await job.lines(arguments.offset, arguments.limit, room)
                await self._runner.refresh_sources(job)
                return _job_outcome(text, job)
            case "kill" | "remove":
                return await self._kill(job, forget=arguments.action == "remove")
            case _:
                return await self._write(job, arguments, context, room)

    def _find(self, name: str, context: ToolContext) -> Job | None:
        """Return a job by its id; without one, the only job that runs."""
        jobs = self._runner.jobs(context.audience)
        running = [job for job in jobs if job.state.status == "running"]
        if not name:
            return running[0] if len(running) == 1 else None
        return next((job for job in jobs if job.state.id == name.strip().casefold()), None)

    def _list(self, context: ToolContext) -> Outcome:
        jobs = self._runner.jobs(context.audience)
        shown = {one.state.id: one.state for one in jobs if context.taint.issuperset(one.state.command_sources)}
        lines = [_listed(one.state, shown=one.state.id in shown) for one in jobs]
        return Outcome(
            text="\n".join(lines) or "No background commands.",
            details={"jobs": [facts(one.state) for one in jobs]},
            sources=merged(*(state.command_sources for state in shown.values())),
        )

    def _clear(self, context: ToolContext) -> Outcome:
        over = [job for job in self._runner.jobs(context.audience) if job.state.status != "running"]
        for job in over:
            self._runner.forget(job)
        return Outcome(text=f"Forgot {len(over)} commands that had ended.")

    async def _poll(self, job: Job, seconds: float, room: int) -> Outcome:
        text = job.unread(room)
        if not text and seconds and job.state.status == "running":
            await job.wait(seconds, output=True)
            text = job.unread(room)
        await self._runner.refresh_sources(job)
        return _job_outcome(text or "(nothing new)", job)

    async def _write(self, job: Job, arguments: ProcessArguments, context: ToolContext, room: int) -> Outcome:
        try:
            text = arguments.data if arguments.action == "write" else typed(arguments.keys)
        except ValueError as error:
            return failed(str(error))
        if not text and not arguments.eof:
            return failed("there is nothing to write: give data, keys or eof")
        if context.taint:
            try:
                await self._runner.taint(job, context.taint)
            except OSError as error:
                return failed(
                    f"not written to {job.state.id}: the record of untrusted text cannot be kept ({error.strerror or error})"
                )
        refusal = job.write(text.encode("utf-8", "replace"), end=arguments.eof)
        if refusal:
            return failed(f"not written to {job.state.id}: {refusal}")
        await job.wait(1.0, output=True)
        text = job.unread(room)
        await self._runner.refresh_sources(job)
        return _job_outcome(text or "(written; nothing new yet)", job)

    async def _kill(self, job: Job, *, forget: bool) -> Outcome:
        job.kill()
        await job.wait(5.0)
        if forget:
            self._runner.forget(job)
        return _job_outcome("", job)


def typed(keys: list[str]) -> str:
    """Return what a terminal sends for keys: names such as ``ctrl-c`` and ``enter``, anything else as it stands. Raises ValueError."""
    return "".join(_typed(key) for key in keys)


def _typed(key: str) -> str:
    name = key.strip().casefold().replace("_", "-")
    for held in ("ctrl-", "ctrl+", "c-", "^"):
        if name.startswith(held) and len(name) == len(held) + 1:
            letter = name[-1].upper()
            if not "@" <= letter <= "_":
                raise ValueError(f"keys: there is no {key!r}")
            return chr(ord(letter) - 64)
    return _KEYS.get(name, key)


def _standing(state: JobState) -> str:
    return f"running, {duration(state.seconds)}" if state.status == "running" else ending(state)


def _listed(state: JobState, *, shown: bool) -> str:
    """Return the line of a job in the list. A command that was written while other untrusted text was in view is not repeated here."""
    if shown:
        return f"{state.id}: {_standing(state)} · {shortened(state.command, _LISTED_CHARS)}"
    return f"{state.id}: {_standing(without_its_words(state))} · (written while untrusted text was in view; not shown here)"


def _job_outcome(text: str, job: Job) -> Outcome:
    state = job.state
    line = f"[{state.id}: {_standing(state)}{'' if state.status == 'running' else where_all_is(state)}]"
    sources = merged(state.sources if text else (), state.command_sources if state.failure else ())
    return Outcome(text="\n".join(filter(None, [text.rstrip("\n"), line])), details=facts(state), sources=sources)
