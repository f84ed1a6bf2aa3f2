"""The client library's gateway and REST client, at the addresses that the settings name. Importing this module loads the library."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import discord
from discord.gateway import DiscordWebSocket, ReconnectWebSocket
from discord.http import HTTPClient, Route

from channels.common.backoff import Backoff
from channels.common.event_guard import MALFORMED, whereabouts
from channels.common.json_answers import in_between, is_page
from channels.discord.api_errors import FOR_GOOD, TROUBLE, InBetween, closed_for_good, is_json, no_intent, wrong_token
from channels.discord.settings import DiscordAccount, DiscordPresence
from channels.protocol import Clock
from channels.waits import seconds_to_wait

LONGEST_WAIT = 30.0
"""A wait that is longer is left to the gateway, which can do something else meanwhile."""
MOST = 200
NO_JSON = "the answer was no JSON, as of a proxy or a captive portal"
_EVERYWHERE = "*"
_BANNED_SECONDS = 60.0
_UNTOLD_SECONDS = 5.0
_TOO_MANY = 429


class PatientHttp(HTTPClient):
    """Makes the requests of one connection. The library itself has one address for all bots of a process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, root: str, gateway: str | None, clock: Clock) -> None:
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(self._ended)
        super().__init__(loop, unsync_clock=False, max_ratelimit_timeout=LONGEST_WAIT, http_trace=trace)
        self.root = root
        self._gateway = gateway
        self._clock = clock
        self._until: dict[str, float] = {}

    async def request(self, route: Route, **arguments: Any) -> Any:
        """Make a request, or raise ``RateLimited`` without a request while a rate limit lasts.

        Raises ``ClientException`` for an answer that is not Discord's, ``InBetween`` where that is a refusal.
        """
        key = f"{route.key} {route.major_parameters}"
        left = max(self._until.get(one, 0.0) for one in (key, _EVERYWHERE)) - self._clock.monotonic()
        if left > 0:
            raise discord.RateLimited(left)
        route.url = self.root + route.url.removeprefix(Route.BASE)
        try:
            answer = await super().request(route, **arguments)
        except discord.RateLimited as error:
            raise self._limited(key, error.retry_after) from error
        except (KeyError, TypeError) as error:
            if isinstance(error, KeyError) and error.args != ("retry_after",):
                raise
            raise self._limited(key, None) from error  # the library reads the time of a 429 as it comes
        except discord.HTTPException as error:
            if not is_page(error.status) or is_json(error):
                raise
            raise InBetween(in_between("Discord", error.status)) from None
        except ValueError as error:
            raise discord.ClientException(NO_JSON) from error
        if isinstance(answer, str) and answer:  # the library hands on the text of whatever stands before Discord
            raise discord.ClientException(NO_JSON)
        return answer

    async def _ended(self, _session: object, _context: object, end: aiohttp.TraceRequestEndParams) -> None:
        """Detect errors that hold for every request: of the whole bot, or of this machine's address."""
        headers = end.response.headers
        if end.response.status != _TOO_MANY:
            return
        banned = "Via" not in headers
        wait = seconds_to_wait(headers.get("Retry-After"))
        seconds = _BANNED_SECONDS if wait is None else wait
        if banned or ("X-RateLimit-Global" in headers and seconds > LONGEST_WAIT):
            self._wait(_EVERYWHERE, seconds)

    def _limited(self, key: str, told: object) -> discord.RateLimited:
        """Remember a rate limit, and return the error of it."""
        wait = seconds_to_wait(told)
        seconds = _UNTOLD_SECONDS if wait is None else wait
        self._wait(key, seconds)
        return discord.RateLimited(seconds)

    def _wait(self, key: str, seconds: float) -> None:
        now = self._clock.monotonic()
        if len(self._until) >= MOST:
            self._until = {one: until for one, until in self._until.items() if until > now}
        self._until[key] = max(self._until.get(key, 0.0), now + seconds)

    async def ws_connect(self, url: str, **arguments: Any) -> aiohttp.ClientWebSocketResponse:
        """Open the gateway at the address in the settings."""
        if self._gateway is not None:
            url = f"{self._gateway}?{urlsplit(url).query}"
        return await super().ws_connect(url, **arguments)


def activity_of(presence: DiscordPresence) -> discord.BaseActivity | None:
    """Return what stands under the bot's name."""
    text = presence.activity.strip()
    if not text:
        return None
    if presence.kind == "custom":
        return discord.CustomActivity(name=text)
    return discord.Activity(type=discord.ActivityType[presence.kind], name=text)


BETWEEN_SESSIONS = 5.0
CONNECT_SECONDS = 60.0


class GatewayClient(discord.Client):
    """One bot's connection. ``heard`` is called with every event as Discord sent it: its name, content and number, in order."""

    def __init__(
        self,
        settings: DiscordAccount,
        heard: Callable[[str, dict[str, Any], int], None],
        *,
        clock: Clock,
        backoff: Backoff,
    ) -> None:
        self._account = settings
        self._heard = heard
        self._clock = clock
        self._backoff = backoff
        self._frames = 0
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
            max_ratelimit_timeout=LONGEST_WAIT,
            heartbeat_timeout=settings.heartbeat_timeout_seconds,
            allowed_mentions=discord.AllowedMentions.none(),
            status=discord.Status(settings.presence.status),
            activity=activity_of(settings.presence),
        )

    def _get_state(self, **options: Any) -> Any:
        """Make the library's state with our HTTP client.

        The library must not track events: this module reads them itself, and one that the library cannot read must not end the connection.
        """
        account = self._account
        self.http = PatientHttp(self.http.loop, root=account.api_root, gateway=account.gateway_url, clock=self._clock)
        state: Any = super()._get_state(**options)
        state.parsers = {event: state.parsers[event] for event in ("READY", "RESUMED")}
        return state

    @property
    def me(self) -> str:
        """The bot's own id."""
        return str(self.user.id) if self.user is not None else ""

    async def on_socket_raw_receive(self, message: str | bytes) -> None:
        """Pass an event on. The library calls this for each event in order."""
        event = json.loads(message)
        self._frames += event.get("op") == DiscordWebSocket.DISPATCH
        name, content, number = event.get("t"), event.get("d"), event.get("s")
        self._heard(str(name or ""), content if isinstance(content, dict) else {}, number if isinstance(number, int) else 0)

    async def on_error(self, event_method: str, /, *_: Any, **__: Any) -> None:
        """Raise an error of an event handler to the owner of ``heard`` instead of printing it."""
        self._heard("ERROR", {"in": event_method}, 0)

    async def answer(self, interaction: dict[str, Any], answer: dict[str, Any]) -> None:
        """Respond to a command or press. Raises one of ``TROUBLE``."""
        route = Route("POST", "/interactions/{identity}/{key}/callback", identity=interaction["id"], key=interaction["token"])
        await self.http.request(route, json=answer)

    async def sign_in(self) -> None:
        """Sign in: read the bot's identity, after which requests are possible.

        Raises:
            ChannelBroken: the token is not accepted.
        """
        try:
            await self.login(self._account.secret())
        except discord.LoginFailure as error:
            raise wrong_token(self._account) from error

    def check_intents(self) -> None:
        """Check that the bot may read messages. Raises ``ChannelBroken`` if not."""
        flags = self.application_flags
        if not (flags.gateway_message_content or flags.gateway_message_content_limited):
            raise no_intent()

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:  # noqa: ARG002 - theirs
        """Wait before another session begins: Discord allows one in five seconds."""
        if not initial:
            await self._clock.sleep(BETWEEN_SESSIONS)

    async def listen(self) -> None:
        """Keep the gateway connected until closed: resume a lost connection at once, then with backoff.

        The library's own reconnect waits up to 15 minutes, and not at all if a connection is closed immediately.

        Raises:
            ChannelBroken: Discord refuses the token, or an intent that is switched off in its portal, or closes for good.
        """
        given: dict[str, Any] = {"initial": True}
        while not self.is_closed():
            before, resume = self._frames, True
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    self.ws = await DiscordWebSocket.from_client(self, **given)
                while True:
                    await self.ws.poll_event()
            except ReconnectWebSocket as asked:
                error, resume = "the gateway asked to connect anew, or was silent", asked.resume
            except discord.ConnectionClosed as closed:
                if closed.code in FOR_GOOD:
                    raise closed_for_good(self._account, closed.code) from closed
                error = str(closed)
            except TROUBLE as trouble:
                error = str(trouble) or type(trouble).__name__
            except MALFORMED as trouble:  # the library reads frames too; in a new session it is not given this one again
                error, resume = f"a frame was malformed: {whereabouts(trouble)}", False
                await self._hang_up()
            if self._frames > before:
                self._backoff.over()
            else:
                await self._backoff.wait("the gateway does not answer", error)
            given = self._again(resume=resume)

    async def _hang_up(self) -> None:
        """Close a connection that the library left open, so that its heartbeat stops."""
        ws: DiscordWebSocket | None = self.ws
        if ws is not None:
            with contextlib.suppress(*TROUBLE):
                await ws.close()

    def _again(self, *, resume: bool) -> dict[str, Any]:
        """Return how to reconnect: resuming the session, or with a new one."""
        ws: DiscordWebSocket | None = self.ws
        if ws is None:
            return {"initial": True}
        if not resume or ws.session_id is None:
            return {}
        return {"sequence": ws.sequence, "session": ws.session_id, "resume": True, "gateway": ws.gateway}
