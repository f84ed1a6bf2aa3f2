"""Builds the user message for the agent from a message of a person."""

from __future__ import annotations

from agent.context.session_context import SessionContext
from agent.messages import Text, ToolCall, UserMessage
from agent.models import token_estimate
from gateway.media.incoming import IncomingFiles, StoredFiles
from gateway.routing.routed_message import RoutedMessage
from gateway.turns.quoting import body, fenced, head_of, quoted

SHOWN_CHARS = 4000
SHARE = 4
"""A message may fill this part of the window: a quarter."""
ENOUGH = 20
"""Of a very long message so many characters a token are looked at: no text has more, and looking at it all would take seconds."""
PART_CHARS = 2_000_000
"""A longer message becomes several files, each of which the file tools can read in whatever script it is."""


async def user_message(
    conversation: SessionContext, message: RoutedMessage, intake: IncomingFiles | None = None
) -> UserMessage:
    """Return the user message: with its sender unless it is the owner in private, with its files, and cut where it is too long."""
    inbound = message.inbound
    text = with_context(message, body(await _shortened(conversation, inbound.text, message.row.uid), message.row.uid))
    taken = await intake.take(conversation, message) if intake is not None and inbound.attachments else StoredFiles()
    text = "\n".join(filter(None, [text, *taken.lines]))
    return UserMessage(content=(Text(text=text), *taken.pictures), at=inbound.at, sender=head_of(message))


def with_context(message: RoutedMessage, text: str) -> str:
    """Return a text with its context before it: earlier group messages, events, and what it replies to."""
    inbound, salt = message.inbound, message.row.uid
    lines = [f"[Said in this group before, not to you]\n{fenced('said', message.before, salt)}"] if message.before else []
    lines += message.context_events
    if inbound.quoted.strip():
        lines.append(f"[In reply to: {quoted(inbound.quoted)}]")
    if not lines:
        return text
    return "\n".join([*lines, "[The message]", text])


async def _shortened(conversation: SessionContext, text: str, name: str) -> str:
    """Return ``text``, or where it is too long its beginning and where the whole of it now lies.

    The same ``name`` always gives the same file, so that a repeat after a crash changes nothing.
    """
    limit = conversation.window.size // SHARE
    if len(text) <= limit or token_estimate.estimate(text[: limit * ENOUGH]) <= limit:
        return text
    parts = [text[at : at + PART_CHARS] for at in range(0, len(text), PART_CHARS)]
    paths = [f"{conversation.audience.inbox}/{name}{f'.{n}' if n else ''}.txt" for n in range(len(parts))]
    trouble = ""
    for path, part in zip(paths, parts, strict=True):
        call = ToolCall(id="shelve", name="write", arguments={"path": path, "content": part, "mode": "create"})
        result = await conversation.keep(call, "shelving")
        trouble = trouble or (result.text if result.is_error else "")
    lies = trouble or f"The whole of it is in {', '.join(paths)}: read it in parts, or search it with grep."
    return f"{text[:SHOWN_CHARS]}\n\n[cut: this message has {len(text):,} characters, too many for my window. {lies}]"
