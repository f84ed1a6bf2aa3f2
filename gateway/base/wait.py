"""Waiting for something to happen, but no longer than so long by the house's clock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable


class Sleeper(Protocol):
    """A clock, as far as it is needed here."""

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Wait."""
        ...


async def wait_until_set(event: asyncio.Event, clock: Sleeper, seconds: float) -> bool:
    """Wait until ``event`` is set, for at most ``seconds`` by ``clock``; say whether it is then."""
    waits = [asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(event.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return event.is_set()
