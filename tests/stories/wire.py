"""What both servers of the stories have in common: a port on loopback that can be shut, and the ways in which a server is away."""

from __future__ import annotations

import asyncio
import enum
import json
import socket
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HTML_502 = """<html>
<head><title>502 Bad Gateway</title></head>
<body>
<center><h1>502 Bad Gateway</h1></center>
</body>
</html>
"""


class Away(enum.StrEnum):
    """How a server is away. Each is met on the way to a real platform, from a rebooting router to a proxy without its backend."""

    REFUSED = "refused"
    """Nobody listens at the port, and open connections are reset."""
    CUT_BEFORE = "cut before"
    """The connection is reset before the call has any effect."""
    CUT_AFTER = "cut after"
    """The call has its effect, and the connection is reset before the answer."""
    SILENT = "silent"
    """The call is read, has no effect, and is never answered."""
    JSON_500 = "500 json"
    """The platform's own error, in its own notation."""
    HTML_502 = "502 html"
    """A page for people, by whatever stands before the platform."""
    WAIT_429 = "429"
    """The platform asks to wait."""


class Cut(Exception):
    """The connection is to be reset in place of an answer."""


class Port:
    """A port on 127.0.0.1 with an HTTP server behind it, which can be shut and opened again at the same number."""

    def __init__(self, handler: Handler, *, largest: int = 64 << 20) -> None:
        self._handler = handler
        self._largest = largest
        self._runner: web.AppRunner | None = None
        self._site: web.SockSite | None = None
        self._transports: set[asyncio.BaseTransport] = set()
        self.number = 0

    @property
    def root(self) -> str:
        """The address, without a slash at its end."""
        return f"http://127.0.0.1:{self.number}"

    async def open(self) -> None:
        """Listen. The first time the system chooses the number, which then stays."""
        if self._runner is None:
            app = web.Application(client_max_size=self._largest)
            app.router.add_route("*", "/{path:.*}", self._serve)
            self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handle_signals=False)
            await self._runner.setup()
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.number))
        self.number = listener.getsockname()[1]
        self._site = web.SockSite(self._runner, listener)
        await self._site.start()

    async def shut(self) -> None:
        """Refuse connections and reset those that are open."""
        if self._site is not None:
            await self._site.stop()
            self._site = None
        for transport in list(self._transports):
            _reset(transport)

    async def close(self) -> None:
        """End for good."""
        await self.shut()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        if transport is None or self._site is None:
            raise asyncio.CancelledError
        self._transports = {one for one in self._transports if not one.is_closing()} | {transport}
        try:
            return await self._handler(request)
        except Cut:
            _reset(transport)
            raise asyncio.CancelledError from None
        except ConnectionError:  # whoever asked has gone
            raise asyncio.CancelledError from None


def _reset(transport: asyncio.BaseTransport) -> None:
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()


def reply(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Answer in JSON."""
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json", headers=headers)


def page_502() -> web.Response:
    """Answer as a proxy does whose backend is gone."""
    return web.Response(status=502, text=HTML_502, content_type="text/html")
