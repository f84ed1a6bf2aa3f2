"""A message as Discord sends it (https://discord.com/developers/docs/resources/message), as an inbound message."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from channels.messages import Conversation, Inbound, Sender

_WRITTEN = {0, 19}
"""Kinds of message that a person wrote: an ordinary one, and a reply."""
THREADS = {10, 11, 12}


@dataclass(frozen=True, slots=True)
class Place:
    """A channel. ``parent`` is the channel that a thread hangs on; ``guild`` is empty for private ones."""

    id: str
    guild: str = ""
    parent: str = ""


def place_of(channel: dict[str, Any]) -> Place:
    """Return the place that a channel object describes."""
    thread = channel.get("type") in THREADS
    parent = str(channel.get("parent_id") or "") if thread else ""
    return Place(str(channel["id"]), str(channel.get("guild_id") or ""), parent)


def inbound(message: dict[str, Any], place: Place, account: str, me: str) -> Inbound | None:
    """Return what a person wrote, or None for everything else: bots, webhooks, notices, messages without text."""
    author = message.get("author") or {}
    if author.get("bot") or message.get("webhook_id") or message.get("type", 0) not in _WRITTEN:
        return None
    text = _readable(message, me)
    if not text:
        return None
    identity, sender = str(message["id"]), str(author["id"])
    if place.guild:
        conversation = Conversation(
            channel="discord",
            account=account,
            kind="group",
            id=place.parent or place.id,
            thread=place.id if place.parent else None,
            space=place.guild,
        )
    else:
        conversation = Conversation(channel="discord", account=account, kind="direct", id=sender)
    answered = message.get("message_reference") or {}
    return Inbound(
        conversation=conversation,
        sender=Sender(id=sender, name=str(author.get("global_name") or author.get("username") or "")),
        text=text,
        at=datetime.fromisoformat(message["timestamp"]),
        key=f"m:{identity}",
        alias=f"m:{identity}",
        message_id=identity,
        reply_to=str(answered["message_id"]) if answered.get("message_id") else None,
        mentioned=not place.guild or _mentioned(message, me),
    )


def _mentioned(message: dict[str, Any], me: str) -> bool:
    answered = (message.get("referenced_message") or {}).get("author") or {}
    return any(str(one.get("id")) == me for one in message.get("mentions") or ()) or str(answered.get("id")) == me


def _readable(message: dict[str, Any], me: str) -> str:
    """Return the text with people's names in place of their ids, and without the mention of the bot itself."""
    names = {
        str(one["id"]): str(one.get("global_name") or one.get("username") or one["id"]) for one in message.get("mentions") or ()
    }
    text = (
        re.sub(rf"<@!?{re.escape(me)}>[ ]?", "", str(message.get("content") or "")) if me else str(message.get("content") or "")
    )
    return re.sub(r"<@!?(\d+)>", lambda found: f"@{names.get(found[1], found[1])}", text).strip()
