"""Serves the local API on TCP and on a unix socket, by uvicorn: no signal handlers, deadlines for requests, errors as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import socket
import struct
import sys
from collections.abc import Callable, Generator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import h11
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.routing import BaseRoute, Router

from gateway.api import unix_socket
from gateway.api.answers import on_http_error
from gateway.api.listener import Listener, rest_quietly
from gateway.api.middleware import LARGEST_HEAD, AnswerDefects, Token, tcp_middleware, unix_middleware
from gateway.base.errors import HomebodyError
from gateway.base.lean_import import leaving_out
from gateway.settings.http_settings import GatewaySettings

with leaving_out(
    *("uvicorn.main", "uvicorn.middleware.wsgi"),  # its command line with processes and reloading, and WSGI
    *("configparser", "logging.config"),  # its own logging, which is not set up
):
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.server import Server as UvicornServer

if TYPE_CHECKING:
    import structlog
    from starlette.middleware import Middleware
    from starlette.types import ASGIApp

Routes = Sequence[BaseRoute]
HEAD_SECONDS = 10.0
"""How long a peer may take over a whole request: line, headers and body."""
MOST_CONNECTIONS = 200
CLOSING_SECONDS = 3
_KEEP_ALIVE_SECONDS = 5


def app_of(routes: Routes, middleware: Sequence[Middleware]) -> ASGIApp:
    """Return the ASGI application; every error of it is JSON.

    It is put together as ``starlette.Starlette`` does it, which would load what shows errors as a page, 0.5 MB.
    """
    app: ASGIApp = ExceptionMiddleware(Router(routes), {HTTPException: on_http_error})
    for one in reversed(middleware):
        app = one.cls(app, *one.args, **one.kwargs)
    return AnswerDefects(app)


async def serve_tcp(
    routes: Routes,
    settings: GatewaySettings,
    *,
    token: Token,
    log: structlog.typing.FilteringBoundLogger,
    started: Callable[[int], None],
    ending: Callable[[], None] = lambda: None,
    head_seconds: float = HEAD_SECONDS,
    first: Sequence[Middleware] = (),
    last: Sequence[Middleware] = (),
) -> None:
    """Listen as ``settings`` say, call ``started`` with the port, and serve until cancelled; then finish answers (3 s at most).

    A peer has ``head_seconds`` to finish a request. ``ending`` is called before it stops, to end answers that would go on.
    ``first`` and ``last``: see ``tcp_middleware``. Installs no signal handlers.

    Raises:
        HomebodyError: the port cannot be opened.
    """
    sockets = [Listener.of(plug, keeps=True) for plug in open_sockets(settings)]
    port: int = sockets[0].getsockname()[1]
    app = app_of(routes, tcp_middleware(settings, port, token, log, first=first, last=last))
    log.info("listening", port=port, bind=settings.bind)
    await _serve(Server(app, lambda: started(port), head_seconds=head_seconds), sockets, ending)


async def serve_unix(
    routes: Routes,
    path: Path,
    *,
    log: structlog.typing.FilteringBoundLogger,
    started: Callable[[], None] = lambda: None,
    ending: Callable[[], None] = lambda: None,
    last: Sequence[Middleware] = (),
) -> None:
    """Serve ``routes`` to programs of this user, on a socket at ``path``, until cancelled; then finish answers (1 s at most).

    ``started`` is called when it listens; ``ending`` before it stops, to end answers that would go on.

    Raises:
        HomebodyError: the socket cannot be made.
    """
    sock = Listener.of(unix_socket.bind(path), keeps=False)
    server = LocalServer(app_of(routes, unix_middleware(log, last)), started)
    try:
        await _serve(server, [sock], ending)
    finally:
        unix_socket.clear(path)


async def _serve(server: Server, sockets: list[Listener], ending: Callable[[], None] = lambda: None) -> None:
    rest_quietly(asyncio.get_running_loop())
    serving = asyncio.create_task(server.serve(sockets=[*sockets]), name="http")
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


_ADDRESSES: dict[Literal["loopback", "lan"], tuple[str, str]] = {"loopback": ("127.0.0.1", "::1"), "lan": ("0.0.0.0", "::")}  # noqa: S104 - `lan` is chosen in the settings
_NO_IPV6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})
_BACKLOG = 128


class PortTaken(HomebodyError):
    """Raised when another program listens on the port."""


def open_sockets(settings: GatewaySettings) -> list[socket.socket]:
    """Listen as the settings say, on IPv4 and, where the machine has it, on IPv6; both under one port.

    Raises HomebodyError that names the port and the setting when the port is taken or not allowed.
    """
    four, six = _ADDRESSES[settings.bind]
    first = _listen(socket.AF_INET, four, settings.port)
    port: int = first.getsockname()[1]
    try:
        return [first, _listen(socket.AF_INET6, six, port)]
    except OSError as error:
        # A port that was chosen freely may be taken on the other family; then IPv4 serves alone.
        if error.errno in _NO_IPV6 or (settings.port == 0 and error.errno == errno.EADDRINUSE):
            return [first]
        first.close()
        raise _not_opened(error, six, port) from error


def _listen(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    plug = None
    try:
        plug = socket.socket(family, socket.SOCK_STREAM)
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            plug.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        plug.bind((address, port))
        plug.listen(_BACKLOG)
        plug.setblocking(False)  # noqa: FBT003 - the standard library's signature
    except OSError as error:
        if plug is not None:
            plug.close()
        if family == socket.AF_INET6:
            raise
        raise _not_opened(error, address, port) from error
    return plug


def _not_opened(error: OSError, address: str, port: int) -> HomebodyError:
    where = "gateway.port"
    if error.errno == errno.EADDRINUSE:
        hint = "Stop the program that uses it, or set gateway.port to another one (homebody config set gateway.port 18791)."
        return PortTaken(f"port {port} on {address} is taken", where=where, hint=hint)
    if error.errno == errno.EACCES:
        hint = "Set gateway.port to a port above 1023 (homebody config set gateway.port 18790)."
        return HomebodyError(f"port {port} on {address} is reserved for the system", where=where, hint=hint)
    hint = "Set gateway.bind to loopback, or mend the network of this machine."
    return HomebodyError(f"port {port} on {address} could not be opened: {error.strerror}", where=where, hint=hint)


class Wire(H11Protocol):
    """One connection. A peer that does not finish a request in time is cut off, so that slow ones cannot take all connections."""

    head_seconds = HEAD_SECONDS
    _deadline: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock."""
        from gateway.api.lingering_close import LingeringTransport

        self._lingering = LingeringTransport(transport, self._is_answered_early)
        super().connection_made(cast("asyncio.Transport", self._lingering))
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._unwatch()
        self._lingering.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Stop the clock when a request is whole, and start it when the next one begins."""
        if self._lingering.lingers:
            self._lingering.drop(data)
            return
        super().data_received(data)
        if self.conn.their_state in {h11.IDLE, h11.SEND_BODY} and not self.transport.is_closing():
            self._watch()
        else:
            self._unwatch()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, in the form of all other errors."""
        self._refuse(400, msg, "bad-request", f"Send HTTP/1.1 with a head of at most {LARGEST_HEAD} bytes.")

    def _is_answered_early(self) -> bool:
        """Return whether there is an answer to a request of which a part is still on its way."""
        return self._refused or (self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete)

    def _refuse(self, status: int, error: str, reason: str, hint: str) -> None:
        """Answer without the application, and close."""
        self._refused = True
        body = json.dumps({"error": error, "reason": reason, "mend": hint}).encode()
        headers = [(b"content-type", b"application/json"), (b"connection", b"close"), (b"content-length", b"%d" % len(body))]
        events = (
            h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase.encode()),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        with contextlib.suppress(h11.LocalProtocolError):  # an answer is on its way already
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.head_seconds, self.transport.close)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class LocalWire(Wire):
    """One connection to the unix socket."""

    _new = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse another user's process, as far as the kernel tells; the directory's rights keep others out in any case."""
        super().connection_made(transport)
        user = _peer(transport.get_extra_info("socket"))
        if user != os.getuid():
            error = f"user {user} may not talk to the gateway of user {os.getuid()}"
            self._refuse(403, error, "other-user", "Use a gateway of your own.")

    def data_received(self, data: bytes) -> None:
        """Answer commands from before this API, which send lines of JSON, in their own form."""
        if self._new and data.startswith(b"{") and not self.transport.is_closing():
            facts = {
                "error": "the gateway that runs is newer than this command",
                "mend": "Use the gateway's version of homebody.",
            }
            self.transport.write(json.dumps(facts).encode() + b"\n")
            self.transport.close()
        elif self._lingering.lingers or not self.transport.is_closing():
            self._new = False
            super().data_received(data)


class Server(UvicornServer):
    """A server that leaves signals to the gateway, says when it listens, and sleeps while nobody asks.

    ``most`` is the number of connections at a time; ``closing_seconds`` are left to answers that were begun when it stops.
    """

    def __init__(
        self,
        app: ASGIApp,
        started: Callable[[], None],
        *,
        wire: type[Wire] = Wire,
        head_seconds: float = HEAD_SECONDS,
        most: int | None = MOST_CONNECTIONS,
        closing_seconds: int = CLOSING_SECONDS,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=type("Wire", (wire,), {"head_seconds": head_seconds}),
            ws="none",
            lifespan="off",
            loop="none",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            h11_max_incomplete_event_size=LARGEST_HEAD,
            limit_concurrency=most,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=closing_seconds,
        )
        super().__init__(config)
        self._say_started = started
        self._stopping = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        self._say_started()

    async def main_loop(self) -> None:
        """Wait for ``stop``, where uvicorn itself would wake ten times a second."""
        await self._stopping.wait()

    def stop(self) -> None:
        """Take no more connections, finish what is being answered, and return from ``serve``."""
        self.should_exit = True
        self._stopping.set()


class LocalServer(Server):
    """A server of the unix socket. Its peers are the owner's own programs, which get more time and as many connections as they want."""

    def __init__(self, app: ASGIApp, started: Callable[[], None]) -> None:
        super().__init__(app, started, wire=LocalWire, head_seconds=60.0, most=None, closing_seconds=1)


def _peer(sock: socket.socket) -> int:
    """Return the user at the other end; this one where the kernel does not tell."""
    if sys.platform != "linux":
        return os.getuid()
    _, user, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(user)
