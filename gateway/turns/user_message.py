"""What a person sent, as the agent hears it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.messages import Text, UserMessage
from gateway.media.incoming import StoredFiles
from gateway.turns.long_messages import shelved
from gateway.turns.quoting import body, fenced, head_of, quoted

if TYPE_CHECKING:
    from agent.context.session_context import SessionContext
    from gateway.media.incoming import IncomingFiles
    from gateway.routing.routed_message import RoutedMessage


async def user_message(
    conversation: SessionContext, arrived: RoutedMessage, intake: IncomingFiles | None = None
) -> UserMessage:
    """Put a message as the agent hears it: with its speaker unless it is the owner in private, its files, and cut where too long."""
    inbound = arrived.inbound
    text = told(arrived, body(await shelved(conversation, inbound.text, arrived.row.uid), arrived.row.uid))
    taken = await intake.take(conversation, arrived) if intake is not None and inbound.attachments else StoredFiles()
    text = "\n".join(filter(None, [text, *taken.lines]))
    return UserMessage(content=(Text(text=text), *taken.pictures), at=inbound.at, sender=head_of(arrived))


def told(arrived: RoutedMessage, text: str) -> str:
    """Return a message with what belongs before it: what was said and done meanwhile, and what it is a reply to."""
    inbound, salt = arrived.inbound, arrived.row.uid
    lines = [f"[Said in this group before, not to you]\n{fenced('said', arrived.before, salt)}"] if arrived.before else []
    lines += arrived.asides
    if inbound.quoted.strip():
        lines.append(f"[In reply to: {quoted(inbound.quoted)}]")
    if not lines:
        return text
    return "\n".join([*lines, "[The message]", text])
