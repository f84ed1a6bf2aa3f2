"""What the tests of the runner share: plans without confinement, and a look at the processes of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.sandbox.protocol import Confined

if TYPE_CHECKING:
    from gateway.runner.runner_client import Exit, Process, Runner

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
_numbers = itertools.count(os.getpid() % 10_000 * 1000)


def plan(*argv: str, cwd: str = "/tmp", env: dict[str, str] | None = None, **more: Any) -> Confined:  # noqa: S108
    return Confined(rung="off", argv=argv, env=ENV if env is None else env, cwd=cwd, **more)


def sh(text: str, **more: Any) -> Confined:
    return plan("/bin/bash", "-c", text, **more)


def mark() -> str:
    """Return a duration for ``sleep`` that only one test uses, so that its processes are found by it."""
    return f"{100_000 + next(_numbers)}.5"


def alive(marker: str) -> list[str]:
    """Return the command lines of all processes of this machine that name the marker."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if marker in line and "State:\tZ" not in (folder / "status").read_text():
                    found.append(f"{folder.name}: {line}")
    return found


async def until(condition: Any, seconds: float = 60.0) -> None:
    """Wait until something holds; the time is for machines under load."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to hold"
        await asyncio.sleep(0.01)


def soon(seconds: float) -> float:
    """Return a bound on wall time: ``seconds`` on an idle machine, and as much again for each process that waits for a core."""
    return seconds * (1 + max(os.getloadavg()[0], 0.0) / (os.cpu_count() or 1))


async def output(process: Process) -> bytes:
    return b"".join([chunk async for chunk in process.chunks()])


async def ran(runner: Runner, given: Confined, **more: Any) -> tuple[bytes, Exit]:
    process = await runner.start(given, **{"timeout": 120.0, **more})
    printed = await output(process)
    return printed, await process.exit()
