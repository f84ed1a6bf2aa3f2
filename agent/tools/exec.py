"""The ``exec`` tool: runs a command, and leaves it in the background where it takes long."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from msgspec.structs import replace
from pydantic import AliasChoices, BeforeValidator, Field, ValidationError

from agent.errors import CommandRefused
from agent.taint import merged
from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.command_line import plain_words
from agent.tools.command_runner import CommandRequest, CommandRunner, Job, JobState
from agent.tools.protocol import Act, Outcome, ToolContext

Sources: TypeAlias = "Callable[[Act, ToolContext], tuple[str, ...]]"
_SHOWN = 200
_LESS_THAN_ALL = 400
"""Characters of a result that are kept for what is said of the command itself."""
_WHY = {
    "timeout": "it was ended after {timeout:g} s, the longest it may run",
    "stopped": "it was stopped",
    "shutdown": "it was ended because the gateway stopped",
    "processes": "it was ended because it had too many processes at once",
    "memory": "it was ended because it took too much memory",
    "disk": "it was ended because the disk is nearly full",
    "lost": "the process that runs commands was ended meanwhile; nobody knows whether this finished",
}
_BY_SIGNAL = 128
"""A shell returns this and the number of the signal that ended a command."""
_MINUTE = 60
_SIGNALS = {
    signal.SIGXFSZ: "a file would have grown larger than files may",
    signal.SIGXCPU: "it used up its processor time",
    signal.SIGKILL: "perhaps the machine was out of memory",
}


def _one_command(given: Any) -> Any:
    """Take a list of words for the command that it means."""
    if isinstance(given, list) and given and all(isinstance(word, str) for word in given):
        return shlex.join(given)
    return given


class ExecArguments(Arguments):
    """What ``exec`` takes."""

    command: Annotated[
        CleanText,
        BeforeValidator(_one_command),
        Field(min_length=1, validation_alias=AliasChoices("command", "cmd")),
    ]
    workdir: Annotated[
        str,
        Field(validation_alias=AliasChoices("workdir", "cwd", "directory")),
    ] = ""
    env: Annotated[dict[str, CleanText], Field(default_factory=dict)]
    timeout: Annotated[float | None, Field(gt=0, description="seconds")] = None
    background: Annotated[
        bool, Field(validation_alias=AliasChoices("background", "run_in_background"), description="do not wait; it takes input")
    ] = False
    yield_ms: Annotated[float | None, Field(ge=0, validation_alias=AliasChoices("yieldMs", "yield_ms"), exclude=True)] = None
    pty: bool = False
    network: bool = False


def network_is_untrusted(act: Act, context: ToolContext) -> tuple[str, ...]:  # noqa: ARG001  (all may look at it)
    """Name the network as a source for commands that may use it."""
    return ("exec:network",) if act.network else ()


class Exec(CheckedTool[ExecArguments]):
    """Runs commands of one agent. ``sources`` names where untrusted text in the output of a command may come from."""

    def __init__(self, runner: CommandRunner, sources: Sources = network_is_untrusted) -> None:
        super().__init__(
            ExecArguments,
            name="exec",
            description=(
                f"Run a command in your workspace. After {runner.background_seconds:g} s it goes on in the background: see process. "
                "Without shell syntax it is approved more easily."
            ),
            effect="effect",
        )
        self._runner = runner
        self._sources = sources

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:  # noqa: ARG002  (the protocol's)
        """Return the command as rules and people judge it; None for arguments that ``run`` refuses."""
        try:
            given = ExecArguments.model_validate({name: value for name, value in arguments.items() if value is not None})
            cwd = self._folder(given.workdir)
        except (ValidationError, CommandRefused):
            return None
        return self._act(given, cwd)

    def _act(self, given: ExecArguments, cwd: str) -> Act:
        command = given.command.strip(" \t\n")
        where = "" if cwd == self._runner.workspace else f" in {os.path.relpath(cwd, self._runner.workspace)}"
        return Act(
            kind="exec",
            summary=f"run `{shortened(command)}`{where}{' with network access' if given.network else ''}",
            command=command,
            argv=plain_words(command),
            cwd=cwd,
            env=tuple(sorted(given.env.items())),
            network=given.network,
            pty=given.pty,
        )

    async def act(self, arguments: ExecArguments, context: ToolContext) -> Outcome:
        """Run it and wait for its end, as long as it is to be waited for."""
        try:
            act = self._act(arguments, self._folder(arguments.workdir))
            job = await self._runner.start(
                CommandRequest(
                    command=act.command,
                    argv=act.argv,
                    cwd=act.cwd,
                    env=arguments.env,
                    timeout=arguments.timeout,
                    pty=arguments.pty,
                    input_open=arguments.background or arguments.pty,
                    network=arguments.network,
                    key=context.key,
                    turn=context.turn,
                    audience=context.audience,
                    private=context.origin == "owner",
                    sources=await asyncio.to_thread(self._sources, act, context),
                    taint=merged(context.taint),
                )
            )
        except CommandRefused as refusal:
            return failed(f"Not run: {refusal}", refusal.hint)
        job.watch(context.progress)
        try:
            over = await job.wait(self._patience(arguments))
        except BaseException:  # cancelled: nobody waits for the result any more, and the command was asked for by nobody else
            job.kill()
            raise
        finally:
            job.watch(None)
        return await self._ended(job, context) if over else await self._goes_on(job, context)

    def _patience(self, arguments: ExecArguments) -> float:
        if arguments.background:
            return 0.0
        return self._runner.background_seconds if arguments.yield_ms is None else arguments.yield_ms / 1000

    async def _ended(self, job: Job, context: ToolContext) -> Outcome:
        text = await job.result(max(0, context.max_chars - _LESS_THAN_ALL))
        state = job.state
        lines = [text.rstrip("\n"), f"[{ending(state)}{where_all_is(state)}]"]
        wrong = bool(state.code or state.signal or state.reason or state.failure)
        return Outcome(text="\n".join(filter(None, lines)), is_error=wrong, details=facts(state), sources=job.state.sources)

    async def _goes_on(self, job: Job, context: ToolContext) -> Outcome:
        job.to_background()
        text = job.unread(max(0, context.max_chars - _LESS_THAN_ALL))
        await self._runner.refresh_sources(job)
        state = job.state
        line = f"[runs in the background as {state.id}, {duration(state.seconds)} so far; `process` polls, reads, writes to and kills it]"
        return Outcome(text="\n".join(filter(None, [text.rstrip("\n"), line])), details=facts(state), sources=job.state.sources)

    def known_of(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        """Return what is known of this same call of an earlier process, which nobody saw end; "" for nothing."""
        command = str(arguments.get("command", "")).strip(" \t\n")
        state = self._runner.lost_in(context.turn, command)
        if state is None:
            return ""
        printed = f"What it had printed is in {state.path}." if state.path else "It had printed nothing that was kept."
        end = "nobody saw it end" if state.status == "unknown" else f"it ended: {ending(state)}"
        return f"The command was started, and {end}. {printed}"

    def _folder(self, raw: str) -> str:
        """Return the folder to start in as an absolute path. ``~`` is the workspace. Raises CommandRefused."""
        root = self._runner.workspace
        text = raw.strip()
        text = f".{text[1:]}" if text == "~" or text.startswith("~/") else text
        found = os.path.realpath(Path(root, text)) if "\0" not in text else ""
        if found != root and not found.startswith(f"{root}/"):
            raise CommandRefused(
                f"workdir: {shortened(raw)} is not in the workspace", hint="give a folder in it, such as notes"
            )
        if not Path(found).is_dir():
            what = "is not a folder" if Path(found).exists() else "does not exist"
            raise CommandRefused(f"workdir: {shortened(raw)} {what}")
        return found


def ending(state: JobState) -> str:
    """Say in one line how a command ended, and after what time."""
    after = f"after {duration(state.seconds)}"
    if state.failure:
        return f"it could not be started: {state.failure}"
    if state.status == "unknown":
        return f"outcome unknown: {_WHY['lost']}"
    why = _WHY.get(state.reason, state.reason).format(timeout=state.timeout)
    number = state.signal or (state.code - _BY_SIGNAL if state.code is not None and state.code > _BY_SIGNAL else None)
    if not why and number in _SIGNALS:
        why = _SIGNALS[signal.Signals(number)]
    how = f"exit code {state.code}" if state.code is not None else f"ended by {_name(state.signal)}"
    left = f"; {state.left} processes that it left behind were ended" if state.left else ""
    return f"{how} {after}{f': {why}' if why else ''}{left}"


def without_its_words(state: JobState) -> JobState:
    """Return what is known of a job without the words of its command, which an error at its start may repeat."""
    return replace(state, command="", failure=state.failure and "its log says why")


def where_all_is(state: JobState) -> str:
    """Say in which file the output is, where there is one."""
    if not state.path:
        return "" if state.kept else f"; it printed {state.printed:,} bytes, and no file holds them all"
    return f"; {'all of the' if state.kept else 'the beginning and end of the'} output: {state.path}"


def facts(state: JobState) -> dict[str, Any]:
    """Return a job for programs."""
    known = {
        "job": state.id,
        "status": state.status,
        "exitCode": state.code,
        "signal": state.signal,
        "seconds": round(state.seconds, 3),
    }
    known |= {"reason": state.reason, "output": state.path, "bytes": state.printed}
    return {name: value for name, value in known.items() if value not in {None, ""}}


def duration(seconds: float) -> str:
    """Write a duration for people."""
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    return f"{minutes} min {rest} s" if minutes < _MINUTE else f"{minutes // _MINUTE} h {minutes % _MINUTE} min"


def shortened(text: str, most: int = _SHOWN) -> str:
    """Write a text on one line of at most so many characters. A bare carriage return is named: what stands before it could be hidden."""
    line = " ".join(text.replace("\r\n", "\n").replace("\r", "⟨CR⟩").split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _name(number: int | None) -> str:
    try:
        return signal.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"
