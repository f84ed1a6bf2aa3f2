"""The terminal's connection over a unix socket: the server inside the gateway, and the client.

The protocol: one JSON object a line. The client sends ``{"attach": name}``, then ``{"say": {text, key, hints}}``, ``{"stop": true}``
and ``{"ack": key}`` for each reply that it received; it answers ``{"ok": key}`` or ``{"error": text, "mend": ..., "key": key}``, and
sends live events (see ``channels.live``). The server's last line is ``{"closing": why}``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any

from channels.errors import ChannelError, LinkLost
from channels.live import Reply, from_json, to_json
from channels.terminal import socket_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from channels.live import LiveEvent
    from channels.terminal.channel import TerminalChannel
    from channels.terminal.client_connection import ClientConnection

MESSAGE_BYTES = 8 * 1024 * 1024
"""The longest line that the server takes."""
FRAME_BYTES = 64 * 1024 * 1024
"""The longest line that a client takes: replies are not cut for a terminal."""
_START = "homebody gateway"


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


async def _read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next object, or None at the end. Raises ValueError when it is too long or no JSON object."""
    line = await reader.readline()
    if not line.endswith(b"\n"):
        return None
    try:
        message = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(message, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - the same trouble as any other broken line
    return message


class SocketServer:
    """Serves a terminal channel to clients of the same user in other processes."""

    def __init__(self, channel: TerminalChannel, path: Path) -> None:
        self._channel = channel
        self._path = path
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Listen until cancelled, then tell the clients and clean up."""
        sock = socket_path.bind(self._path)
        server = await asyncio.start_unix_server(self._begin, sock=sock, limit=MESSAGE_BYTES)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            socket_path.clear(self._path)
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._client(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; whatever a client sends affects only its own connection."""
        why = "the gateway is stopping"
        try:
            _same_user(writer)
            await self._session(reader, writer)
            why = ""
        except (ValueError, LookupError, TypeError, AttributeError, ChannelError) as error:
            hint = error.hint if isinstance(error, ChannelError) else f"send lines of JSON, {MESSAGE_BYTES >> 20} MiB at most"
            writer.write(_line({"error": str(error), "mend": hint}))
            why = str(error)
        except ConnectionError:
            why = ""
        finally:
            with contextlib.suppress(ConnectionError, OSError):
                if why:
                    writer.write(_line({"closing": why}))
                writer.close()
                await asyncio.wait_for(writer.wait_closed(), 1)

    async def _session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = await _read(reader)
        if hello is None:
            return
        attachment = self._channel.attachment(str(hello.get("attach", "local")))
        writer.write(_line({"ok": "attach"}))
        showing = asyncio.ensure_future(_show(attachment, writer))
        try:
            while (message := await _read(reader)) is not None:
                await self._obey(attachment, message, writer)
        finally:
            showing.cancel()
            await attachment.close()

    async def _obey(self, attachment: ClientConnection, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if "ack" in message:
            attachment.acknowledge(str(message["ack"]))
        elif "stop" in message:
            await attachment.stop()
            writer.write(_line({"ok": "stop"}))
        elif "say" in message:
            writer.write(_line(await _say(attachment, message["say"])))
        await writer.drain()


async def _say(attachment: ClientConnection, said: Mapping[str, Any]) -> dict[str, Any]:
    """Deliver a message, and return the response."""
    key = str(said["key"])
    hints = {str(name): str(value) for name, value in said.get("hints", {}).items()}
    try:
        await attachment.say(str(said["text"]), key=key, hints=hints)
    except ChannelError as error:
        return {"error": str(error), "mend": error.hint, "key": key}
    return {"ok": key}


async def _show(attachment: ClientConnection, writer: asyncio.StreamWriter) -> None:
    """Send events; ends silently when the client is gone, because the reading side then ends the session."""
    with contextlib.suppress(ConnectionError):
        while (frame := await attachment.take()) is not None:
            writer.write(_line(to_json(frame)))
            await writer.drain()
    writer.close()


def _same_user(writer: asyncio.StreamWriter) -> None:
    """Refuse another user's process, as far as the kernel tells (the directory's rights keep others out in any case)."""
    if sys.platform != "linux":
        return
    peer = writer.get_extra_info("socket")
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if uid != os.getuid():
        raise ChannelError(f"user {uid} may not talk to the gateway of user {os.getuid()}", hint="use your own gateway")


class SocketLink:
    """A ``Link`` to a gateway in another process. Made by ``open``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames: asyncio.Queue[LiveEvent | None] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[None]] = {}
        self._lost = LinkLost("the gateway stopped", hint=f"start it again ({_START}), then say it again")
        self._closed = False
        self._reading = asyncio.ensure_future(self._read_all())

    @classmethod
    async def open(cls, path: Path, conversation_id: str = "local") -> SocketLink:
        """Connect to the gateway that serves ``path``.

        Raises:
            LinkLost: nobody serves it.
            ChannelError: the gateway refused.
        """
        real = socket_path.locate(path)
        try:
            reader, writer = await asyncio.open_unix_connection(real, limit=FRAME_BYTES)
        except OSError as error:
            raise LinkLost(f"no gateway answers at {real}: {error.strerror or error}", hint=_START) from error
        link = cls(reader, writer)
        try:
            await link._ask({"attach": conversation_id}, "attach")
        except BaseException:  # also when cancelled: nobody else knows of this link yet
            await link.close()
            raise
        return link

    async def say(self, text: str, *, key: str, hints: Mapping[str, str] | None = None) -> None:
        """Send a message; see ``Link.say``."""
        await self._ask({"say": {"text": text, "key": key, "hints": dict(hints or {})}}, key)

    async def stop(self) -> None:
        """Stop the running turn."""
        await self._ask({"stop": True}, "stop")

    async def frames(self) -> AsyncIterator[LiveEvent]:
        """Yield what arrives; see ``Link.frames``."""
        while (frame := await self._frames.get()) is not None:
            if isinstance(frame, Reply) and not self._writer.is_closing():
                self._writer.write(_line({"ack": frame.key}))
            yield frame
        self._frames.put_nowait(None)
        if not self._closed:
            raise self._lost

    async def close(self) -> None:
        """Detach; see ``Link.close``."""
        self._closed = True
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _ask(self, message: Mapping[str, Any], name: str) -> None:
        """Send, and wait for the answer that carries ``name``."""
        line = _line(message)
        if len(line) > MESSAGE_BYTES:
            raise ChannelError(
                f"the message is {len(line) / 2**20:.1f} MiB, and {MESSAGE_BYTES >> 20} MiB is the limit",
                hint="put the text into a file in the workspace, and name the file",
            )
        if self._reading.done():
            raise self._lost
        answer = self._answers.get(name)
        if answer is None:
            answer = self._answers[name] = asyncio.get_running_loop().create_future()
        with contextlib.suppress(ConnectionError):
            self._writer.write(line)
            await self._writer.drain()
        await asyncio.shield(answer)

    async def _read_all(self) -> None:
        try:
            while (message := await _read(self._reader)) is not None:
                self._hear(message)
        except (ConnectionError, ValueError, ChannelError) as error:
            self._lost = LinkLost(f"the connection to the gateway was lost: {error}", hint=self._lost.hint)
        finally:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(self._lost)
                    answer.exception()
            self._frames.put_nowait(None)

    def _hear(self, message: dict[str, Any]) -> None:
        if "frame" in message:
            self._frames.put_nowait(from_json(message))
        elif "ok" in message:
            answer = self._answers.pop(str(message["ok"]), None)
            if answer is not None and not answer.done():
                answer.set_result(None)
        elif "error" in message:
            error = ChannelError(str(message["error"]), hint=str(message.get("mend", "")))
            key = message.get("key")
            for name in [str(key)] if key is not None else list(self._answers):
                answer = self._answers.pop(name, None)
                if answer is not None and not answer.done():
                    answer.set_exception(error)
        elif "closing" in message:
            self._lost = LinkLost(f"the gateway closed the connection: {message['closing']}", hint=self._lost.hint)
