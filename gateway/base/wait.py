"""Waiting: for an event with a time-out, and for work that a cancellation must not interrupt."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Coroutine
from typing import Any, Protocol, TypeVar


class Sleeper(Protocol):
    """The part of a clock that is needed here."""

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Wait."""
        ...


async def wait_until_set(event: asyncio.Event, clock: Sleeper, seconds: float) -> bool:
    """Wait until ``event`` is set, for at most ``seconds`` by ``clock``; return whether it is set."""
    waits = [asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(event.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return event.is_set()


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


async def run_despite_cancel(work: Coroutine[Any, Any, object]) -> None:
    """Finish ``work`` although the caller was cancelled; the caller then raises its own cancellation."""
    task = asyncio.ensure_future(work)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.shield(task)
    await asyncio.wait([task])
    task.result()
