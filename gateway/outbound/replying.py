"""Turns an agent's reply into outbox chunks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from channels.common.chunking import as_written, utf16_length
from channels.messages import Button
from channels.protocol import Channel
from gateway.ledger.rows import NewOutbound
from gateway.outbound.reply_tags import Tagged, untagged
from gateway.outbound.secret_filter import SecretFilter
from gateway.routing.routed_message import RoutedMessage

Knows = Callable[[str, str], Awaitable[bool]]
"""Returns whether a message id belongs to the conversation with an address."""

log = logging.getLogger(__name__)

QUICK_CHARS = 600
"""Texts up to this many characters are split in the event loop; longer ones in a thread, because parsing them takes time."""
PLAIN_CHARS = 1500
"""Length that all platforms accept, in characters; used if a channel cannot split a text."""


async def replies(
    channel: Channel,
    arrived: RoutedMessage,
    text: str,
    *,
    knows: Knows | None = None,
    buttons: Sequence[Button] = (),
    continued: bool = False,
    held: SecretFilter | None = None,
) -> list[NewOutbound]:
    """Split a reply into chunks. If the channel fails to split it, it is sent as plain text.

    The message it replies to is named by a tag in the text, or follows from the channel's ``reply_to_mode``. Buttons are added to
    the last chunk. ``continued``: a part of the reply was sent already.
    """
    place = arrived.inbound.conversation
    said = untagged(
        text if held is None else held.text(text, place.address)
    )  # before it is cut, which could cut a secret in two
    pieces = _pieces(channel, said.text) if len(text) < QUICK_CHARS else await asyncio.to_thread(_pieces, channel, said.text)
    mode = getattr(channel, "reply_to_mode", "off") if place.kind == "group" else "off"
    usual = arrived.inbound.message_id or None if mode != "off" else None
    rest = usual if mode == "all" else None
    first = await _target(arrived, said, knows) or (rest if continued else usual)
    rows = [NewOutbound(conversation=place, text=piece, reply_to=rest if n else first) for n, piece in enumerate(pieces)]
    return [*rows[:-1], replace(rows[-1], buttons=tuple(buttons))] if rows and buttons else rows


def _pieces(channel: Channel, text: str) -> list[str]:
    try:
        return channel.chunks(text)
    except Exception:  # an answer is owed: whatever fails in laying it out, its words are said
        log.exception("%s could not split a reply of %d characters; sending it as plain text", channel.name, len(text))
        return as_written(text, PLAIN_CHARS, utf16_length)


async def _target(arrived: RoutedMessage, said: Tagged, knows: Knows | None) -> str | None:
    """Return the message that a tag names, if it belongs to this conversation."""
    if said.current:
        return arrived.inbound.message_id or None
    if said.target is None or knows is None:
        return None
    return said.target if await knows(arrived.inbound.conversation.address, said.target) else None
