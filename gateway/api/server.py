"""Serving the HTTP API on its addresses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from gateway.api.answers import on_defect, on_http_error
from gateway.api.listening_sockets import open_sockets
from gateway.api.middleware import tcp_middleware
from gateway.api.uvicorn_server import HEAD_SECONDS, Server

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    import structlog
    from starlette.middleware import Middleware
    from starlette.routing import BaseRoute

    from gateway.settings.http import GatewaySettings


def app_of(routes: Sequence[BaseRoute], middleware: Sequence[Middleware]) -> Starlette:
    """Return the ASGI application; every error of it is JSON."""
    handlers = {HTTPException: on_http_error, Exception: on_defect}
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


async def serve_tcp(
    routes: Sequence[BaseRoute],
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
    await _serve(Server(app, lambda: started(port), head_seconds), sockets)


async def _serve(server: Server, sockets: list[socket.socket]) -> None:
    serving = asyncio.create_task(server.serve(sockets=sockets), name="http")
    try:
        await asyncio.shield(serving)
    finally:
        server.stop()
        try:
            await serving
        finally:
            for plug in sockets:
                plug.close()
