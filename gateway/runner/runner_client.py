"""The gateway's end of the runner process: starts it when it is first needed, and gives out a handle for each command."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct, field

from agent.timing import Clock
from gateway.base.errors import HomebodyError
from gateway.runner import frames
from gateway.runner.frames import Frame
from gateway.sandbox.protocol import Confined, Limits

log = logging.getLogger(__name__)

PROGRAM: Final = Path(__file__).with_name("runner_process.py")
IDLE: Final = 60.0
"""Seconds after its last command after which the runner process is ended; the next command starts another."""
MOST_WAIT: Final = 30.0
"""Longest wait before a runner process that keeps dying is started again, in seconds."""
ENDING: Final = 2.0
"""Seconds that the runner process has to end its commands and itself."""
MOST_INPUT: Final = 256 * 1024
"""How many bytes of input may wait for a command that does not read."""
_PIECE: Final = 64 * 1024
_READ: Final = 256 * 1024

Reason = Literal["", "timeout", "processes", "memory", "disk", "stopped", "shutdown", "lost"]


class RunnerGone(HomebodyError):
    """The runner process could not be started, or ended while the command ran."""


class NotStarted(HomebodyError):
    """A command could not be executed at all. ``errno`` is the system's."""

    def __init__(self, message: str, *, errno: int = 0, file: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.errno = errno
        self.file = file


class Exit(Struct, frozen=True, kw_only=True):
    """How a command ended. ``code`` or ``signal`` is set, neither when it is not known.

    ``reason`` is why it was ended, "" when it ended by itself; "lost": the runner process or the command's keeper died, and nobody saw the
    end. ``left`` is how many processes it left behind, which were ended. ``cpu`` is in seconds.
    """

    code: int | None = None
    signal: int | None = None
    seconds: float = 0.0
    reason: Reason = ""
    left: int = 0
    cpu: float = 0.0


class Process(Struct, eq=False):
    """A command that was handed to the runner. Its output must be read with ``chunks``, or it stands still."""

    number: int
    _runner: Runner
    _chunks: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    _exit: asyncio.Future[Exit] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    waiting: int = 0
    """Bytes of output that arrived and were not taken yet."""
    _unread: int = 0
    """Bytes of input that were sent and not yet written to the command."""

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the output piece by piece until its end. The next piece is asked for when one has been dealt with."""
        while (chunk := await self._chunks.get()) is not None:
            yield chunk
            self.waiting -= len(chunk)
            self._runner.send_frame(frames.packed_count(frames.SEEN, self.number, len(chunk)))

    async def exit(self) -> Exit:
        """Wait for the end. Raises NotStarted where the command could not be executed."""
        return await asyncio.shield(self._exit)

    @property
    def running(self) -> bool:
        """Whether the end is not known yet."""
        return not self._exit.done()

    def write(self, data: bytes) -> bool:
        """Give the command input; returns False when too much of it still waits to be read."""
        if self._unread + len(data) > MOST_INPUT:
            return False
        self._unread += len(data)
        for start in range(0, len(data), _PIECE):
            self._runner.send_frame(frames.packed(frames.INPUT, self.number, data[start : start + _PIECE]))
        return True

    def end_input(self) -> None:
        """Close the command's input."""
        self._runner.send_frame(frames.packed(frames.END_INPUT, self.number))

    def kill(self, *, grace: float = 1.0, reason: Reason = "stopped") -> None:
        """Ask all processes of the command to end, and kill them after ``grace`` seconds."""
        self._runner.send_frame(frames.packed_json(frames.KILL, self.number, {"grace": grace, "reason": reason}))

    def take_frame(self, frame: Frame) -> None:
        """Take in what the runner says of this command."""
        if frame.kind == frames.OUTPUT:
            self._chunks.put_nowait(frame.payload)
            self.waiting += len(frame.payload)
        elif frame.kind == frames.TAKEN:
            self._unread -= frame.number
        elif frame.kind == frames.EXITED:
            self.over(Exit(**frame.json))
        elif frame.kind == frames.FAILED:
            facts = frame.json
            self.over(NotStarted(facts["text"], errno=facts["errno"], file=facts["file"]))

    def over(self, end: Exit | NotStarted) -> None:
        """Record the end, once."""
        if self._exit.done():
            return
        self._chunks.put_nowait(None)
        if isinstance(end, Exit):
            self._exit.set_result(end)
        else:
            self._exit.set_exception(end)
            self._exit.exception()  # whoever does not ask for it need not be warned of it


class Runner:
    """Owns the runner process. One for a gateway."""

    def __init__(self, clock: Clock, *, idle: float = IDLE) -> None:
        self._clock = clock
        self._idle = idle
        self._numbers = itertools.count(1)
        self._processes: dict[int, Process] = {}
        self._popen: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._retiring: asyncio.TimerHandle | None = None
        self._deaths = 0
        self._died_at = 0.0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The id of the runner process; None while there is none."""
        return self._popen.pid if self._popen is not None else None

    async def start(
        self,
        plan: Confined,
        *,
        timeout: float,  # noqa: ASYNC109  (the command's, not of this call)
        limits: Limits | None = None,
        pty: tuple[int, int] | None = None,
        input_open: bool = False,
    ) -> Process:
        """Start a command. ``pty`` is the size (rows, columns) of the terminal that it gets. ``timeout`` is in seconds.

        Raises:
            RunnerGone: there is no runner process, and none can be started now.
        """
        async with self._starting:
            await self._ready()
            process = Process(next(self._numbers), self)
            self._processes[process.number] = process
            watch = _watch(limits or Limits())
            order = {"plan": plan.to_json(), "pty": pty, "input": input_open, "timeout": timeout, "watch": watch}
            message = frames.packed_json(frames.START, process.number, order)
            if len(message) > frames.LONGEST:
                del self._processes[process.number]
                raise NotStarted("the command is too long", errno=7)
            self.send_frame(message)
        return process

    def send_frame(self, data: bytes) -> None:
        """Send a frame. Without a runner process it is lost, as the command that it is meant for is."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)

    async def close(self) -> None:
        """End every command and the runner process."""
        self._closed = True
        for process in self._processes.values():
            process.kill(grace=ENDING / 2, reason="shutdown")
        running = [process.exit() for process in self._processes.values()]
        if running:
            await asyncio.wait([asyncio.ensure_future(_quietly(one)) for one in running], timeout=ENDING)
        await self._end()

    async def _ready(self) -> None:
        """See to it that there is a runner process. One that keeps dying is waited for a little longer each time."""
        if self._retiring is not None:
            self._retiring.cancel()
            self._retiring = None
        self._refuse_when_closed()
        if self._writer is not None:
            return
        if self._deaths > 1:
            due = self._died_at + min(MOST_WAIT, 0.25 * 2**self._deaths)
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            self._refuse_when_closed()
        ours, theirs = socket.socketpair()
        try:
            self._popen = subprocess.Popen(  # noqa: ASYNC220, S603 -- a vfork of one small program of ours, and of the thread that lives longest
                [sys.executable, "-I", "-S", str(PROGRAM), str(theirs.fileno()), str(os.getpid())],
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
            )
        except OSError as error:
            ours.close()
            self._died()
            raise RunnerGone(f"the process that runs commands cannot be started: {error}") from error
        finally:
            theirs.close()
        reader, self._writer = await asyncio.open_connection(sock=ours, limit=_READ)
        self._listening = asyncio.create_task(self._listen(reader, self._writer, self._popen), name="runner")
        if self._closed:
            self._writer.close()
        self._refuse_when_closed()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise RunnerGone("commands are no longer started, because the gateway is closing")

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, popen: subprocess.Popen[bytes]) -> None:
        """Hand out what the runner says, until it is gone."""
        unpacker = frames.Unpacker()
        try:
            while data := await reader.read(_READ):
                for frame in unpacker.feed(data):
                    self._dispatch(frame)
        except (OSError, frames.BrokenFrame) as error:
            log.warning("the runner process cannot be understood: %s", error)
        finally:
            writer.close()
            if self._writer is writer:
                self._lost()
            _reap(popen)

    def _dispatch(self, frame: Frame) -> None:
        process = self._processes.get(frame.job)
        if process is None:
            return
        process.take_frame(frame)
        if not process.running:
            del self._processes[frame.job]
            self._deaths = 0
            if not self._processes and not self._closed:
                self._retiring = asyncio.get_running_loop().call_later(self._idle, self._retire)

    def _retire(self) -> None:
        """End a runner process that has had nothing to do for a while: closing the socket does it."""
        if not self._processes and self._writer is not None:
            self._writer.close()
            self._popen = self._writer = None

    def _lost(self) -> None:
        """Record that the runner process is gone, and every command with it."""
        self._popen = self._writer = None
        if not self._closed:
            self._died()
            log.error("the process that runs commands died; %d commands were ended with it", len(self._processes))
        processes, self._processes = self._processes, {}
        for process in processes.values():
            process.over(Exit(reason="lost"))

    def _died(self) -> None:
        self._deaths += 1
        self._died_at = self._clock.monotonic()

    async def _end(self) -> None:
        if self._retiring is not None:
            self._retiring.cancel()
        if self._writer is not None:
            self._writer.close()
        if self._listening is not None:
            await asyncio.wait([self._listening], timeout=ENDING)
            self._listening.cancel()


def _reap(popen: subprocess.Popen[bytes]) -> None:
    """Take the exit status in a thread of its own; one that does not end is killed.

    Those of the event loop are few, and six runners that are slow to end would hold up every turn.
    """

    def wait() -> None:
        try:
            popen.wait(ENDING * 3)
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.wait()

    threading.Thread(target=wait, name="end of a runner", daemon=True).start()


async def _quietly(waiting: Any) -> None:
    with contextlib.suppress(HomebodyError):
        await waiting


def _watch(limits: Limits) -> Mapping[str, int]:
    """What all processes of a command together may use; where control groups hold it too, those are the first to act."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"processes": limits.processes, "memory": min(limits.memory_bytes, physical * 3 // 4)}
