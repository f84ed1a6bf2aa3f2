"""The client library, pointed at the settings' address, and what its errors mean. Importing this module loads the library."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.web.async_client import AsyncWebClient

from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain
from channels.slack.settings import APPS, OFFICIAL, TOKENS

if TYPE_CHECKING:
    from typing import Literal

    from channels.slack.settings import SlackAccount

TROUBLE = (SlackClientError, aiohttp.ClientError, OSError, asyncio.TimeoutError)
"""What passing trouble looks like; the library lets those of its transport through."""
NO_SCOPE = "missing_scope"
_TOKEN = {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type"}
_SLACKS_OWN = {"fatal_error", "internal_error", "service_unavailable", "request_timeout", "team_added_to_org"}
_TOO_MANY = 429
_SERVER = 500


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
    """The library's connection for events. ``broken`` tells of a token that is not accepted (any more), which it would try for ever."""

    def __init__(self, settings: SlackAccount, web: AsyncWebClient) -> None:
        quiet = logging.getLogger("slack_sdk.socket_mode")
        super().__init__(
            app_token=settings.secret("app_token"), web_client=web, ping_interval=settings.ping_seconds, logger=quiet
        )
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._account = settings

    async def issue_new_wss_url(self) -> str:
        """Ask for an address to connect to."""
        try:
            return await super().issue_new_wss_url()
        except SlackApiError as error:
            refused = refusal(error, self._account, "app_token")
            if refused is not None and not self.broken.done():
                self.broken.set_exception(refused)
            raise


def code_of(error: SlackApiError) -> str:
    """Return the word that Slack gives for an error, or an empty string."""
    data: Any = getattr(error.response, "data", error.response)
    return str(data.get("error") or "") if isinstance(data, dict) else ""


def refusal(error: SlackApiError, settings: SlackAccount, which: Literal["bot_token", "app_token"]) -> ChannelBroken | None:
    """Return what the owner must do about an error, or None when trying again can help."""
    code = code_of(error)
    key, _, where = TOKENS[which]
    at = "" if settings.api_root == OFFICIAL else f" at {settings.api_root}"
    if code in _TOKEN:
        return ChannelBroken(
            f"the token in channels.slack.{key} is not accepted{at} ({code})",
            mend=f"get it anew ({where}), then: homebody config set channels.slack.{key} TOKEN",
        )
    if code == NO_SCOPE:
        data: Any = getattr(error.response, "data", {})
        return ChannelBroken(
            f"the token in channels.slack.{key} lacks the scope {data.get('needed', '')}",
            mend=f"add it ({APPS}, your app, OAuth & Permissions, Scopes), and install the app anew",
        )
    return None


def send_error(error: BaseException) -> ChannelError:
    """Return what a failed send means: surely without effect, or uncertain."""
    if isinstance(error, SlackApiError):
        code = code_of(error)
        status: int = getattr(error.response, "status_code", None) or getattr(error.response, "status", None) or 0
        text = f"Slack: {code or status}"
        if status == _TOO_MANY or code == "ratelimited":
            wait = str(getattr(error.response, "headers", {}).get("Retry-After", ""))
            return NotSent(text, retry_after=float(wait) if wait.isdigit() else None)
        if code in _TOKEN or code == NO_SCOPE:
            return NotSent(text)
        return Uncertain(text) if status >= _SERVER or code in _SLACKS_OWN or not code else NotSent(text, permanent=True)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return NotSent("Slack cannot be reached")
    return Uncertain(f"Slack: {str(error) or type(error).__name__}")
