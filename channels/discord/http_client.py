"""The library's HTTP client, at the address that the settings name, and patient where the library is not.

The library waits out short rate limits by itself. Of a long one it only tells; whoever then asks again before its end is refused
again, and Discord shuts out those who go on. Importing this module loads the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import discord
from discord.http import HTTPClient, Route

if TYPE_CHECKING:
    import asyncio

    from channels.protocol import Clock

LONGEST_WAIT = 30.0
"""A wait that is longer is left to the house, which can do something else meanwhile."""
MOST = 200
NO_JSON = "the answer was no JSON, as of a proxy or a captive portal"
_EVERYWHERE = "*"
_BANNED_SECONDS = 60.0
_TOO_MANY = 429


class PatientHttp(HTTPClient):
    """Makes the requests of one connection. The library itself knows one address for all bots of a process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, root: str, gateway: str | None, clock: Clock) -> None:
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(self._ended)
        super().__init__(loop, unsync_clock=False, max_ratelimit_timeout=LONGEST_WAIT, http_trace=trace)
        self.root = root
        self._gateway = gateway
        self._clock = clock
        self._until: dict[str, float] = {}

    async def request(self, route: Route, **arguments: Any) -> Any:
        """Make a request, unless Discord asked for a wait that is not over; then raise ``RateLimited`` without asking again.

        Raises ``ClientException`` for an answer that is not Discord's.
        """
        key = f"{route.key} {route.major_parameters}"
        left = max(self._until.get(one, 0.0) for one in (key, _EVERYWHERE)) - self._clock.monotonic()
        if left > 0:
            raise discord.RateLimited(left)
        route.url = self.root + route.url.removeprefix(Route.BASE)
        try:
            answer = await super().request(route, **arguments)
        except discord.RateLimited as error:
            self._wait(key, error.retry_after)
            raise
        except ValueError as error:
            raise discord.ClientException(NO_JSON) from error
        if isinstance(answer, str) and answer:  # the library hands on the text of whatever stands before Discord
            raise discord.ClientException(NO_JSON)
        return answer

    async def _ended(self, _session: object, _context: object, end: aiohttp.TraceRequestEndParams) -> None:
        """Look for refusals that hold for every request: of the whole bot, or of this machine's address."""
        headers = end.response.headers
        if end.response.status != _TOO_MANY:
            return
        banned = "Via" not in headers
        wait = headers.get("Retry-After", "")
        seconds = float(wait) if wait.replace(".", "", 1).isdigit() else _BANNED_SECONDS
        if banned or ("X-RateLimit-Global" in headers and seconds > LONGEST_WAIT):
            self._wait(_EVERYWHERE, seconds)

    def _wait(self, key: str, seconds: float) -> None:
        now = self._clock.monotonic()
        if len(self._until) >= MOST:
            self._until = {one: until for one, until in self._until.items() if until > now}
        self._until[key] = max(self._until.get(key, 0.0), now + seconds)

    async def ws_connect(self, url: str, **arguments: Any) -> aiohttp.ClientWebSocketResponse:
        """Open the gateway, always by way of the address that the settings name."""
        if self._gateway is not None:
            url = f"{self._gateway}?{urlsplit(url).query}"
        return await super().ws_connect(url, **arguments)
