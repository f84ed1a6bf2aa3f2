"""The stdio transport: runs a server as a program and exchanges lines of JSON with it. Loads the MCP library.

The SDK's own transport inherits variables of the gateway's environment, keeps a line of any length in memory, and logs each line that is
no message. This one gives the program the environment that it is told, and ends one that breaks the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from gateway.mcp.errors import ServerFailed
from gateway.mcp.message_rate import MessageRate
from gateway.sandbox import restrict

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

LONGEST_LINE: Final = 8 * 1024 * 1024
"""Bytes of one message. A server that sends a longer one is ended."""
MOST_GARBAGE: Final = 1000
"""Lines that are no messages, after which a server is ended."""
_KEPT_ERRORS: Final = 4000
"""Bytes of the end of what a program says on stderr, for the error text."""
_SLOW_TO_PARSE: Final = 64 * 1024
"""Lines from this length on are parsed in a thread."""
_CLOSING_SECONDS: Final = 0.7
_TERM_SECONDS: Final = 0.7
_POLL: Final = 0.01
_SETPRIV: Final = "/usr/bin/setpriv"
"""Ends the program when the gateway dies without a word, where it is installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program to run. ``env`` is its whole environment. ``plan`` confines it, as ``gateway/sandbox/restrict.py`` does."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    plan: str = ""


class Ending:
    """Why a connection ended, as far as its transport knows. ``died`` is set when the server is no longer there."""

    def __init__(self) -> None:
        self.died = asyncio.Event()
        self.reason = ""
        self.errors = b""

    def because(self, reason: str) -> None:
        """Say that the server is gone. The first reason counts."""
        self.reason = self.reason or reason
        self.died.set()

    @property
    def in_words(self) -> str:
        """The reason for people, with the last line that the program printed as an error."""
        lines = self.errors.decode("utf-8", "replace").strip().splitlines()
        return self.reason + (f" (it printed: {' '.join(lines[-1].split())[:300]})" if lines else "")


@asynccontextmanager
async def stdio_streams(
    program: Program, ending: Ending
) -> AsyncIterator[tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]]:
    """Run a program and yield the streams of its messages. It is ended, with all that it started, when the context is left.

    Raises:
        ServerFailed: it cannot be started.
    """
    process = await _started(program)
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_send, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read, process, incoming, ending)
            group.start_soon(_write, process, outgoing, ending)
            group.start_soon(_keep_errors, process, ending)
            try:
                yield received, to_send
            finally:
                with anyio.CancelScope(shield=True):
                    for stream in (received, to_send):
                        stream.close()
                    await _end(process)
                group.cancel_scope.cancel()
    finally:  # also where the task was cancelled in the midst of ending it
        _signal(process, signal.SIGKILL)
        for stream in (incoming, received, to_send, outgoing):
            stream.close()


async def _started(program: Program) -> asyncio.subprocess.Process:
    found = shutil.which(program.argv[0], path=program.env.get("PATH", ""))
    if found is None:
        raise ServerFailed(
            f"there is no program {program.argv[0]!r} in {program.env.get('PATH', '')}",
            hint="Install it, or give its full path as `command`.",
        )
    bound = (_SETPRIV, "--pdeathsig", "KILL", "--") if os.access(_SETPRIV, os.X_OK) else ()
    pipe = asyncio.subprocess.PIPE
    try:
        with _readable(program.plan) as plan:
            confined = (sys.executable, "-I", "-S", restrict.__file__, str(plan))
            return await asyncio.create_subprocess_exec(
                *bound,
                *(confined if program.plan else (found, *program.argv[1:])),
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env={} if program.plan else dict(program.env),
                cwd=program.cwd,
                start_new_session=True,
                pass_fds=(plan,) if program.plan else (),
                limit=LONGEST_LINE,
            )
    except (OSError, ValueError) as error:
        raise ServerFailed(f"{program.argv[0]} cannot be started in {program.cwd}: {error}") from error


@contextmanager
def _readable(plan: str) -> Iterator[int]:
    """Yield a descriptor from which a text can be read: it is in no argument and no variable, which others could see."""
    descriptor = os.memfd_create("plan")
    try:
        os.write(descriptor, plan.encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


async def _read(
    process: asyncio.subprocess.Process,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    ending: Ending,
) -> None:
    """Pass the messages on until the program ends, or breaks the protocol; then read to the end, so that the pipe can be closed."""
    assert process.stdout is not None
    await _pass_on(process, process.stdout, incoming, ending)
    with contextlib.suppress(OSError):
        while await process.stdout.read(65_536):
            pass


async def _pass_on(
    process: asyncio.subprocess.Process,
    stdout: asyncio.StreamReader,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    ending: Ending,
) -> None:
    rate, garbage = MessageRate(), 0
    async with incoming:  # closed last: who waits for an answer is told the reason then
        try:
            while garbage < MOST_GARBAGE:
                line = (await stdout.readuntil(b"\n")).strip()
                if not line:
                    continue
                await rate.wait()
                message = await _parsed(line)
                if message is None:
                    garbage += 1
                else:
                    await incoming.send(message)
            ending.because(f"it printed {garbage:,} lines that are no MCP messages")
        except asyncio.LimitOverrunError:
            ending.because(f"it sent a message of more than {LONGEST_LINE:,} bytes")
        except asyncio.IncompleteReadError:
            await _exited(process, ending)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            ending.because("the connection was closed")


async def _exited(process: asyncio.subprocess.Process, ending: Ending) -> None:
    with anyio.move_on_after(_CLOSING_SECONDS):
        await process.wait()
    code = process.returncode
    how = (
        "closed its output" if code is None else f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
    )
    ending.because(f"it {how}")


async def _parsed(line: bytes) -> SessionMessage | None:
    try:
        if len(line) < _SLOW_TO_PARSE:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        return SessionMessage(await asyncio.to_thread(jsonrpc_message_adapter.validate_json, line, by_name=False))
    except ValueError:
        return None


async def _write(
    process: asyncio.subprocess.Process, outgoing: MemoryObjectReceiveStream[SessionMessage], ending: Ending
) -> None:
    assert process.stdin is not None
    try:
        async with outgoing:
            async for sent in outgoing:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
    except (OSError, anyio.ClosedResourceError):
        ending.because("it closed its input")


async def _keep_errors(process: asyncio.subprocess.Process, ending: Ending) -> None:
    assert process.stderr is not None
    with contextlib.suppress(OSError):
        while block := await process.stderr.read(65_536):
            ending.errors = (ending.errors + block)[-_KEPT_ERRORS:]


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close its input, then ask it to end, then end it with all that it started. Takes two seconds at most."""
    if process.stdin is not None:
        process.stdin.close()
    if await _gone(process, _CLOSING_SECONDS):
        return
    _signal(process, signal.SIGTERM)
    await _gone(process, _TERM_SECONDS)
    _signal(process, signal.SIGKILL)
    await _gone(process, _TERM_SECONDS)


async def _gone(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Wait for its end, and not, as ``process.wait`` does, for all who have inherited its pipes."""
    for _ in range(int(seconds / _POLL)):
        if process.returncode is not None:
            break
        await anyio.sleep(_POLL)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, what: signal.Signals) -> None:
    """Send a signal to the program's process group, which also holds what it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, what)
