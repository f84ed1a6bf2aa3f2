"""What a person sent, as the agent hears it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.messages import Text, UserMessage
from gateway.attachments.intake import Taken
from gateway.inbound.happenings import quoted
from gateway.inbound.happenings import speaker as speaker_of
from gateway.inbound.shelving import shelved

if TYPE_CHECKING:
    from agent.conversation import Conversation
    from gateway.attachments.intake import Intake
    from gateway.inbound.arrived import Arrived


async def heard(conversation: Conversation, arrived: Arrived, intake: Intake | None = None) -> UserMessage:
    """Put a message as the agent hears it: with its speaker where several people hear, its files, and cut where it is too long."""
    inbound = arrived.inbound
    text = told(arrived, await shelved(conversation, inbound.text, arrived.row.uid))
    taken = await intake.take(conversation, arrived) if intake is not None and inbound.attachments else Taken()
    text = "\n".join(filter(None, [text, *taken.lines]))
    speaker = (inbound.sender.name or inbound.sender.id) if arrived.route.audience.kind == "group" else ""
    return UserMessage(content=(Text(text=text), *taken.pictures), at=inbound.at, sender=speaker)


def told(arrived: Arrived, text: str) -> str:
    """Return a message with what belongs before it: what was said and done meanwhile, and what it is a reply to."""
    inbound, who = arrived.inbound, speaker_of(arrived.inbound)
    lines = [f"[Said in this group before, not to you]\n{arrived.before}"] if arrived.before else []
    lines += arrived.asides
    if inbound.quoted.strip():
        lines.append(f"[In reply to: {quoted(inbound.quoted)}]")
    if not lines:
        return text
    return "\n".join([*lines, f"[{who} to you]" if inbound.conversation.kind == "group" else "[The message]", text])
