"""Keeps Web API calls within Slack's rate limits: after a 429 no call of that kind is made before the wait is over.

Slack limits each method of an app, and posting in each channel besides. https://docs.slack.dev/apis/web-api/rate-limits
Importing this module loads the library.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from slack_sdk.errors import SlackApiError

from channels.errors import NotSent
from channels.protocol import Clock
from channels.slack.api_errors import waiting

LONGEST_WAIT = 60.0
"""A wait that is longer is left to the gateway, which can do something else meanwhile."""
MOST = 200
T = TypeVar("T")


class RateLimit:
    """The waits of one app that are not over, by method and channel."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[tuple[str, str], float] = {}

    async def call(self, method: str, place: str, calling: Callable[[], Awaitable[T]], *, for_show: bool = False) -> T:
        """Make a call of the Web API, after the wait that the last one was told.

        Raises:
            NotSent: the wait is longer than a minute, or the call is ``for_show`` alone, which no one waits for.
            SlackApiError: as the call itself.
        """
        left = self._until.get((method, place), 0.0) - self._clock.monotonic()
        if left > 0:
            if for_show or left > LONGEST_WAIT:
                raise NotSent(f"Slack asked to wait {left:.0f} s more ({method})", retry_after=left)
            await self._clock.sleep(left)
        try:
            return await calling()
        except SlackApiError as error:
            wait = waiting(error)
            if wait is not None:
                self._note(method, place, wait)
            raise

    def _note(self, method: str, place: str, wait: float) -> None:
        now = self._clock.monotonic()
        if len(self._until) >= MOST:
            self._until = {key: until for key, until in self._until.items() if until > now}
        self._until[method, place] = now + wait
