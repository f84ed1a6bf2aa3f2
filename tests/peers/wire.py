"""A chat platform in memory: rooms and private chats with any number of people, and everything that the bot did there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from channels.messages import Attachment, ChatAddress, Inbound, Sender, Sent
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from channels.messages import Outbound
    from channels.protocol import InboundSink

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Wire:
    """One bot on the platform ``name``. Keys are counted by ``first`` on, so that a later one repeats nothing of an earlier one."""

    name: str = "wire"
    account: str = "default"
    first: int = 1
    sent: list[Outbound] = field(default_factory=list)
    reactions: list[tuple[str, str | None]] = field(default_factory=list)
    typed: list[str] = field(default_factory=list)
    gate: asyncio.Event | None = None
    """Reactions wait for it, where there is one."""

    def __post_init__(self) -> None:
        self._door: asyncio.Future[InboundSink] = asyncio.get_running_loop().create_future()
        self._news = asyncio.Event()
        self._count = self.first

    async def run(self, door: InboundSink) -> None:
        self._door.set_result(door)
        door.ready()
        await asyncio.get_running_loop().create_future()

    def chunks(self, markdown: str) -> list[str]:
        return [markdown] if markdown.strip() else []

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        del record
        if outbound.key not in {one.key for one in self.sent}:
            self.sent.append(outbound)
        self._news.set()
        return Sent(platform_id=f"p{len(self.sent)}")

    async def typing(self, conversation: ChatAddress) -> None:
        self.typed.append(conversation.id)
        self._news.set()

    async def react(self, conversation: ChatAddress, message_id: str, emoji: str | None) -> None:
        del conversation
        if self.gate is not None and emoji is not None:
            await self.gate.wait()
        self.reactions.append((message_id, emoji))
        self._news.set()

    async def close(self) -> None:
        return

    # -- people ------------------------------------------------------------------------------------------------------

    def message(
        self, text: str, *, by: str = "anna", group: str | None = None, thread: str | None = None, **more: Any
    ) -> Inbound:
        number, self._count = self._count, self._count + 1
        place = ChatAddress(
            channel=self.name,
            account=self.account,
            kind="group" if group else "direct",
            id=group or by,
            thread=thread,
            space=more.pop("space", None),
        )
        return replace(
            Inbound(
                conversation=place,
                sender=Sender(id=by, name=by.title()),
                text=text,
                at=NOON,
                key=f"u:{number}",
                alias=f"m:{number}",
                message_id=str(number),
                mentioned=group is None,
            ),
            **more,
        )

    async def say(self, *texts: str, **more: Any) -> list[str]:
        """Say something, each in a delivery of its own; return the ids of the messages."""
        said = [self.message(text, **more) for text in texts]
        for one in said:
            await self.deliver(one)
        return [one.message_id for one in said]

    async def deliver(self, *messages: Inbound) -> None:
        await (await self._door).accept(list(messages))

    def said(self, place: str | None = None) -> list[str]:
        """What the bot said, in one room or in all."""
        return [one.text for one in self.sent if place is None or one.conversation.id == place]

    async def until(self, wanted: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not wanted():
                self._news.clear()
                await self._news.wait()


def picture(number: int = 1) -> Attachment:
    return Attachment(kind="image", handle=f"h{number}", name=f"{number}.png", media_type="image/png", size=10)
