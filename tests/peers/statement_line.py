"""Stands between one client and its PostgreSQL on TCP, counts the statements, and makes trouble at one of them or on the whole line.

It knows as much of the protocol as that takes (https://www.postgresql.org/docs/current/protocol-message-formats.html): a statement is a
Query, or an Execute with the messages that prepare it. A connection is cut before a statement is sent, after the server has done it
and before the client hears of it, or in the middle of the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Self

from tests.peers.database_line import NAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Way = Literal["before", "after", "within"]
"""Where a connection is cut: before the statement reaches the server, after it was done, within the answer."""
WAYS: Final[tuple[Way, ...]] = ("before", "after", "within")
_SHARE: Final = 65_536
_QUERY, _EXECUTE, _SYNC = b"Q", b"E", b"S"
_PREPARES: Final = (b"P", b"B", b"D", b"C")
"""Messages that belong to the Execute, or the Sync, after them."""
_STARTUP: Final = 3
"""The major version in the message with which a session begins. Requests for TLS and the like have others, and another one follows."""
_ANSWER_SECONDS: Final = 0.5
"""How long an answer is waited for before the cut; one of several statements that are sent at once comes with the last."""
_DROP_ALL: Final = struct.pack("HBBI", 0x06, 0, 0, 0)
"""A socket filter that takes nothing (BPF_RET | BPF_K, 0): the kernel acknowledges no packet, as if the cable were out."""
_ATTACH_FILTER: Final = 26


@dataclass(eq=False)
class _Session:
    """One connection: both ends, and what is held back of the client's messages."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    begun: bool = False
    parts: bytearray = field(default_factory=bytearray)
    """What was read of a statement that is not whole yet."""
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    cut: Way | None = None
    silent: bool = False


class StatementLine:
    """All connections of one client. ``env`` leads it here, ``server`` is the folder of the server's socket."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self.statements = 0
        self.broken = 0
        self.delay = 0.0
        """Seconds that each piece takes, in both directions."""
        self.struck = asyncio.Event()
        self._left: int | None = None
        self._way: Way = "before"
        self._since = b""
        self._flows = asyncio.Event()
        self._flows.set()
        self._open: dict[_Session, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.close()
        self._flows.set()
        self.cut_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def env(self) -> dict[str, str]:
        """Where the client finds it."""
        return {"PGHOST": "127.0.0.1", "PGPORT": str(self.port)}

    def at(self, number: int, way: Way, *, since: bytes = b"") -> None:
        """Cut the connection of statement ``number`` from now, or from the first one that contains ``since``, which is number 1."""
        self._left, self._way, self._since = number, way, since
        self.struck.clear()

    def never_mind(self) -> None:
        """Cut nothing any more."""
        self._left = None

    def hold(self) -> None:
        """Let nothing through; the machine itself still acknowledges what it gets, as one does whose program hangs."""
        self._flows.clear()

    def release(self) -> None:
        """Let it through again: what was held arrives late."""
        self._flows.set()

    def silence(self, which: Callable[[int], bool] = lambda _: True) -> int:
        """Take no packet of open connections any more and send none, for good: no acknowledgement, no end. Returns how many these are.

        ``which`` is asked with the number of each, the oldest first.
        """
        chosen = [one for place, one in enumerate(self._open) if which(place)]
        program = ctypes.create_string_buffer(_DROP_ALL)
        for one in chosen:
            one.silent = True
            line: socket.socket = one.client.get_extra_info("socket")
            line.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(program)))
        return len(chosen)

    def cut_all(self) -> None:
        """End all connections."""
        for one in list(self._open):
            _end(one)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flows.wait()
        try:
            from_server, to_server = await asyncio.open_unix_connection(self._server / NAME)
        except OSError:
            writer.transport.abort()
            return
        session = _Session(writer, to_server)
        self._open[session] = None
        back = asyncio.ensure_future(self._to_client(from_server, session))
        try:
            await self._to_server(reader, session)
        finally:
            back.cancel()
            self._open.pop(session, None)
            _end(session)

    async def _passes(self) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        await self._flows.wait()

    async def _to_server(self, reader: asyncio.StreamReader, session: _Session) -> None:
        waiting = bytearray()
        with contextlib.suppress(OSError):
            while data := await reader.read(_SHARE):
                await self._passes()
                if session.silent:
                    continue
                waiting += data
                batch = bytearray()
                while message := _cut_off(waiting, session):
                    strikes = self._counts(message, session)
                    if strikes and self._way == "before":
                        await _send(session, bytes(batch))
                        return self._break(session)
                    session.parts += message
                    if message[:1] not in _PREPARES:
                        batch += session.parts
                        session.parts.clear()
                    if strikes:
                        if waiting[:1] == _SYNC:
                            batch += _cut_off(waiting, session)
                        session.cut = self._way
                        await _send(session, bytes(batch))
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(_ANSWER_SECONDS):
                                await session.answered.wait()
                        return self._break(session)
                await _send(session, bytes(batch))
        return None

    def _counts(self, message: bytes, session: _Session) -> bool:
        """Count a message if it is a statement; return whether it is the one to be struck."""
        if not session.begun or message[:1] not in (_QUERY, _EXECUTE):
            return False
        self.statements += 1
        if self._left is None:
            return False
        if self._since:
            if self._since not in bytes(session.parts) + message:
                return False
            self._since = b""
        self._left -= 1
        if self._left > 0:
            return False
        self._left = None
        return True

    def _break(self, session: _Session) -> None:
        """End a connection: what was written of an answer still arrives."""
        self.broken += 1
        session.server.transport.abort()
        if session.cut == "within":
            session.client.close()
        else:
            session.client.transport.abort()
        self.struck.set()

    async def _to_client(self, reader: asyncio.StreamReader, session: _Session) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_SHARE):
                await self._passes()
                if session.silent:
                    continue
                if session.cut == "within" and not session.answered.is_set():
                    session.client.write(data[: max(1, len(data) // 2)])
                if session.cut:
                    session.answered.set()
                    continue
                session.client.write(data)
                await session.client.drain()
        if not session.cut and not session.silent:
            session.client.transport.abort()


def _cut_off(waiting: bytearray, session: _Session) -> bytes:
    """Take the first whole message from what was read; nothing where it is not whole yet."""
    head = 1 if session.begun else 0
    if len(waiting) < head + 4:
        return b""
    (length,) = struct.unpack_from("!I", waiting, head)
    if len(waiting) < head + length:
        return b""
    message = bytes(waiting[: head + length])
    del waiting[: head + length]
    if not session.begun and length >= 8 and struct.unpack_from("!H", message, 4)[0] == _STARTUP:
        session.begun = True
    return message


async def _send(session: _Session, data: bytes) -> None:
    if data:
        session.server.write(data)
        await session.server.drain()


def _end(session: _Session) -> None:
    for end in (session.client, session.server):
        end.transport.abort()
