"""Exponential backoff with jitter, and what is tried until it works."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from channels.common.log import Log
from channels.protocol import Clock

FIRST = 1.0
LONGEST = 60.0
MOST = 10
NOT_STORED = "messages could not be stored, and are offered again"


class Backoff:
    """The delays between attempts: 1 s, doubled after each failure, up to ``longest`` seconds, times 0.5 to 1. ``random`` gives 0 to 1."""

    def __init__(self, clock: Clock, random: Callable[[], float], log: Log, account: str, *, longest: float = LONGEST) -> None:
        self._longest = longest
        self._clock = clock
        self._random = random
        self._log = log
        self._account = account
        self.failures = 0
        """In a row, up to ``MOST``."""

    def over(self) -> None:
        """Reset after a success: the next delay is the shortest again."""
        self.failures = 0

    async def wait(self, event: str, error: str) -> None:
        """Log the failure and the delay, and wait."""
        pause = min(self._longest, FIRST * 2**self.failures) * (0.5 + self._random() / 2)
        self.failures = min(self.failures + 1, MOST)
        self._log.warning(event, error=error, pause=round(pause, 1), account=self._account)
        await self._clock.sleep(pause)

    async def until_stored(self, store: Callable[[], Awaitable[None]]) -> None:
        """Call ``store`` until it raises nothing: whatever hinders the gateway, messages of a platform must not be lost."""
        while True:
            try:
                await store()
            except Exception as error:  # noqa: BLE001  (see above; it is logged)
                await self.wait(NOT_STORED, str(error) or type(error).__name__)
            else:
                self.over()
                return
