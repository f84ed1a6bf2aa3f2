"""Makes the Web API client for the address in the settings. Importing this module loads the library."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.web.async_client import AsyncWebClient

from channels.slack.api_errors import refusal
from channels.slack.settings import SlackAccount

if TYPE_CHECKING:
    import asyncio


def make_session(settings: SlackAccount) -> aiohttp.ClientSession:
    """Return a session in which a call ends after ``timeoutSeconds``: the library applies its own time-out to no session it is given."""
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=max(1, round(settings.timeout_seconds))))


def make_web(settings: SlackAccount, session: aiohttp.ClientSession) -> AsyncWebClient:
    """Return a client of the Web API. It repeats nothing by itself: a message repeated there would be said twice.

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


class Ear(SocketModeClient):
    """The library's connection for events. ``broken`` is told of a token that is not accepted (any more), which it would try for ever."""

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
