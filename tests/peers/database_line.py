"""Stands between one client and its PostgreSQL, on unix sockets: the line is held, or cut at a message, or something is done there."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME = ".s.PGSQL.5432"
_SHARE = 65_536


class DatabaseLine:
    """All connections of one client. ``folder`` is its PGHOST, ``server`` the folder of the real socket."""

    def __init__(self, folder: Path, server: Path) -> None:
        self.folder, self._server = folder, server
        self.messages = 0
        """What the client has sent so far: each is a statement, or several that wait for one answer."""
        self.broken = 0
        self._at = 0
        self._heard = False
        self._act: Callable[[], object] | None = None
        self._flows = asyncio.Event()
        self._flows.set()
        self._open: set[asyncio.StreamWriter] = set()
        self.struck = asyncio.Event()

    async def __aenter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._listening = await asyncio.start_unix_server(self._carry, self.folder / NAME)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._flows.set()
        self._listening.close()
        self.cut_all()

    @property
    def env(self) -> dict[str, str]:
        """Where the client finds it."""
        return {"PGHOST": str(self.folder)}

    def at(self, number: int, *, heard: bool, act: Callable[[], object] | None = None) -> None:
        """At message ``number`` from now: do ``act``, or cut the connection. ``heard``: the message reaches the server before."""
        self._at, self._heard, self._act = self.messages + max(1, number), heard, act
        self.struck.clear()

    def never_mind(self) -> None:
        """Let nothing happen any more."""
        self._at = 0

    def hold(self) -> None:
        """Let nothing through, in both directions, as a network does that is divided."""
        self._flows.clear()

    def release(self) -> None:
        """Let it through again: what was held arrives late."""
        self._flows.set()

    def cut_all(self) -> None:
        """End all connections."""
        for one in list(self._open):
            one.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flows.wait()
        try:
            from_server, to_server = await asyncio.open_unix_connection(self._server / NAME)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, to_server}
        self._open |= ends
        back = asyncio.ensure_future(self._forward(from_server, writer))
        try:
            await self._to_server(reader, writer, to_server)
        finally:
            back.cancel()
            self._open -= ends
            for end in ends:
                end.transport.abort()

    async def _to_server(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to_server: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_SHARE):
                await self._flows.wait()
                self.messages += 1
                strikes = self.messages == self._at
                if strikes and self._act is None:
                    self.broken += 1
                    writer.transport.abort()  # what the server answers is lost
                if not strikes or self._heard:
                    to_server.write(data)
                    await to_server.drain()
                if strikes:
                    if self._act is None:
                        self.struck.set()
                        await asyncio.sleep(0)
                        return
                    self._act()
                    self.struck.set()
                    if not self._heard:
                        to_server.write(data)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_SHARE):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
