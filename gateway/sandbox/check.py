"""Tries a confinement: puts decoys in place, runs the canaries as a command, and says what they saw."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import inspect
import json
import os
import pty
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from msgspec import Struct, field

from gateway.sandbox import canaries, restrict
from gateway.sandbox.protocol import SHORTAGES, Access, Confined, Request

_LONGEST = 60.0
"""Seconds that the canaries may take on a machine that is busy with other things."""

Confine = Callable[[Request], Awaitable[Confined]]


class Findings(Struct, frozen=True, kw_only=True):
    """What the canaries saw, by their names; "" is nothing. ``error`` says why they could not be run at all.

    ``short``: they could not because the system was short of descriptors, memory or processes.
    """

    seen: dict[str, str] = field(default_factory=dict)
    error: str = ""
    short: bool = False

    @property
    def holds(self) -> bool:
        """Whether they ran and saw nothing."""
        return not self.error and bool(self.seen) and not any(self.seen.values())


def interpreter() -> tuple[str, tuple[str, ...]]:
    """Return the real program of this Python, and the folders that it needs beside those of the system."""
    program = os.path.realpath(sys.executable)
    base = os.path.realpath(sys.base_prefix)
    return program, () if base == "/usr" or base.startswith("/usr/") else (base,)


async def check(
    confine: Confine | None,
    *,
    access: Access = "rw",
    network: bool = False,
    only: Sequence[str] = (),
    closed: Sequence[str] = (),
) -> Findings:
    """Run the canaries as ``confine`` says, or unconfined where it is None, which shows what each of them is able to see.

    ``only`` names some of them. ``closed`` are real folders that must not be seen.
    """
    try:
        with Decoys() as decoys:
            decoys.given |= {"access": access, "network": network, "only": list(only), "closed": list(closed)}
            return await _tried(confine, decoys)
    except OSError as error:
        return Findings(error=f"the trial could not be prepared: {error}", short=error.errno in SHORTAGES)


async def _tried(confine: Confine | None, decoys: Decoys) -> Findings:
    given = decoys.given
    program, base = interpreter()
    place = given["workspace"]
    given["ways"] = [place, *base]
    argv = (program, "-I", "-S", "-c", inspect.getsource(canaries), json.dumps(given | {"mark": given["mark"][::-1]}))
    request = Request(
        argv=argv, cwd=place, workspace=place, agent="", access=given["access"], network=given["network"], pty=True
    )
    found = await _run(await confine(request) if confine else None, argv, given)
    if "udp" in found.seen and decoys.arrived():
        found.seen["udp"] = "a datagram arrived"
    return found


class Decoys:
    """Files, sockets, memory and a process that a confined command must not reach. ``given`` says where they are."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self.given: dict[str, Any] = {"token": secrets.token_hex(16), "mark": f"mark-{secrets.token_hex(8)}"}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            root = os.path.realpath(tempfile.mkdtemp(prefix="homebody-check-"))
            stack.callback(shutil.rmtree, root, ignore_errors=True)
            self._files(root)
            self._sockets(root, stack)
            self._memory(stack)
            self._process(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def arrived(self) -> bool:
        """Whether a datagram of a canary has come."""
        with contextlib.suppress(BlockingIOError):
            return self.given["token"].encode() in self._datagrams.recv(1024)
        return False

    def _files(self, root: str) -> None:
        for name in ("home", "state", "other", "workspace"):
            os.mkdir(f"{root}/{name}", 0o700)
            with open(f"{root}/{name}/secret", "w", encoding="utf-8") as file:
                file.write(self.given["token"])
            self.given[name] = f"{root}/{name}/secret"
        self.given |= {"workspace": f"{root}/workspace", "link": f"{root}/workspace/link"}
        os.symlink(self.given["home"], self.given["link"])

    def _sockets(self, root: str, stack: contextlib.ExitStack) -> None:
        abstract = f"homebody-check-{secrets.token_hex(8)}"
        self.given |= {"socket": f"{root}/state/gateway.sock", "datagram": f"{root}/home/datagram", "abstract": abstract}
        unix, stream, datagram = socket.AF_UNIX, socket.SOCK_STREAM, socket.SOCK_DGRAM
        addresses = [
            (unix, stream, self.given["socket"]),
            (unix, datagram, self.given["datagram"]),
            (unix, stream, "\0" + abstract),
        ]
        for family, kind, address in (
            *addresses,
            (socket.AF_INET, stream, ("127.0.0.1", 0)),
            (socket.AF_INET, datagram, ("127.0.0.1", 0)),
        ):
            made = stack.enter_context(socket.socket(family, kind))
            made.bind(address)
            made.settimeout(0)
            if kind == stream:
                made.listen(8)
            if family == socket.AF_INET:
                self.given["tcp" if kind == stream else "udp"] = made.getsockname()[1]
        self._datagrams = made

    def _memory(self, stack: contextlib.ExitStack) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        key = secrets.randbits(30) + 1
        segment = libc.shmget(key, 4096, 0o1600)
        self.given["shared"] = key
        if segment >= 0:
            stack.callback(libc.shmctl, segment, 0, None)

    def _process(self, stack: contextlib.ExitStack) -> None:
        env = {"CANARY_API_KEY": self.given["token"]}
        argv = ("/bin/sh", "-c", "read line", self.given["mark"])
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, env=env, stdout=subprocess.DEVNULL)  # noqa: S603
        stack.callback(process.wait)
        stack.callback(process.kill)
        self.given["process"] = process.pid
        assert process.stdin is not None
        stack.callback(process.stdin.close)


async def _run(plan: Confined | None, argv: Sequence[str], given: dict[str, Any]) -> Findings:
    """Run them with a terminal as standard input, an open file that is not theirs, and a variable in the environment before it."""
    opened: list[int] = []
    try:
        opened += os.pipe()
        opened += pty.openpty()
        opened.append(os.open(given["home"], os.O_RDONLY))
    except OSError:
        for number in opened:
            os.close(number)
        raise
    reading, writing, master, slave, leak = opened
    start = (sys.executable, "-I", "-S", restrict.__file__, str(reading)) if plan else tuple(argv)
    if plan is None or plan.rung != "bwrap":  # inside bwrap the command takes the terminal itself
        start = ("/usr/bin/setsid", "-c", *start)
    try:
        process = await asyncio.create_subprocess_exec(
            *start,
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"CANARY_API_KEY": given["token"]},
            pass_fds=(reading, leak),
            start_new_session=plan is not None and plan.rung == "bwrap",
            cwd="/",
        )
    except OSError as error:
        os.close(writing)
        os.close(master)
        return Findings(error=str(error), short=error.errno in SHORTAGES)
    finally:
        for number in (reading, slave, leak):
            os.close(number)
    try:
        await asyncio.to_thread(_write, writing, json.dumps(plan.to_json()).encode() if plan else b"")
        async with asyncio.timeout(_LONGEST):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return Findings(error=f"a command did not end within {_LONGEST:.0f} s")
    finally:
        os.close(master)
    return _read(process.returncode or 0, out, err)


def _read(code: int, out: bytes, err: bytes) -> Findings:
    try:
        return Findings(seen=json.loads(out))
    except ValueError:
        lines = err.decode("utf-8", "replace").strip().splitlines()
        return Findings(error=lines[-1][:300] if lines else f"a command ended with {code} and said nothing")


def _write(number: int, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), os.fdopen(number, "wb") as pipe:
        pipe.write(data)
