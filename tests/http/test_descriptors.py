"""Descriptors that run out: connections wait, the log stays short, and the gateway keeps some for itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from typing import TYPE_CHECKING, Any

import structlog

from gateway.api.routes.health import health_routes
from gateway.api.server import serve_tcp, serve_unix
from gateway.base.api_token import FixedToken
from gateway.settings.http_settings import GatewaySettings
from tests.descriptors import free_descriptors
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    import pytest

LOG = structlog.get_logger("gateway.http")
ASKED = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n"
SEVERAL_ATTEMPTS = 2.5
"""Seconds. asyncio makes one each second."""


async def facts() -> Mapping[str, Any]:
    return {}


ROUTES = health_routes(ready={}, status=facts, log=LOG)


@contextlib.asynccontextmanager
async def tcp() -> AsyncIterator[int]:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    settings = GatewaySettings(port=0)
    serving = asyncio.create_task(serve_tcp(ROUTES, settings, token=FixedToken("t"), log=LOG, started=port.set_result))
    try:
        yield await port
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def answer(client: socket.socket) -> bytes:
    async with asyncio.timeout(PATIENCE):
        return await asyncio.get_running_loop().sock_recv(client, 1000)


async def connected(client: socket.socket, place: Any, sent: bytes = b"GET / HTTP/1.1\r\n") -> None:
    client.setblocking(False)  # noqa: FBT003 - the standard library's signature
    await asyncio.get_running_loop().sock_connect(client, place)
    await asyncio.get_running_loop().sock_sendall(client, sent)


async def test_idle_connections_leave_descriptors_to_the_gateway(caplog: pytest.LogCaptureFixture) -> None:
    async with tcp() as port:
        idle, late = [socket.socket() for _ in range(100)], socket.socket()
        with free_descriptors(80):
            for client in idle:
                await connected(client, ("127.0.0.1", port))
            await asyncio.sleep(SEVERAL_ATTEMPTS)
            own = [os.dup(0) for _ in range(20)]
            for number in own:
                os.close(number)
            await connected(late, ("127.0.0.1", port), ASKED % port)
            for client in idle:
                client.close()
            assert (await answer(late)).startswith(b"HTTP/1.1 200")
        late.close()
    assert [record.levelname for record in caplog.records if "file descriptors are left" in record.getMessage()] == ["WARNING"]
    assert len(caplog.records) < 5


async def test_a_connection_waits_while_there_is_no_descriptor_and_the_log_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started = asyncio.Event()
    serving = asyncio.create_task(serve_unix(ROUTES, tmp_path / "g.sock", log=LOG, started=started.set))
    await started.wait()
    client = socket.socket(socket.AF_UNIX)
    with free_descriptors(0):
        await connected(client, str(tmp_path / "g.sock"), ASKED % 0)
        await asyncio.sleep(SEVERAL_ATTEMPTS)
        told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (await answer(client)).startswith(b"HTTP/1.1 200")
    assert len(told) == 1
    assert "LimitNOFILE" in told[0].getMessage()
    client.close()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
