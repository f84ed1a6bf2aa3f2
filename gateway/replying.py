"""What the agent said, as it is sent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.ledger.rows import NewOutbound

if TYPE_CHECKING:
    from channels.protocol import Channel
    from gateway.arrived import Arrived

QUICK_CHARS = 2000


async def replies(channel: Channel, arrived: Arrived, text: str) -> list[NewOutbound]:
    """Cut a reply to a message; a long one in a thread, because parsing Markdown takes its time."""
    pieces = channel.chunks(text) if len(text) < QUICK_CHARS else await asyncio.to_thread(channel.chunks, text)
    return [NewOutbound(conversation=arrived.inbound.conversation, text=piece) for piece in pieces]
