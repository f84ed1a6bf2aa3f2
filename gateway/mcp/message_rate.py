"""Bounds how many messages of a server are looked at in a time: one that floods is read slowly, and its pipe fills."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

PER_SECOND: Final = 200.0
BURST: Final = 1000.0


class MessageRate:
    """Lets ``BURST`` messages through at once, and ``PER_SECOND`` after that."""

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._left = BURST
        self._at = monotonic()

    async def wait(self) -> None:
        """Wait until one more message may be looked at. Lets other tasks run in any case where messages come thick and fast."""
        now = self._monotonic()
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND) - 1
        self._at = now
        if self._left < 0:
            await self._sleep(-self._left / PER_SECOND)
