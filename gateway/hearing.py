"""What a person sent, as the agent hears it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.messages import Text, UserMessage
from gateway.shelving import shelved

if TYPE_CHECKING:
    from agent.conversation import Conversation
    from gateway.arrived import Arrived


async def heard(conversation: Conversation, arrived: Arrived) -> UserMessage:
    """Put a message as the agent hears it: with its speaker where several people hear, and cut where it is too long."""
    inbound = arrived.inbound
    text = await shelved(conversation, inbound.text, arrived.row.uid)
    speaker = (inbound.sender.name or inbound.sender.id) if arrived.route.audience.kind == "group" else ""
    return UserMessage(content=(Text(text=text),), at=inbound.at, sender=speaker)
