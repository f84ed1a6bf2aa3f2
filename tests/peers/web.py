"""A web server on loopback whose answers are bytes as they are written: it can lie, stall, drip and break off."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import httpcore2

from gateway.net.fetcher import GuardedFetcher
from gateway.net.testing import RecordedNetwork

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from gateway.net.connection_guard import Judge

Write: TypeAlias = "Callable[[bytes], Awaitable[None]]"
Answer: TypeAlias = "bytes | Callable[[Seen, Write], Awaitable[None]]"

PUBLIC = "93.184.216.34"
"""An address that stands for a public web server; ``network_of`` leads it to loopback."""

TLS_HANDSHAKE = b"\x16"
"""The first byte of who speaks TLS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as it came."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class WebPeer:
    """Answers by target, with path and query. Each connection is for one request."""

    answers: dict[str, Answer] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has closed a connection before its answer was complete."""
    port: int = 0
    serving: set[asyncio.Task[Any]] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.serving.add(task)
        task.add_done_callback(self.serving.discard)
        try:
            first = await reader.readexactly(1)
            if first == TLS_HANDSHAKE:  # a server without TLS ends it
                return
            head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            assert target.isascii()
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            request = Seen(method=method, target=target, headers=headers, body=body)
            self.seen.append(request)
            answer = self.answers.get(target, self.answers.get("*", b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"))

            async def write(block: bytes) -> None:
                writer.write(block)
                await writer.drain()

            if isinstance(answer, bytes):
                await write(answer)
            else:
                await answer(request, write)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def web_peer(answers: Mapping[str, Answer] | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[WebPeer]:
    """Serve on a port of loopback."""
    peer = WebPeer(dict(answers or {}))
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0, ssl=tls)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()
        for task in list(peer.serving):  # those whose answer hangs
            task.cancel()
        await asyncio.gather(*list(peer.serving), return_exceptions=True)


def network_of(
    peer: WebPeer, *names: str, port: int = 80, others: Mapping[str, Sequence[Sequence[str]]] | None = None
) -> RecordedNetwork:
    """Make a network in which ``names`` are public and lead to the peer."""
    table = {name: [[PUBLIC]] for name in names}
    return RecordedNetwork(names={**table, **(others or {})}, peers={(PUBLIC, port): peer.port})


def fetcher_on(network: RecordedNetwork, *, tls: ssl.SSLContext | None = None, judge: Judge | None = None) -> GuardedFetcher:
    """Make the program's fetcher on a recorded network. The certificates of the system are read once."""
    return GuardedFetcher(lambda: network, tls=_certificates if tls is None else lambda: tls, judge=judge)


_certificates = functools.cache(httpcore2.default_ssl_context)


def page(body: bytes | str, media_type: str = "text/html; charset=utf-8", status: str = "200 OK", **headers: str) -> bytes:
    """Write a whole answer."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {media_type}", f"Content-Length: {len(data)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + data


def redirect(location: str, status: str = "302 Found") -> bytes:
    """Write a redirect."""
    return f"HTTP/1.1 {status}\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
