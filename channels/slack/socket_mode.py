"""Receives events over Socket Mode, and acknowledges each envelope after it was stored. Importing this module loads the library."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from slack_bolt.adapter.socket_mode.async_base_handler import AsyncBaseSocketModeHandler
from slack_bolt.adapter.socket_mode.async_internals import send_async_response
from slack_bolt.adapter.socket_mode.internals import build_headers
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from channels.common.log import Log
from channels.protocol import Clock, InboundSink
from channels.slack.api_errors import TROUBLE
from channels.slack.receiving import Receiver
from channels.slack.settings import SlackAccount
from channels.slack.web_client import SocketConnection

if TYPE_CHECKING:
    from aiohttp import WSMessage
    from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest
    from slack_sdk.web.async_client import AsyncWebClient

_HELLO = "hello"
SHORT = 45.0
"""Seconds of silence after which Slack may have given something up: it offers it again at once, after a minute and after five."""


def is_message(payload: object) -> bool:
    """Return whether an envelope holds a message, which is most of them: it is taken without building a request for slack-bolt."""
    event = payload.get("event") if isinstance(payload, dict) else None
    return isinstance(event, dict) and event.get("type") in {"message", "app_mention"}


class Listener(AsyncBaseSocketModeHandler):
    """One app's connection."""

    client: SocketConnection

    def __init__(
        self, settings: SlackAccount, web: AsyncWebClient, receiver: Receiver, sink: InboundSink, *, clock: Clock, log: Log
    ) -> None:
        self._settings = settings
        self._receiver = receiver
        self._sink = sink
        self._log = log
        self._clock = clock
        self._hellos = 0
        self._heard = clock.monotonic()
        self._silence = 0.0
        self.app = receiver.app
        self.client = SocketConnection(settings, web, receiver.broken)
        self.client.on_message_listeners.append(self._alive)
        self.client.message_listeners.append(self._said)
        self.client.socket_mode_request_listeners.append(self.handle)

    async def run(self) -> None:
        """Listen until cancelled. Raises ChannelBroken when Slack refuses a token."""
        await self._receiver.begin()
        connecting = asyncio.ensure_future(self.client.connect())  # type: ignore[no-untyped-call]
        try:
            answered = None
            while not (await asyncio.wait([self._receiver.broken], timeout=self._settings.ping_seconds))[0]:
                if self.client.last_ping_pong_time != answered:
                    answered = self.client.last_ping_pong_time
                    self._sink.alive()
            self._receiver.broken.result()
        finally:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
            await self.client.close()  # type: ignore[no-untyped-call]

    async def handle(self, client: AsyncBaseSocketModeClient, req: SocketModeRequest) -> None:
        """Take one envelope; see the library. One whose connection ended meanwhile comes again on the next."""
        taking = self._message if is_message(req.payload) else self._dispatched
        try:
            await taking(client, req)
        except TROUBLE as error:
            self._log.info("an envelope was not acknowledged", error=type(error).__name__)

    async def _message(self, client: AsyncBaseSocketModeClient, req: SocketModeRequest) -> None:
        if await self._receiver.message(req.payload):
            await client.send_socket_mode_response(SocketModeResponse(envelope_id=req.envelope_id))

    async def _dispatched(self, client: AsyncBaseSocketModeClient, req: SocketModeRequest) -> None:
        request = AsyncBoltRequest(mode="socket_mode", body=req.payload, headers=build_headers(req))
        await send_async_response(client, req, await self._receiver.dispatch(request), 0.0)

    async def _alive(self, message: WSMessage) -> None:
        self._sink.alive()
        now = self._clock.monotonic()
        if _HELLO in str(message.data)[:40]:
            self._silence = now - self._heard
        self._heard = now

    async def _said(self, _: object, message: dict[str, Any], __: object) -> None:
        """Read on and begin when Slack says hello; it does so on every connection.

        One that follows soon on another, as every few hours, is not read on for: Slack offers again what was not acknowledged.
        """
        if message.get("type") != _HELLO:
            return
        self._hellos += 1
        open_now = message.get("num_connections")
        if isinstance(open_now, int) and open_now > min(self._hellos, 2):
            self._log.warning(
                "another connection of the same app is open: Slack sends each event to only one of them, so half of the messages "
                "may not arrive here. Stop the other program that uses channels.slack.appToken, or make a separate app "
                "for each; a connection left by a crash ends by itself within minutes",
                connections=open_now,
            )
        if self._hellos == 1 or self._silence > SHORT:
            self._receiver.catch_up(self._sink.ready)
        else:
            self._sink.ready()
