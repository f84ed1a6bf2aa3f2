"""Shields work from cancellation: the work is finished first, then the cancellation takes effect."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def finish_despite_cancel(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of ``work``. If the caller is cancelled meanwhile, CancelledError is raised at its next await."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        result = task.result()
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        return result


async def run_despite_cancel(work: Coroutine[Any, Any, None]) -> None:
    """Finish ``work`` although the caller was cancelled; the caller then raises its own cancellation."""
    task = asyncio.ensure_future(work)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.shield(task)
    await asyncio.wait([task])
    task.result()
