"""A channel on the WhatsApp peer with a clock that is set by hand, and a door that writes everything down."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from channels.messages import ChatAddress, Outbound
from channels.protocol import HookRequest
from channels.whatsapp.channel import WhatsAppChannel
from channels.whatsapp.settings import WhatsAppSettings
from tests.peers.door import BookDoor
from tests.peers.mood import CALM
from tests.peers.whatsapp import APP_SECRET, NUMBER_ID, TOKEN, WhatsAppPeer
from tests.peers.whatsapp_calls import signed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from channels.messages import Sent

ANNA = "4915123456789"
BEN = "4930111222333"


class Hours:
    """Real time, and as many hours more as a test says. Waiting takes no longer than it does."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead.total_seconds()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Book:
    """A log that is looked at."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, event: str, **facts: Any) -> None:
        self.lines.append(f"{event} {facts}")

    warning = info


@dataclass
class Line:
    peer: WhatsAppPeer
    channel: WhatsAppChannel
    door: BookDoor
    clock: Hours
    log: Book
    recorded: str | None = None

    async def send(self, text: str, key: str = "key-1", *, to: str = ANNA, **more: Any) -> Sent:
        async def record(noted: str) -> None:
            self.recorded = noted

        return await self.channel.send(Outbound(key=key, conversation=place(to), text=text, **more), record)

    async def heard(self, *texts: str) -> None:
        await self.door.until(lambda: list(texts) == self.door.texts[-len(texts) :])

    async def call(self, payload: dict[str, Any], *, secret: str = APP_SECRET, **headers: str) -> int:
        """Call the channel as Meta does; return the status of the answer."""
        body, head = signed(payload, secret)
        return (await self.channel.hear(HookRequest(method="POST", query="", headers=head | headers, body=body))).status


def place(person: str) -> ChatAddress:
    return ChatAddress(channel="whatsapp", kind="direct", id=person)


def settings_of(peer: WhatsAppPeer, **changed: Any) -> WhatsAppSettings:
    given = {"phoneNumberId": NUMBER_ID, "accessToken": TOKEN, "appSecret": APP_SECRET, "apiRoot": peer.root}
    return WhatsAppSettings.model_validate({**given, "allowFrom": [ANNA], "timeoutSeconds": 5, "confirmSeconds": 5, **changed})


@asynccontextmanager
async def line(
    peer: WhatsAppPeer, door: BookDoor | None = None, clock: Hours | None = None, **changed: Any
) -> AsyncIterator[Line]:
    """Run a channel until it is connected."""
    door, clock, log = door or BookDoor(), clock or Hours(), Book()
    channel = WhatsAppChannel(settings_of(peer, **changed), "default", clock=clock, log=log, random=lambda: 0.0)

    async def called(method: str, query: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        answer = await channel.hear(HookRequest(method=method, query=query, headers=headers, body=body))
        return answer.status, answer.body

    peer.call_at(called)
    before = door.readied
    running = asyncio.ensure_future(channel.run(door))
    try:
        while door.readied == before and not running.done():  # noqa: ASYNC110 - the door tells of messages alone
            await asyncio.sleep(0.005)
        if running.done():
            running.result()
        yield Line(peer, channel, door, clock, log)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def calm() -> WhatsAppPeer:
    return WhatsAppPeer(mood=CALM)
