"""Receiving from Slack over Socket Mode: each event is acknowledged only after the house has it.

Slack offers an event again that is not acknowledged, a few times. What came in an outage longer than that is read by the Web API
from the newest message taken, before anything is said to be ready. Importing this module loads the library.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

from slack_bolt.adapter.socket_mode.async_base_handler import AsyncBaseSocketModeHandler
from slack_bolt.adapter.socket_mode.async_internals import run_async_bolt_app, send_async_response
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.errors import SlackApiError

from channels.messages import Cursor
from channels.reading import CURSOR, ReadingMarks
from channels.slack.client import TROUBLE, Ear, code_of
from channels.slack.inbound import inbound, order

if TYPE_CHECKING:
    from collections.abc import Callable

    from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest
    from slack_sdk.web.async_client import AsyncWebClient

    from channels.clock import Clock
    from channels.log import Log
    from channels.messages import Inbound
    from channels.protocol import Door
    from channels.slack.settings import SlackAccount

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
PAGE = 200


class Receiver(AsyncBaseSocketModeHandler):
    """One app's ear. Events are taken one after the other, in the order they came."""

    app: AsyncApp
    client: Ear

    def __init__(
        self,
        settings: SlackAccount,
        account: str,
        web: AsyncWebClient,
        *,
        me: str,
        team: str,
        door: Door,
        clock: Clock,
        random: Callable[[], float],
        log: Log,
        dms: dict[str, str],
    ) -> None:
        self._settings = settings
        self._account = account
        self._web = web
        self._me = me
        self._team = team
        self._door = door
        self._clock = clock
        self._random = random
        self._log = log
        self._dms = dms
        self._marks = ReadingMarks(order)
        self._failures = 0
        self._in_order = asyncio.Lock()
        self.app = AsyncApp(client=web, process_before_response=True, logger=logging.getLogger("slack_bolt"))
        for kind in ("message", "app_mention"):
            self.app.event(kind)(self._event)
        self.app.event(re.compile(".*"))(self._passed_over)
        self.client = Ear(settings, web)
        self.client.on_message_listeners.append(self._alive)
        self.client.message_listeners.append(self._said)
        self.client.socket_mode_request_listeners.append(self.handle)

    async def run(self) -> None:
        """Listen until cancelled. Raises ChannelBroken when Slack refuses the token for events."""
        self._marks = ReadingMarks(order, await self._door.cursor(CURSOR))
        connecting = asyncio.ensure_future(self.client.connect())  # type: ignore[no-untyped-call]
        try:
            answered = None
            while not (await asyncio.wait([self.client.broken], timeout=self._settings.ping_seconds))[0]:
                if self.client.last_ping_pong_time != answered:
                    answered = self.client.last_ping_pong_time
                    self._door.alive()
            self.client.broken.result()
        finally:
            connecting.cancel()
            await asyncio.gather(connecting, return_exceptions=True)
            await self.client.close()  # type: ignore[no-untyped-call]

    async def handle(self, client: AsyncBaseSocketModeClient, req: SocketModeRequest) -> None:
        """Take one envelope; see the library."""
        async with self._in_order:
            answer = await run_async_bolt_app(self.app, req)
            await send_async_response(client, req, answer, 0.0)

    async def _alive(self, _: object) -> None:
        self._door.alive()

    async def _said(self, _: object, message: dict[str, Any], __: object) -> None:
        """Read on and begin when Slack says hello; it does so on every connection."""
        if message.get("type") == "hello":
            async with self._in_order:
                for channel, mark in self._marks.all().items():
                    await self._read_on(channel, mark)
                self._door.ready()

    async def _event(self, body: dict[str, Any], event: dict[str, Any]) -> None:
        await self._take([event], event_id=str(body.get("event_id") or ""), team=str(body.get("team_id") or self._team))

    async def _passed_over(self, event: dict[str, Any]) -> None:
        self._log.info("passed an event over", kind=event.get("type"), account=self._account)

    async def _take(self, events: list[dict[str, Any]], *, event_id: str = "", team: str) -> None:
        messages: list[Inbound] = []
        for event in events:
            message = inbound(event, team=team, account=self._account, me=self._me, event_id=event_id)
            if message is None or not self._reads(message, str(event["channel"])):
                continue
            if message.conversation.kind == "direct":
                self._dms[message.sender.id] = str(event["channel"])
            self._marks.note(str(event["channel"]), message.message_id)
            messages.append(message)
        while messages:
            try:
                await self._door.accept(messages, Cursor(name=CURSOR, value=self._marks.written()))
            except Exception as error:  # noqa: BLE001 - whatever the house could not store must be offered again
                await self._pause("messages could not be stored, and are offered again", error)
            else:
                self._failures = 0
                return

    def _reads(self, message: Inbound, channel: str) -> bool:
        if message.conversation.kind == "direct":
            return self._settings.dm.enabled and self._settings.dm.policy != "disabled"
        return self._settings.reads(channel)

    async def _read_on(self, channel: str, mark: str) -> None:
        """Take what was written in a channel since the mark, oldest first."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            try:
                page = await self._web.conversations_history(channel=channel, oldest=mark, limit=PAGE, cursor=cursor)
            except SlackApiError as error:
                if code_of(error) != "ratelimited":
                    self._log.warning("a channel could not be read on", error=code_of(error), channel=channel)
                    return
                await self._pause("slack asks to wait", error)
            except TROUBLE as error:
                await self._pause("a channel could not be read on", error)
            else:
                found += page.get("messages") or []
                cursor = (page.get("response_metadata") or {}).get("next_cursor") or None
                if cursor is None:
                    break
        ordered = sorted(found, key=lambda one: order(one["ts"]))
        await self._take([{**one, "channel": channel} for one in ordered], team=self._team)

    async def _pause(self, event: str, error: Exception) -> None:
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        pause = longest * (0.5 + self._random() / 2)
        self._log.warning(event, error=str(error), pause=round(pause, 1), account=self._account)
        await self._clock.sleep(pause)
