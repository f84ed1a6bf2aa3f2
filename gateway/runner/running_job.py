"""The jobs of an agent: a command that this process started, and one of an earlier process whose end nobody saw."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from agent.taint import merged
from agent.timing import Clock
from agent.tools.command_line import plain_words
from agent.tools.command_runner import CommandRequest, JobState
from agent.tools.protocol import Act
from agent.tools.workspace_changes import FolderId
from gateway.runner.job_records import JobRecords
from gateway.runner.runner_client import NotStarted, Process, Reason
from memory.audience import Audience

if TYPE_CHECKING:
    from gateway.runner.output import Output

log = logging.getLogger(__name__)

SHOW_EVERY: Final = 1.0
"""Seconds between two showings of the last lines of a running command."""
SHOWN_LINES: Final = 8
SHOWN_CHARS: Final = 120
_NO_INPUT: Final = "this command takes no input: start it with background or pty"


class JobHome(Struct, frozen=True, kw_only=True):
    """What a job needs of those who list it.

    ``over`` is called when it has ended, ``written`` before anybody is told so, ``in_background`` when it goes on there.
    """

    clock: Clock
    workspace: Path
    records: JobRecords
    over: Callable[[RunningJob], None]
    written: Callable[[RunningJob], Awaitable[None]]
    in_background: Callable[[RunningJob], None]


def act_of(state: JobState) -> Act:
    """Return what a command does, as it was asked for."""
    argv = plain_words(state.command)
    return Act(kind="exec", summary="", command=state.command, argv=argv, cwd=state.cwd, env=state.env, network=state.network)


class RunningJob:
    """A command of this process, running or ended. Implements ``agent.tools.command_runner.Job``."""

    def __init__(
        self, number: str, request: CommandRequest, timeout: float, *, home: JobHome, made: Callable[[JobState], Output]
    ) -> None:
        self.id = number
        self.audience = request.audience
        self.key = request.key
        self.turn = request.turn
        self.ended_at: datetime | None = None
        self.folders: Mapping[FolderId, PurePosixPath] = {}
        """The folders with untrusted files when it was started, for its record."""
        self.told = False
        """Whether the model knows of the end already, so that nobody need be told."""
        self._waiting = 0
        self._home = home
        self._open = request.input_open or request.pty
        self._began = home.clock.monotonic()
        self._state = JobState(
            id=number,
            command=request.command,
            started=home.clock.now(),
            timeout=timeout,
            cwd=request.cwd or str(home.workspace),
            env=tuple(sorted(request.env.items())),
            network=request.network,
            pty=request.pty,
            command_sources=request.taint,
            sources=request.sources,
            taint=merged(request.taint, request.sources),
        )
        self._output = made(self._state)
        self._process: Process | None = None
        self._ending: Reason | None = None
        self._over = asyncio.Event()
        self._news = asyncio.Event()
        self._show: Callable[[str], None] | None = None
        self._shown_at = 0.0

    @property
    def state(self) -> JobState:
        """See ``Job``."""
        seconds = self._state.seconds if self._over.is_set() else self._home.clock.monotonic() - self._began
        return replace(self._state, seconds=seconds, printed=self._output.total, path=self._output.path, kept=self._output.kept)

    def note_confinement(self, rung: str) -> None:
        """Note how it is confined, before it starts."""
        self._state = replace(self._state, confinement=rung)

    def add_sources(self, sources: Collection[str]) -> None:
        """Note that it is given input from there: what it prints and writes may hold it."""
        state = self._state
        self._state = replace(state, sources=merged(state.sources, sources), taint=merged(state.taint, sources))

    @property
    def act(self) -> Act:
        """What it does, as it was asked for."""
        return act_of(self._state)

    @property
    def record(self) -> JobState:
        """What is written down: while it runs with the file that the output will be in."""
        return self.state if self._over.is_set() else replace(self.state, path=self._output.planned)

    async def run(self, process: Process) -> None:
        """Take in the output until the end."""
        self._process = process
        if self._ending is not None:
            process.kill(reason=self._ending)
        try:
            async for chunk in process.chunks():
                await self._output.add(chunk)
                self._news.set()
                self._show_if_due()
            end = await self._exit_of(process)
            await self._output.end()
        except Exception:  # a defect here must not leave a job that never ends, nor a command that nobody reads
            log.exception("the output of the command %s was lost", self.id)
            process.kill(grace=0)
            end = {"status": "unknown", "reason": "lost"}
        await self._home.written(self)  # before its state tells anybody that its files can be read
        self._state = replace(self._state, **end)
        self.ended_at = self._home.clock.now()
        self.told = self.told or self._waiting > 0
        self._over.set()
        self._news.set()
        self._home.over(self)

    async def _exit_of(self, process: Process) -> dict[str, Any]:
        """Wait for the end; return what of the state it changes."""
        try:
            end = await process.exit()
        except NotStarted as refusal:
            return {"status": "ended", "failure": f"{refusal}: {refusal.file}" if refusal.file else str(refusal)}
        return {
            "status": "unknown" if end.reason == "lost" else "ended",
            "seconds": end.seconds or self._home.clock.monotonic() - self._began,
            "code": end.code,
            "signal": end.signal,
            "reason": end.reason,
            "left": end.left,
        }

    async def wait(self, seconds: float | None = None, *, output: bool = False) -> bool:
        """See ``Job``."""
        waited = self._news if output else self._over
        self._news.clear()
        if not self._over.is_set():
            waiting = [asyncio.ensure_future(waited.wait()), asyncio.ensure_future(self._over.wait())]
            if seconds is not None:
                waiting.append(asyncio.ensure_future(_slept(self._home.clock, seconds)))
            self._waiting += 1
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._waiting -= 1
                for one in waiting:
                    one.cancel()
        return self._over.is_set()

    def ends(self, most: int) -> str:
        """See ``Job``."""
        self._output.unread(0)
        return self._output.ends(most)

    def unread(self, most: int) -> str:
        """See ``Job``."""
        return self._output.unread(most)

    async def lines(self, offset: int | None, limit: int, most: int) -> str:
        """See ``Job``."""
        from gateway.runner import output

        if self._output.path and self._output.kept:
            return await asyncio.to_thread(_lines, self._home.workspace, self._output.path, offset, limit, most)
        return output.lines_of(self._output.ends(4 * output.KEPT).splitlines(), offset, limit, most)

    def watch(self, show: Callable[[str], None] | None) -> None:
        """See ``Job``."""
        self._show = show

    def _show_if_due(self) -> None:
        now = self._home.clock.monotonic()
        if self._show is not None and now - max(self._shown_at, self._began) >= SHOW_EVERY:
            self._shown_at = now
            self._show(self._output.last_lines(SHOWN_LINES, SHOWN_CHARS))

    def write(self, data: bytes, *, end: bool = False) -> str:
        """See ``Job``."""
        if self._over.is_set() or self._process is None:
            return "it has ended"
        if not self._open:
            return _NO_INPUT
        if not self._process.write(data):
            return "it does not read its input, and too much of it waits already"
        if end:
            self._process.end_input()
        return ""

    def write_record(self) -> None:
        """Write down what is known of it now. Blocks."""
        folders = {} if self._over.is_set() else self.folders
        self._home.records.write(self.record, audience=self.audience, key=self.key, turn=self.turn, folders=folders)

    def to_background(self) -> None:
        """See ``Job``."""
        self._show = None
        self._state = replace(self._state, background=True)
        self._home.in_background(self)

    def kill(self) -> None:
        """See ``Job``."""
        self.told = True
        self._end("stopped")

    def shut_down(self) -> None:
        """End it because the gateway or its agent does."""
        self._end("shutdown")

    def _end(self, reason: Reason) -> None:
        """End the process; one that is about to start is ended when it has."""
        if self._process is not None:
            self._process.kill(reason=reason)
        else:
            self._ending = self._ending or reason

    async def result(self, most: int) -> str:
        """See ``Job``."""
        if self._output.fits(most):
            await self._output.remove()
        await asyncio.to_thread(self._home.records.remove, self.id)
        return self._output.ends(most)


def _lines(workspace: Path, path: str, offset: int | None, limit: int, most: int) -> str:
    from gateway.runner import output

    return output.lines_of(output.read(workspace, path) if path else (), offset, limit, most)


async def _slept(clock: Clock, seconds: float) -> Literal[True]:
    await clock.sleep(seconds)
    return True


class LostJob:
    """A command of an earlier process. Implements ``agent.tools.command_runner.Job``."""

    def __init__(self, state: JobState, audience: Audience, turn: str, workspace: Path) -> None:
        self.id = state.id
        self.state = state
        self.audience = audience
        self.turn = turn
        self.key = ""
        self.ended_at: datetime | None = None
        self._workspace = workspace

    async def wait(self, seconds: float | None = None, *, output: bool = False) -> Literal[True]:  # noqa: ARG002  (the protocol's)
        """See ``Job``."""
        return True

    def ends(self, most: int) -> str:
        """See ``Job``."""
        return _lines(self._workspace, self.state.path, None, 10_000, most)

    async def result(self, most: int) -> str:
        """See ``Job``."""
        return self.ends(most)

    def unread(self, most: int) -> str:
        """See ``Job``."""
        return self.ends(most)

    async def lines(self, offset: int | None, limit: int, most: int) -> str:
        """See ``Job``."""
        return await asyncio.to_thread(_lines, self._workspace, self.state.path, offset, limit, most)

    def watch(self, show: Callable[[str], None] | None) -> None:
        """See ``Job``."""

    def write(self, data: bytes, *, end: bool = False) -> str:  # noqa: ARG002  (the protocol's)
        """See ``Job``."""
        return "it is not running any more"

    def to_background(self) -> None:
        """See ``Job``."""

    def kill(self) -> None:
        """See ``Job``."""
