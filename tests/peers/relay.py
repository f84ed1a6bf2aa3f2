"""Lines that can be cut: to a server on loopback, and of a WebSocket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from aiohttp import web

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter


class Socket(web.WebSocketResponse):
    """The server's side of a WebSocket."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Begin, and keep what a router would cut."""
        self.line = request.transport
        return await super().prepare(request)

    def cut(self) -> None:
        """End the connection without a word."""
        if self.line is not None:
            self.line.abort()


class Relay:
    """Passes on what comes to ``port``, until it is cut: then the port refuses connections."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._lines: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()

    async def cut(self) -> None:
        """End all connections, and return when those who had them know."""
        self._server.close()
        for onward in self._lines.values():
            onward.close()
        await asyncio.gather(*self._lines)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, onward = await asyncio.open_connection("127.0.0.1", self._to)
        task = asyncio.current_task()
        assert task is not None
        self._lines[task] = onward
        try:
            await asyncio.gather(_pass_on(reader, onward), _pass_on(back, writer))
        finally:
            del self._lines[task]
            onward.close()
            writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Write what is read, and its end."""
    while data := await reader.read(65536):
        if not writer.is_closing():
            writer.write(data)
    if not writer.is_closing():
        writer.write_eof()
