"""Helper processes of tools: given all their input at once, and ended when nobody waits for the answer any more."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

Spawn: TypeAlias = "Callable[..., Awaitable[asyncio.subprocess.Process]]"
"""Starts a process, as ``asyncio.create_subprocess_exec`` does."""
KEPT: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables without which some builds of Python do not start."""
_ROOT: Final = Path(__file__).parents[2]


async def answer_of_module(spawn: Spawn, module: str, order: bytes) -> tuple[bytes, int | None]:
    """Call ``main(stdin, stdout)`` of a module in a Python of its own, which has none of our environment; return as ``answer_of`` does."""
    pipe = asyncio.subprocess.PIPE
    program = f"import sys; sys.path.insert(0, sys.argv[1]); from {module} import main; main(sys.stdin.buffer, sys.stdout)"
    process = await spawn(
        *(sys.executable, "-I", "-c", program, str(_ROOT)),
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in KEPT if name in os.environ},
        cwd="/",
    )
    return await answer_of(process, order)


async def answer_of(process: asyncio.subprocess.Process, order: bytes) -> tuple[bytes, int | None]:
    """Write ``order`` to a process, and return what it printed and its exit code. It is killed where this is cancelled."""
    try:
        printed, _ = await process.communicate(order)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return printed, process.returncode
