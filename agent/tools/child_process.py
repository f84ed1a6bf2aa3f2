"""Helper processes of tools: given all their input at once, and ended when nobody waits for the answer any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

Spawn: TypeAlias = "Callable[..., Awaitable[asyncio.subprocess.Process]]"
"""Starts a process, as ``asyncio.create_subprocess_exec`` does."""


async def answer_of(process: asyncio.subprocess.Process, order: bytes) -> tuple[bytes, int | None]:
    """Write ``order`` to a process, and return what it printed and its exit code. It is killed where this is cancelled."""
    try:
        printed, _ = await process.communicate(order)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return printed, process.returncode
