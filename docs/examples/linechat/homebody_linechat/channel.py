"""The channel: one connection, a JSON object a line each way (see ``server.py`` for what is said)."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import datetime
from typing import TYPE_CHECKING, Any

from channels.common.backoff import Backoff
from channels.common.chunking import fitted
from channels.common.event_guard import EventGuard
from channels.errors import ChannelBroken, NotSent, Uncertain
from channels.messages import ChatAddress, Cursor, Inbound, Sender, Sent
from channels.platform import Platform
from homebody_linechat.settings import LineChatSettings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from channels.common.log import Log
    from channels.messages import Outbound
    from channels.protocol import Clock, InboundSink

LIMIT = 500
ANSWER_SECONDS = 10


def make(settings: LineChatSettings, *, account: str, clock: Clock, log: Log) -> LineChat:
    """Return the channel of one account. Nothing is connected before ``run``."""
    password = settings.password.get_secret_value()
    return LineChat(settings.host, settings.port, password, account=account, clock=clock, log=log)


PLATFORM = Platform(name="linechat", make=make, settings=LineChatSettings)
"""What the entry point names."""


class LineChat:
    """A ``Channel`` that is ``Repeatable`` (the server says a message once, by its key) and ``Beats`` (every half a minute)."""

    name = "linechat"
    repeats_safely = True
    silence = 90.0

    def __init__(self, host: str, port: int, password: str, *, account: str, clock: Clock, log: Log) -> None:
        self.account = account
        self._address = (host, port)
        self._password = password
        self._clock = clock
        self._log = log
        self._guard = EventGuard(log, account)
        self._writer: asyncio.StreamWriter | None = None
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}

    async def run(self, sink: InboundSink) -> None:
        """Stay connected, with ever longer pauses while the server does not answer."""
        backoff = Backoff(self._clock, random.random, self._log, self.account)
        while True:
            try:
                await self._connected(sink, backoff)
                trouble = "the connection ended"
            except (OSError, ValueError) as error:
                trouble = str(error) or type(error).__name__
            await backoff.wait("linechat does not answer", trouble)

    async def _connected(self, sink: InboundSink, backoff: Backoff) -> None:
        reader, self._writer = await asyncio.open_connection(*self._address)
        try:
            await self._say({"hello": self._password, "after": int(await sink.cursor("read") or 0)})
            while line := await reader.readline():
                with self._guard.reading({"kind": "line"}):
                    await self._take(sink, json.loads(line))
                backoff.over()
        finally:
            self._writer.close()
            self._writer = None
            for waiting in self._answers.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the connection was lost"))

    async def _take(self, sink: InboundSink, told: dict[str, Any]) -> None:
        sink.alive()
        match told:
            case {"welcome": _}:
                sink.ready()
            case {"refused": why}:
                raise ChannelBroken(f"linechat: {why}", hint="set channels.plugins.linechat.settings.password anew")
            case {"answer": key} if key in self._answers and not self._answers[key].done():
                self._answers[key].set_result(told)
            case {"id": int(number), "from": str(person), "text": str(text), "at": str(at)}:
                target = str(told["edits"]) if "edits" in told else None
                message = Inbound(
                    conversation=ChatAddress(channel=self.name, account=self.account, kind="direct", id=person),
                    sender=Sender(id=person),
                    text=text,
                    at=datetime.fromisoformat(at),
                    key=f"m:{number}",
                    alias=f"m:{number}",
                    message_id=target or str(number),
                    mentioned=True,
                    event="edited" if target else "message",
                    target=target,
                )
                await self._stored(sink, message, Cursor(name="read", value=str(number)))

    async def _stored(self, sink: InboundSink, message: Inbound, cursor: Cursor) -> None:
        """Offer a message until the gateway has it: the cursor is what the server will read on from."""
        while True:
            try:
                return await sink.accept([message], cursor)
            except Exception as error:  # noqa: BLE001 - what could not be stored must be delivered again
                self._log.warning("a message could not be stored, and is offered again", error=str(error))
                await self._clock.sleep(1)

    def chunks(self, markdown: str) -> list[str]:
        """Cut a reply; the server shows Markdown as it is."""
        return fitted(markdown, LIMIT, str)

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:  # noqa: ARG002 - the key is enough
        """Say one chunk, and wait until the server says that it has it."""
        self._answers[outbound.key] = answer = asyncio.get_running_loop().create_future()
        try:
            await self._say({"say": outbound.text, "to": outbound.conversation.id, "key": outbound.key})
            told = await asyncio.wait_for(answer, ANSWER_SECONDS)
        except (OSError, TimeoutError) as error:
            raise Uncertain(f"linechat: {type(error).__name__}") from error
        finally:
            del self._answers[outbound.key]
        if "id" in told:
            return Sent(platform_id=str(told["id"]))
        raise NotSent(f"linechat: {told['why']}", permanent="wait" not in told, retry_after=told.get("wait"))

    async def typing(self, conversation: ChatAddress) -> None:
        """Show that an answer is being written; nobody misses it where it fails."""
        try:
            await self._say({"typing": conversation.id})
        except (OSError, NotSent):
            self._log.info("typing was not shown")

    async def close(self) -> None:
        """Nothing is left open after ``run``."""

    async def _say(self, told: dict[str, Any]) -> None:
        if self._writer is None:
            raise NotSent("linechat is not connected")
        self._writer.write(json.dumps(told).encode() + b"\n")
        await self._writer.drain()
