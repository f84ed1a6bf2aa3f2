"""The terminal's conversations, for programs of the owner.

GET  /chat/events?conversation=NAME&connection=ID&agent=AGENT
       attach, and stream live events as server-sent events; ID is the client's choice, AGENT says where to attach in a cluster
POST /chat/ID/messages   {"text", "key", "hints", "files"}: say something; it is stored when this is answered. Files are paths here
POST /chat/ID/stop       stop the running turn
POST /chat/ID/acks?key=KEY   confirm a reply, which counts as delivered then

Each event is one JSON object (see ``channels.live``) on one line; ``{"closing": why}`` is the last one of a gateway that stops.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from channels.errors import ChannelError, LinkLost
from channels.live import STORAGE_FAILED, to_json
from channels.terminal.channel import TerminalChannel
from gateway.api.answers import HEADERS, Refusal
from gateway.api.event_stream import EventStream
from gateway.base.errors import about_storage

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from channels.terminal.client_connection import ClientConnection

_ID = re.compile(r"[0-9A-Za-z]{16,64}")


class ChatRoutes:
    """Connects clients to a terminal channel."""

    def __init__(self, channel: TerminalChannel) -> None:
        self._channel = channel
        self._open: dict[str, ClientConnection] = {}
        self._closing = ""

    def routes(self) -> list[Route]:
        """Return the routes. For the unix socket only: whoever reaches it speaks as the owner."""
        return [
            Route("/chat/events", self._on_events),
            Route("/chat/{connection}/messages", self._on_message, methods=["POST"]),
            Route("/chat/{connection}/stop", self._on_stop, methods=["POST"]),
            Route("/chat/{connection}/acks", self._on_ack, methods=["POST"]),
        ]

    def close(self, why: str = "the gateway is stopping") -> None:
        """End all streams, and let no new one begin. What was not taken counts as not delivered."""
        self._closing = why
        for connection in self._open.values():
            connection.end()

    async def _on_events(self, request: Request) -> Response:
        name = request.query_params.get("connection", "")
        if _ID.fullmatch(name) is None or name in self._open:
            raise Refusal(
                400, "bad-connection", "the connection's name is taken, or none", "Choose 16 to 64 random letters and digits."
            )
        if self._closing:
            raise Refusal(503, "not-now", self._closing, "Try again.")
        try:
            connection = self._channel.attachment(request.query_params.get("conversation", "local"))
        except ChannelError as error:
            raise Refusal(400, "bad-conversation", str(error), error.hint) from None
        self._open[name] = connection
        return _Attached(self._events(connection), connection, name, self._open)

    async def _events(self, connection: ClientConnection) -> AsyncIterator[bytes]:
        while (frame := await connection.take()) is not None:
            yield _event(to_json(frame))
        yield _event({"closing": self._closing or "the conversation was closed"})

    async def _on_message(self, request: Request) -> Response:
        connection = self._connection(request)
        try:
            said = json.loads(await request.body())
            text, key = str(said["text"]), str(said["key"])
            hints = {str(name): str(value) for name, value in said.get("hints", {}).items()}
            files = [str(path) for path in said.get("files", ())]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            hint = 'Send {"text": ..., "key": ..., "hints": {...}}.'
            raise Refusal(400, "bad-message", f"not a message: {error!r}"[:500], hint) from None
        try:
            await connection.say(text, key=key, hints=hints, files=files)
        except LinkLost as error:
            raise Refusal(410, "gone", str(error), error.hint) from None
        except ChannelError as error:
            reason = STORAGE_FAILED if about_storage(error) else "not-stored"
            raise Refusal(503, reason, str(error), error.hint) from None
        return Response(status_code=204)

    async def _on_stop(self, request: Request) -> Response:
        await self._connection(request).stop()
        return Response(status_code=204)

    async def _on_ack(self, request: Request) -> Response:
        self._connection(request).acknowledge(request.query_params.get("key", ""))
        return Response(status_code=204)

    def _connection(self, request: Request) -> ClientConnection:
        found = self._open.get(request.path_params["connection"])
        if found is None:
            raise Refusal(410, "gone", "this connection is closed", "Attach again.")
        return found


class _Attached(EventStream):
    """A client's stream. It is attached until the stream ends, whichever side ends it, and also when it never began."""

    def __init__(
        self, events: AsyncIterator[bytes], connection: ClientConnection, name: str, among: dict[str, ClientConnection]
    ) -> None:
        super().__init__(events, headers=HEADERS, media_type="text/event-stream")
        self._connection = connection
        self._name = name
        self._among = among

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            del self._among[self._name]
            await self._connection.close()


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"
