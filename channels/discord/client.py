"""The client library, pointed at the settings' addresses. Importing this module loads the library."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import discord
from discord.http import HTTPClient, Route

from channels.discord.refusals import NO_TOKEN, no_intent, wrong_token
from channels.discord.settings import OFFICIAL

if TYPE_CHECKING:
    from collections.abc import Callable

    import aiohttp

    from channels.discord.settings import DiscordAccount


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
    """One bot's connection. ``heard`` is given every event as Discord sent it: its name, content and number, in order."""

    def __init__(self, settings: DiscordAccount, heard: Callable[[str, dict[str, Any], int], None]) -> None:
        self._account = settings
        self._heard = heard
        intents = discord.Intents(
            guilds=True,
            guild_messages=True,
            dm_messages=True,
            guild_reactions=True,
            dm_reactions=True,
            message_content=True,
        )
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
        """Make the library's state upon our HTTP client; it asks for one while it is being set up.

        It is to keep none of what happens: we read events ourselves, and one that the library cannot read must not end the connection.
        """
        http = RootedHttp(self.http.loop, unsync_clock=False, max_ratelimit_timeout=30.0)
        http.root, http.gateway = self._account.api_root, self._account.gateway_url
        self.http = http
        state: Any = super()._get_state(**options)
        state.parsers = {event: state.parsers[event] for event in ("READY", "RESUMED")}
        return state

    @property
    def me(self) -> str:
        """The bot's own id."""
        return str(self.user.id) if self.user is not None else ""

    async def on_socket_raw_receive(self, message: str | bytes) -> None:
        """Pass an event on. The library calls this for each in turn."""
        event = json.loads(message)
        self._heard(event.get("t") or "", event.get("d") or {}, event.get("s") or 0)

    async def on_error(self, event_method: str, /, *_: Any, **__: Any) -> None:
        """Let a defect in handling an event be seen by ``heard``'s owner, not on the error stream."""
        self._heard("ERROR", {"in": event_method}, 0)

    async def answer(self, interaction: dict[str, Any], answer: dict[str, Any]) -> None:
        """Answer a command or a press, which Discord waits for. Raises one of ``TROUBLE``."""
        route = Route("POST", "/interactions/{identity}/{key}/callback", identity=interaction["id"], key=interaction["token"])
        await self.http.request(route, json=answer)

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
            if error.code == NO_TOKEN:
                raise wrong_token(self._account) from error
            raise
