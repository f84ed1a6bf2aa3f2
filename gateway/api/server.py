"""Serving the HTTP API on its addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from gateway.api import unix_socket
from gateway.api.answers import on_defect, on_http_error
from gateway.api.listening_sockets import open_sockets
from gateway.api.middleware import tcp_middleware, unix_middleware
from gateway.api.uvicorn_server import HEAD_SECONDS, LocalServer, Server
from gateway.settings.http import GatewaySettings

if TYPE_CHECKING:
    import socket

    import structlog
    from starlette.middleware import Middleware

Routes = Sequence[BaseRoute]


def app_of(routes: Routes, middleware: Sequence[Middleware]) -> Starlette:
    """Return the ASGI application; every error of it is JSON."""
    handlers = {HTTPException: on_http_error, Exception: on_defect}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


async def serve_tcp(
    routes: Routes,
    settings: GatewaySettings,
    *,
    token: str,
    log: structlog.typing.FilteringBoundLogger,
    started: Callable[[int], None],
    head_seconds: float = HEAD_SECONDS,
) -> None:
    """Listen as ``settings`` say, call ``started`` with the port, and serve until cancelled; then finish answers (3 s at most).

    ``token`` is one that `gateway.base.api_token` has checked. A peer has ``head_seconds`` to finish a request.
    Installs no signal handlers.

    Raises:
        HomebodyError: the port cannot be opened.
    """
    sockets = open_sockets(settings)
    port: int = sockets[0].getsockname()[1]
    app = app_of(routes, tcp_middleware(settings, port, token, log))
    log.info("listening", port=port, bind=settings.bind)
    await _serve(Server(app, lambda: started(port), head_seconds=head_seconds), sockets)


async def serve_unix(
    routes: Routes,
    path: Path,
    *,
    log: structlog.typing.FilteringBoundLogger,
    started: Callable[[], None] = lambda: None,
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Serve ``routes`` to programs of this user, on a socket at ``path``, until cancelled; then finish answers (1 s at most).

    ``started`` is called when it listens; ``ending`` before it stops, to end answers that would go on.

    Raises:
        HomebodyError: the socket cannot be made.
    """
    sock = unix_socket.bind(path)
    sock.setblocking(False)  # noqa: FBT003 - the standard library's signature
    server = LocalServer(app_of(routes, unix_middleware(log)), started)
    try:
        await _serve(server, [sock], ending)
    finally:
        unix_socket.clear(path)


async def _serve(server: Server, sockets: list[socket.socket], ending: Callable[[], None] = lambda: None) -> None:
    serving = asyncio.create_task(server.serve(sockets=sockets), name="http")
    try:
        await asyncio.shield(serving)
    finally:
        ending()
        server.stop()
        try:
            await serving
        finally:
            for plug in sockets:
                plug.close()
