"""Lines that can be cut: to a server on loopback, and of a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
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


@dataclass(eq=False)
class _Line:
    """A connection that is passed on, unless it is ``silent``: then all that comes is swallowed, its end too."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    silent: bool = False

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Write what is read, and its end."""
        while data := await reader.read(65536):
            if not self.silent and not writer.is_closing():
                writer.write(data)
        if not self.silent and not writer.is_closing():
            with contextlib.suppress(OSError):  # it has just been lost
                writer.write_eof()


class Relay:
    """Passes on what comes to ``port``, until it is cut: then the port refuses connections. ``to`` is the server's port."""

    def __init__(self, to: int = 0) -> None:
        self.to = to
        self._lines: dict[asyncio.Task[None], _Line] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()

    async def cut(self) -> None:
        """End all connections, and return when those who had them know."""
        self._server.close()
        for line in self._lines.values():
            line.far.close()
            if line.silent:
                line.near.close()
        await asyncio.gather(*self._lines)

    def swallow(self) -> None:
        """Say nothing more on connections that are open, as a NAT that forgot them; new ones are passed on."""
        for line in self._lines.values():
            line.silent = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, onward = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:  # the server is gone
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        line = self._lines[task] = _Line(writer, onward)
        try:
            await asyncio.gather(line.carry(reader, onward), line.carry(back, writer))
        finally:
            del self._lines[task]
            onward.close()
            writer.close()
