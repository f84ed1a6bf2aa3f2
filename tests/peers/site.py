"""The place on loopback where a peer listens: it can go away, as a platform does in an outage, and come back at the same port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from aiohttp.web_server import Server


class Site:
    """One application at one port, chosen by the system where it is 0."""

    def __init__(self) -> None:
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self.port = 0

    async def open(self, app: web.Application, port: int) -> int:
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        self.port = port
        await self.back()
        self.port = self._runner.addresses[0][1]
        return self.port

    async def away(self) -> None:
        """Refuse connections, and end those that there are."""
        if self._site is not None:
            await self._site.stop()
            self._site = None
        server: Server | None = self._runner.server if self._runner is not None else None
        for connection in list(server.connections) if server is not None else ():
            if connection.transport is not None:
                connection.transport.abort()

    async def back(self) -> None:
        """Listen."""
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await self._site.start()

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
