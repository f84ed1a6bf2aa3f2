"""uvicorn, made to our measure: no signal handlers, patience that ends, errors as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from gateway.api.middleware import LARGEST_HEAD

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Generator

    from starlette.types import ASGIApp

HEAD_SECONDS = 10.0
"""How long a peer may take over a whole request: line, headers and body."""

MOST_CONNECTIONS = 200
CLOSING_SECONDS = 3
_KEEP_ALIVE_SECONDS = 5


class Wire(H11Protocol):
    """One connection. A peer that does not finish a request in time is cut off, so that slow ones cannot take all connections."""

    head_seconds = HEAD_SECONDS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Stop the clock when a request is whole, and start it when the next one begins."""
        super().data_received(data)
        if self.conn.their_state in {h11.IDLE, h11.SEND_BODY} and not self.transport.is_closing():
            self._watch()
        else:
            self._unwatch()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, in the form of all other errors."""
        hint = f"Send HTTP/1.1 with a head of at most {LARGEST_HEAD} bytes."
        body = json.dumps({"error": msg, "reason": "bad-request", "mend": hint}).encode()
        headers = [(b"content-type", b"application/json"), (b"connection", b"close"), (b"content-length", b"%d" % len(body))]
        events = (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
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


class Server(uvicorn.Server):
    """A server that leaves signals to the gateway, says when it listens, and sleeps while nobody asks."""

    def __init__(self, app: ASGIApp, started: Callable[[], None], head_seconds: float) -> None:
        config = uvicorn.Config(
            app,
            http=type("Wire", (Wire,), {"head_seconds": head_seconds}),
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
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=CLOSING_SECONDS,
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
