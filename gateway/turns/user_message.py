"""Builds the user message for the agent from a message of a person."""

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
    """Return the user message: with its sender unless it is the owner in private, with its files, and cut where it is too long."""
    inbound = arrived.inbound
    text = told(arrived, body(await shelved(conversation, inbound.text, arrived.row.uid), arrived.row.uid))
    taken = await intake.take(conversation, arrived) if intake is not None and inbound.attachments else StoredFiles()
    text = "\n".join(filter(None, [text, *taken.lines]))
    return UserMessage(content=(Text(text=text), *taken.pictures), at=inbound.at, sender=head_of(arrived))


def told(arrived: RoutedMessage, text: str) -> str:
    """Return a text with its context before it: earlier group messages, events, and what it replies to."""
    inbound, salt = arrived.inbound, arrived.row.uid
    lines = [f"[Said in this group before, not to you]\n{fenced('said', arrived.before, salt)}"] if arrived.before else []
    lines += arrived.context_events
    if inbound.quoted.strip():
        lines.append(f"[In reply to: {quoted(inbound.quoted)}]")
    if not lines:
        return text
    return "\n".join([*lines, "[The message]", text])
