"""Waits for an event with a time-out by a given clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol


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
