"""Waiting longer each time, and not all houses at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.clock import Clock
    from channels.log import Log

FIRST = 1.0
LONGEST = 60.0


class Pauses:
    """The pauses between attempts that fail in a row."""

    def __init__(self, clock: Clock, random: Callable[[], float], log: Log, account: str) -> None:
        self._clock = clock
        self._random = random
        self._log = log
        self._account = account
        self._failures = 0

    def over(self) -> None:
        """An attempt succeeded."""
        self._failures = 0

    async def wait(self, event: str, error: str) -> None:
        """Say what failed, and wait."""
        longest = min(LONGEST, FIRST * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        pause = longest * (0.5 + self._random() / 2)
        self._log.warning(event, error=error, pause=round(pause, 1), account=self._account)
        await self._clock.sleep(pause)
