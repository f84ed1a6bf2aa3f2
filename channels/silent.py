"""The conversation of sessions that speak with nobody: replies to it are not sent anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from channels.messages import ChatAddress, Outbound, Sent
from channels.protocol import InboundSink

NAME: Final = "internal"


class SilentChannel:
    """A ``Channel`` without a platform. What is sent to it counts as delivered and is shown to nobody."""

    name = NAME
    account = "default"

    async def run(self, sink: InboundSink) -> None:
        """Receive nothing until cancelled."""
        sink.ready()
        await asyncio.Event().wait()

    def chunks(self, markdown: str) -> list[str]:
        """Return nothing: a reply here has no reader."""
        del markdown
        return []

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Count a chunk as delivered."""
        del record
        return Sent(platform_id=outbound.key)

    async def typing(self, conversation: ChatAddress) -> None:
        """Show nothing."""

    async def close(self) -> None:
        """Nothing is open."""


def silent_place(session: str) -> ChatAddress:
    """Return the conversation of a session whose replies are sent nowhere."""
    return ChatAddress(channel=NAME, kind="direct", id=session)


def is_silent(place: ChatAddress) -> bool:
    """Return whether what is said in a conversation is sent nowhere."""
    return place.channel == NAME
