"""Work that a cancellation must not tear apart: it is finished first, and the cancellation counts from then on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

Result = TypeVar("Result")


async def finish_despite_cancel(work: Coroutine[Any, Any, Result]) -> Result:
    """Return what ``work`` comes to. A cancellation in its midst is raised at the caller's next step, when the result is in good hands."""
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
    """Finish ``work`` although the caller was cancelled; the caller goes on to raise its own cancellation."""
    task = asyncio.ensure_future(work)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.shield(task)
    await asyncio.wait([task])
    task.result()
