"""Starts Python programs as ``subprocess`` does, as forks of one process that has imported the product (``tests/fork_server.py``).

Importing the product is most of what a short command costs. ``run`` and ``start`` take a command such as
``[sys.executable, "-W", "ignore", "-m", "gateway", "status"]`` or ``[sys.executable, "script.py"]`` and make a process of its own of it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SERVER = Path(__file__).with_name("fork_server.py")
KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "VIRTUAL_ENV")
_lock = threading.Lock()
cpu_seconds = 0.0
"""CPU time of the programs that have ended."""


@functools.cache
def _server() -> socket.socket:
    """Start the process that forks; it ends when this one does."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    env = {name: os.environ[name] for name in KEPT if name in os.environ} | {"OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, SERVER, str(there.fileno())], env=env, pass_fds=[there.fileno()], cwd=SERVER.parents[1]
    )
    there.close()

    def end() -> None:
        here.close()
        process.wait()

    atexit.register(end)
    return here


class Program:
    """A program that runs: what is used of ``subprocess.Popen``. ``returncode`` is None until the end was seen."""

    def __init__(self, pid: int, report: int, args: Sequence[Any], pipes: Mapping[str, IO[Any] | None]) -> None:
        self.pid, self.args = pid, args
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = pipes["stdin"], pipes["stdout"], pipes["stderr"]
        self._report = report

    def poll(self) -> int | None:
        """Return the exit status as ``subprocess`` gives it, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = PATIENCE) -> int:
        """Wait for the end and return the exit status."""
        global cpu_seconds
        if self.returncode is None:
            waiting = select.poll()  # select() takes no descriptor above 1,023
            waiting.register(self._report, select.POLLIN)
            if not waiting.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired([str(one) for one in self.args], timeout or 0)
            with _lock:
                if self.returncode is None:
                    code, used = _line(self._report).split()
                    self.returncode, cpu_seconds = int(code), cpu_seconds + float(used)
                    os.close(self._report)
        return self.returncode

    def communicate(self, timeout: float | None = PATIENCE, *, input: Any = None) -> tuple[Any, Any]:  # noqa: A002
        """Give it its input and close that, read to the end of what it prints, wait for its end, and return what it printed."""
        said: dict[str, Any] = {"stdout": None, "stderr": None}
        streams = {name: stream for name in said if (stream := getattr(self, name))}

        def read(name: str) -> None:
            said[name] = streams[name].read()

        readers = [threading.Thread(target=read, args=(name,), daemon=True) for name in streams]
        for reader in readers:
            reader.start()
        if self.stdin and not self.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                if input is not None:
                    self.stdin.write(input)
                self.stdin.close()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        for stream in streams.values():
            stream.close()
        return said["stdout"], said["stderr"]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream:
                stream.close()
        self.wait()


def _line(descriptor: int) -> bytes:
    """Read to the end of a line; raises ``ConnectionError`` where there is none."""
    line = b""
    while not line.endswith(b"\n"):
        if not (byte := os.read(descriptor, 1)):
            raise ConnectionError(f"{SERVER.name} has ended")
        line += byte
    return line


def _parsed(args: Sequence[Any]) -> dict[str, Any]:
    """Split a command into Python's options and the program. Raises ``ValueError`` for options that only a new Python can heed."""
    words = [str(word) for word in args]
    if words[0] == sys.executable:
        del words[0]
    elif Path(words[0]).parent != Path(sys.executable).parent:  # where the command `homebody` is
        raise ValueError(f"not this Python: {words[0]}")
    warn = []
    while words[0] == "-W":
        warn.append(words[1])
        del words[:2]
    if words[:2] == ["-I", "-c"]:
        return {"warnings": warn, "program": words[1:]}
    if words[0] == "-m":
        return {"warnings": warn, "program": words}
    if words[0].startswith("-"):
        raise ValueError(f"start a real process for {words[0]}")
    return {"warnings": warn, "program": ["script", str(Path(words[0]).resolve()), *words[1:]]}


def start(
    args: Sequence[Any],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    stdin: Any = None,
    stdout: Any = None,
    stderr: Any = None,
    text: bool = False,
    start_new_session: bool = False,
) -> Program:
    """Start a program; the arguments are those of ``subprocess.Popen``."""
    if sys.platform != "linux":
        return subprocess.Popen(  # type: ignore[return-value]
            args, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr, text=text, start_new_session=start_new_session
        )
    asked = _parsed(args) | {
        "env": dict(os.environ if env is None else env),
        "cwd": str(Path(cwd or ".").resolve()),
        "umask": _umask(),
        "session": start_new_session,
    }
    handed_over: list[int] = []
    pipes: dict[str, IO[Any] | None] = {}
    with contextlib.ExitStack() as to_close:
        for number, (name, wanted) in enumerate({"stdin": stdin, "stdout": stdout, "stderr": stderr}.items()):
            pipes[name] = None
            if wanted == subprocess.PIPE:
                theirs, pipes[name] = _pipe(name, text=text)
                to_close.callback(os.close, theirs)
            elif wanted == subprocess.DEVNULL:
                theirs = os.open(os.devnull, os.O_RDWR)
                to_close.callback(os.close, theirs)
            elif wanted == subprocess.STDOUT:
                theirs = handed_over[1]
            elif wanted is None:
                theirs = number
            else:
                theirs = wanted if isinstance(wanted, int) else wanted.fileno()
            handed_over.append(theirs)
        report, theirs = os.pipe()
        to_close.callback(os.close, theirs)
        with _lock:
            socket.send_fds(_server(), [json.dumps(asked).encode()], [*handed_over, theirs])
    return Program(int(_line(report)), report, args, pipes)


def _pipe(name: str, *, text: bool) -> tuple[int, IO[Any]]:
    """Make a pipe; return the end of the program, and ours."""
    reading, writing = os.pipe()
    ours, theirs, mode = (writing, reading, "w") if name == "stdin" else (reading, writing, "r")
    return theirs, os.fdopen(ours, mode if text else f"{mode}b")


class Spawned:
    """A program as ``asyncio`` has it: what ``agent.tools.child_process`` uses of a process."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.pid = program.pid

    @property
    def returncode(self) -> int | None:
        return self._program.poll()

    async def communicate(self, order: bytes) -> tuple[bytes, bytes]:
        """Give it all its input; return what it printed."""
        return await asyncio.to_thread(self._program.communicate, input=order)

    async def wait(self) -> int:
        return await asyncio.to_thread(self._program.wait)

    def kill(self) -> None:
        self._program.kill()


async def spawn(*command: str, **how: Any) -> Spawned:
    """Start a program; the arguments are those of ``asyncio.create_subprocess_exec``."""
    return Spawned(start(command, **how))


def run(
    args: Sequence[Any],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    input: str | bytes | None = None,  # noqa: A002
    stdin: Any = None,
    stdout: Any = None,
    stderr: Any = None,
    capture_output: bool = False,
    text: bool = False,
    check: bool = False,
    timeout: float = PATIENCE,
) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end; the arguments are those of ``subprocess.run``. What it prints goes through files."""
    with contextlib.ExitStack() as files:

        def file() -> IO[bytes]:
            return files.enter_context(tempfile.TemporaryFile())

        if input is not None:
            stdin = file()
            stdin.write(input.encode() if isinstance(input, str) else input)
            stdin.seek(0)
        if capture_output:
            stdout = stderr = subprocess.PIPE
        out = file() if stdout == subprocess.PIPE else stdout
        err = file() if stderr == subprocess.PIPE else stderr
        program = start(args, env=env, cwd=cwd, stdin=stdin, stdout=out, stderr=err)
        try:
            code = program.wait(timeout)
        except BaseException:
            program.kill()
            program.wait()
            raise

        def said(wanted: Any, where: Any) -> Any:
            if wanted != subprocess.PIPE:
                return None
            where.seek(0)
            content = where.read()
            return content.decode().replace("\r\n", "\n") if text else content

        done = subprocess.CompletedProcess(list(args), code, said(stdout, out), said(stderr, err))
    if check:
        done.check_returncode()
    return done


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
