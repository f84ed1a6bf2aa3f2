"""What the agent said, as it is sent."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from channels.common.chunking import as_written, utf16_length
from gateway.ledger.rows import NewOutbound
from gateway.outbound.reply_tags import untagged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from channels.messages import Button
    from channels.protocol import Channel
    from gateway.outbound.reply_tags import Tagged
    from gateway.outbound.secret_filter import SecretFilter
    from gateway.routing.routed_message import RoutedMessage

    Knows = Callable[[str, str], Awaitable[bool]]
    """Says whether a platform's id names a message of the conversation with an address."""

log = logging.getLogger(__name__)

QUICK_CHARS = 600
"""A text of so many letters is cut at once; a longer one in a thread, because parsing takes its time."""
PLAIN_CHARS = 1500
"""How long a message may be on every platform: what a channel cannot cut is said in pieces of this length."""


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
    """Cut a reply to a message. One that the channel cannot cut, whatever the reason, is said as it was written.

    What it is shown as a reply to is said by a tag in the text, or by the channel's ``reply_to_mode``. Buttons go under the last piece.
    ``continued``: it goes on from what was sent already.
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
        log.exception("%s could not cut a reply of %d letters; it is said as it was written", channel.name, len(text))
        return as_written(text, PLAIN_CHARS, utf16_length)


async def _target(arrived: RoutedMessage, said: Tagged, knows: Knows | None) -> str | None:
    """Return the message that a tag names, where it is one of this conversation."""
    if said.current:
        return arrived.inbound.message_id or None
    if said.target is None or knows is None:
        return None
    return said.target if await knows(arrived.inbound.conversation.address, said.target) else None
