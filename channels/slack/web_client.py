"""Makes the Web API client for the address in the settings, and keeps its calls within Slack's rate limits.

Slack limits each method of an app, and posting in each channel besides (https://docs.slack.dev/apis/web-api/rate-limits): after a 429 no
call of that kind is made before the wait is over. Importing this module loads the library.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.web.async_client import AsyncWebClient

from channels.errors import NotSent
from channels.protocol import Clock
from channels.slack.api_errors import refusal, waiting
from channels.slack.settings import SlackAccount

if TYPE_CHECKING:
    import asyncio


def make_session(settings: SlackAccount) -> aiohttp.ClientSession:
    """Return a session in which a call ends after ``timeoutSeconds``: the library applies its own time-out to no session it is given."""
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=max(1, round(settings.timeout_seconds))))


def make_web(settings: SlackAccount, session: aiohttp.ClientSession) -> AsyncWebClient:
    """Return a client of the Web API. It does not retry by itself: a retried message would be sent twice.

    Raises:
        ChannelBroken: there is no token.
    """
    return AsyncWebClient(
        token=settings.secret("bot_token"),
        base_url=f"{settings.api_root}/",
        timeout=max(1, round(settings.timeout_seconds)),
        session=session,
        retry_handlers=[],
    )


class SocketConnection(SocketModeClient):
    """The library's connection for events. ``broken`` is called when the token is not accepted, which the library would retry for ever."""

    def __init__(self, settings: SlackAccount, web: AsyncWebClient, broken: asyncio.Future[None]) -> None:
        quiet = logging.getLogger("slack_sdk.socket_mode")
        super().__init__(
            app_token=settings.secret("app_token"), web_client=web, ping_interval=settings.ping_seconds, logger=quiet
        )
        self._broken = broken
        self._account = settings

    async def issue_new_wss_url(self) -> str:
        """Ask for an address to connect to."""
        try:
            answer: Any = await super().issue_new_wss_url()
        except SlackApiError as error:
            refused = refusal(error, self._account, "app_token")
            if refused is not None and not self._broken.done():
                self._broken.set_exception(refused)
            raise
        return str(answer)


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
        """Make a call of the Web API, after the wait that Slack requested at the last one.

        Raises:
            NotSent: the wait is longer than a minute, or the call is best effort (``for_show``).
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
