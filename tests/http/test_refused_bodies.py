"""A request that is refused before its body was read: whoever sends it gets the answer, and not a closed connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from starlette.responses import Response
from starlette.routing import Route

from gateway.api.answers import Refusal
from gateway.api.lingering_close import LINGER_BYTES
from gateway.api.middleware import LARGEST_LOCAL_BODY
from gateway.api.server import serve_tcp, serve_unix
from gateway.base.api_token import FixedToken
from gateway.settings.http_settings import GatewaySettings
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.requests import Request

LARGE = 5 * 1024 * 1024
LOG = structlog.get_logger("gateway.http")


async def guarded(request: Request) -> Response:
    """Take a body from the owner alone, whoever else asks is refused without a look at it."""
    if not request.scope["owner"]:
        raise Refusal(401, "no-token", "the request has no token", "Send it.")
    return Response(str(len(await request.body())))


ROUTES = [Route("/guarded", guarded, methods=["POST"])]


@contextlib.asynccontextmanager
async def tcp(head_seconds: float = 10.0) -> AsyncIterator[int]:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    settings = GatewaySettings(port=0)
    serving = asyncio.create_task(
        serve_tcp(ROUTES, settings, token=FixedToken("t"), log=LOG, started=port.set_result, head_seconds=head_seconds)
    )
    try:
        yield await port
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@contextlib.asynccontextmanager
async def unix(path: Path) -> AsyncIterator[Path]:
    started = asyncio.Event()
    serving = asyncio.create_task(serve_unix(ROUTES, path, log=LOG, started=started.set))
    await started.wait()
    try:
        yield path
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def told(place: int | Path, *lines: str, size: int = LARGE, target: str = "/guarded", chunked: bool = False) -> Any:
    """Send a request with all of its body, and only then read: as clients do that do not look at both sides at once."""
    opening = asyncio.open_connection("127.0.0.1", place) if isinstance(place, int) else asyncio.open_unix_connection(place)
    reader, writer = await opening
    framed = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    writer.write("\r\n".join([f"POST {target} HTTP/1.1", *lines, framed, "", ""]).encode())
    piece = b"x" * 65536
    async with asyncio.timeout(PATIENCE):
        for _ in range(size // len(piece)):
            writer.write(b"10000\r\n" + piece + b"\r\n" if chunked else piece)
            await writer.drain()
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["reason"]


@pytest.mark.parametrize(
    ("refused", "lines", "more"),
    [
        ((403, "unknown-host"), ["Host: evil.example"], {"chunked": True}),
        ((403, "foreign-origin"), ["Host: 127.0.0.1:{}", "Origin: https://evil.example"], {"chunked": True}),
        ((403, "untrusted-proxy"), ["Host: 127.0.0.1:{}", "X-Forwarded-For: 192.0.2.1"], {"chunked": True}),
        ((401, "no-token"), ["Host: 127.0.0.1:{}", "Authorization: Bearer wrong"], {"chunked": True}),
        ((413, "body-too-large"), ["Host: 127.0.0.1:{}", "Authorization: Bearer t"], {}),
        ((413, "body-too-large"), ["Host: 127.0.0.1:{}", "Authorization: Bearer t"], {"chunked": True}),
        ((404, "not-found"), ["Host: 127.0.0.1:{}"], {"target": "/nowhere", "chunked": True}),
        ((431, "head-too-large"), ["Host: 127.0.0.1:{}", f"X-Long: {'a' * 33_000}"], {}),
        ((400, "framed-twice"), ["Host: 127.0.0.1:{}", f"Content-Length: {LARGE}"], {"chunked": True}),
        ((400, "bad-request"), ["Host: 127.0.0.1:{}", "Content-Length: -1"], {}),
    ],
    ids=lambda one: one[1] if isinstance(one, tuple) else "",
)
async def test_a_refusal_by_the_port_reaches_whoever_still_sends(
    refused: tuple[int, str], lines: list[str], more: dict[str, Any]
) -> None:
    async with tcp() as port:
        assert await told(port, *[line.format(port) for line in lines], **more) == refused


@pytest.mark.parametrize(
    ("refused", "lines", "more"),
    [
        ((413, "body-too-large"), [], {"size": LARGEST_LOCAL_BODY + 65536}),
        ((413, "body-too-large"), [], {"size": LARGEST_LOCAL_BODY + 65536, "chunked": True}),
        ((404, "not-found"), [], {"target": "/nowhere"}),
        ((431, "head-too-large"), [f"X-Long: {'a' * 33_000}"], {}),
        ((400, "bad-request"), ["Content-Length: -1"], {}),
    ],
    ids=lambda one: one[1] if isinstance(one, tuple) else "",
)
async def test_a_refusal_by_the_unix_socket_reaches_whoever_still_sends(
    tmp_path: Path, refused: tuple[int, str], lines: list[str], more: dict[str, Any]
) -> None:
    async with unix(tmp_path / "s" / "gateway.sock") as path:
        assert await told(path, "Host: homebody", *lines, **more) == refused


async def test_whoever_sends_without_end_is_cut_off() -> None:
    async with tcp() as port:
        with pytest.raises(ConnectionError):
            await told(port, "Host: evil.example", size=LINGER_BYTES * 4)


async def test_whoever_neither_sends_nor_closes_is_cut_off() -> None:
    async with tcp(head_seconds=0.2) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /guarded HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 5\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            assert b"unknown-host" in await reader.read()
            with pytest.raises(ConnectionError):
                await dripping(writer)


async def dripping(writer: asyncio.StreamWriter) -> None:
    """Send a little at a time, for ever."""
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)
