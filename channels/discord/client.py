"""The client library, pointed at the settings' addresses, and what its errors mean. Importing this module loads the library."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import discord
from discord.http import HTTPClient, Route

from channels.discord.settings import OFFICIAL
from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.discord.settings import DiscordAccount

PORTAL = "https://discord.com/developers/applications"
_NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
_TOO_MANY = 429
_UNAUTHORISED = 401
_SERVER = 500
_NO_TOKEN = 4004
_NO_INTENT = 4014


class RootedHttp(HTTPClient):
    """The library's HTTP client at another address; the library itself knows one for all bots of a process."""

    root = OFFICIAL
    gateway: str | None = None

    async def request(self, route: Route, **arguments: Any) -> Any:
        """Make a request."""
        route.url = self.root + route.url.removeprefix(Route.BASE)
        return await super().request(route, **arguments)

    async def ws_connect(self, url: str, **arguments: Any) -> aiohttp.ClientWebSocketResponse:
        """Open the gateway, always by way of the address that the settings name."""
        if self.gateway is not None:
            url = f"{self.gateway}?{urlsplit(url).query}"
        return await super().ws_connect(url, **arguments)


class Link(discord.Client):
    """One bot's connection. ``heard`` is given every event as Discord sent it: its name and content, in order."""

    def __init__(self, settings: DiscordAccount, heard: Callable[[str, dict[str, Any]], None]) -> None:
        self._account = settings
        self._heard = heard
        intents = discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True)
        super().__init__(
            intents=intents,
            enable_debug_events=True,  # the library's way to hand events out as they came
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            max_ratelimit_timeout=30.0,
            allowed_mentions=discord.AllowedMentions.none(),
        )

    def _get_state(self, **options: Any) -> Any:
        """Make the library's state upon our HTTP client; it asks for one while it is being set up."""
        http = RootedHttp(self.http.loop, unsync_clock=False, max_ratelimit_timeout=30.0)
        http.root, http.gateway = self._account.api_root, self._account.gateway_url
        self.http = http
        return super()._get_state(**options)

    @property
    def me(self) -> str:
        """The bot's own id."""
        return str(self.user.id) if self.user is not None else ""

    async def on_socket_raw_receive(self, message: str | bytes) -> None:
        """Pass an event on. The library calls this for each in turn."""
        event = json.loads(message)
        self._heard(event.get("t") or "", event.get("d") or {})

    async def on_error(self, event_method: str, /, *_: Any, **__: Any) -> None:
        """Let a defect in handling an event be seen by ``heard``'s owner, not on the error stream."""
        self._heard("ERROR", {"in": event_method})

    async def sign_in(self) -> None:
        """Learn who the bot is, which also opens the way for requests.

        Raises:
            ChannelBroken: the token is not accepted.
        """
        try:
            await self.login(self._account.secret())
        except discord.LoginFailure as error:
            raise wrong_token(self._account) from error

    async def listen(self) -> None:
        """Keep the gateway open until closed; the library resumes and reconnects by itself.

        Raises:
            ChannelBroken: Discord refuses the token, or an intent that is switched off in its portal.
        """
        try:
            await self.connect()
        except discord.PrivilegedIntentsRequired as error:
            raise no_intent() from error
        except discord.ConnectionClosed as error:
            if error.code == _NO_TOKEN:
                raise wrong_token(self._account) from error
            raise


TROUBLE = (discord.DiscordException, aiohttp.ClientError, OSError, asyncio.TimeoutError)
"""What passing trouble looks like; the library lets those of its transport through."""


def wrong_token(settings: DiscordAccount) -> ChannelBroken:
    """Return the error for a token that the server does not know."""
    where = "" if settings.api_root == OFFICIAL else f" at {settings.api_root}"
    return ChannelBroken(
        f"the token in channels.discord is not accepted{where}",
        mend=f"make a new one ({PORTAL}, your application, Bot, Reset Token), then: homebody config set channels.discord.token TOKEN",
    )


def no_intent() -> ChannelBroken:
    """Return the error for a bot that may not read what is written."""
    return ChannelBroken(
        "Discord does not let this bot read messages: the Message Content Intent is off",
        mend=f"switch it on ({PORTAL}, your application, Bot, Privileged Gateway Intents), then start the gateway again",
    )


def send_error(error: BaseException) -> ChannelError:
    """Return what a failed send means: surely without effect, or uncertain."""
    if isinstance(error, discord.RateLimited):
        return NotSent("Discord asks to wait", retry_after=error.retry_after)
    if isinstance(error, discord.HTTPException):
        text = f"Discord: {error.status} {error.text[:200]}"
        if error.status == _TOO_MANY:
            wait = error.response.headers.get("Retry-After", "")
            return NotSent(text, retry_after=float(wait) if wait.replace(".", "", 1).isdigit() else None)
        if error.status == _UNAUTHORISED:
            return NotSent(text)
        return Uncertain(text) if error.status >= _SERVER else NotSent(text, permanent=True)
    if isinstance(error, _NOT_CONNECTED):
        return NotSent("Discord cannot be reached")
    return Uncertain(f"Discord: {str(error) or type(error).__name__}")
