"""Converts a Discord message (https://discord.com/developers/docs/resources/message) to an inbound message."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeGuard

from msgspec.structs import replace

from channels.common.shown_names import shown_name, sticker
from channels.discord.attachments import attachments_of
from channels.messages import ChatAddress, Inbound, Sender

_WRITTEN = {0, 19}
"""Kinds of message that somebody wrote: an ordinary one, and a reply."""
_SNOWFLAKE = re.compile(r"[0-9]{1,20}")
_STARTER = 21
"""The kind of the notice that a thread begins with: it refers to the message that the thread was opened under."""
THREADS = {10, 11, 12}
QUOTED_CHARS = 300


@dataclass(frozen=True, slots=True)
class Place:
    """A Discord channel. ``parent`` is the channel or forum of a thread or post; ``guild`` is empty for private channels.

    ``owner`` opened the thread.
    """

    id: str
    guild: str = ""
    parent: str = ""
    owner: str = ""

    def conversation(self, account: str, person: str) -> ChatAddress:
        """Return the address of messages of ``person`` here: a private channel has the person's id, a thread its parent's."""
        if not self.guild:
            return ChatAddress(channel="discord", account=account, kind="direct", id=person)
        thread = self.id if self.parent else None
        return ChatAddress(
            channel="discord", account=account, kind="group", id=self.parent or self.id, thread=thread, space=self.guild
        )


def is_snowflake(identity: object) -> TypeGuard[str]:
    """Return whether something is an id of Discord's."""
    return isinstance(identity, str) and _SNOWFLAKE.fullmatch(identity) is not None


def snowflake(identity: str) -> int:
    """Return a Discord id as a number. Raises ValueError if it is none."""
    if not is_snowflake(identity):
        raise ValueError(f"not a Discord id: {identity[:40]!r}")
    return int(identity)


def place_of(channel: dict[str, Any]) -> Place:
    """Return the place that a channel object describes."""
    thread = channel.get("type") in THREADS
    parent = str(channel.get("parent_id") or "") if thread else ""
    owner = str(channel.get("owner_id") or "") if parent else ""
    return Place(str(channel["id"]), str(channel.get("guild_id") or ""), parent, owner)


def inbound(message: dict[str, Any], place: Place, account: str, me: str, *, bots: bool = False) -> Inbound | None:
    """Return a person's message; None for the bot's own, notices, empty ones, and those of other bots unless ``bots``."""
    author = message.get("author") or {}
    program = bool(author.get("bot") or message.get("webhook_id"))
    if "id" not in author or message.get("type", 0) not in _WRITTEN or str(author["id"]) == me or (program and not bots):
        return None
    text, attachments = _said(message, me), attachments_of(message)
    if not text and not attachments:
        return None
    identity, answered = str(message["id"]), message.get("message_reference") or {}
    reply = answered.get("message_id") if not answered.get("type") else None
    return Inbound(
        conversation=place.conversation(account, str(author["id"])),
        sender=sender_of(author),
        text=text,
        at=datetime.fromisoformat(message["timestamp"]),
        key=f"m:{identity}",
        alias=f"m:{identity}",
        message_id=identity,
        reply_to=str(reply) if reply else None,
        mentioned=not place.guild or _mentioned(message, me) or place.owner == me,
        quoted=_readable(message.get("referenced_message") or {}, me)[:QUOTED_CHARS],
        attachments=attachments,
        from_bot=program,
    )


def edited(message: dict[str, Any], place: Place, account: str, me: str, *, bots: bool = False) -> Inbound | None:
    """Return an edited message; None if only Discord changed it, such as by adding a link preview."""
    at = message.get("edited_timestamp")
    if not at:
        return None
    found = inbound(message, place, account, me, bots=bots)
    if found is None:
        return None
    key = f"e:{found.message_id}:{at}"
    return replace(found, event="edited", target=found.message_id, key=key, alias=key, at=datetime.fromisoformat(at))


def spoken(message: dict[str, Any], me: str) -> str:
    """Return the text of a message as it is read."""
    return _readable(message, me)


def mentions(message: dict[str, Any], me: str) -> bool:
    """Return whether a message mentions or answers the bot."""
    return _mentioned(message, me)


def starter(message: dict[str, Any], me: str) -> str:
    """Return the beginning of the message that a thread was opened on, if this is the thread's notice; else an empty string."""
    if message.get("type") != _STARTER:
        return ""
    return _readable(message.get("referenced_message") or {}, me)[:QUOTED_CHARS]


def sender_of(user: dict[str, Any]) -> Sender:
    """Return the sender, identified by their id."""
    return Sender(id=str(user["id"]), name=str(user.get("global_name") or user.get("username") or ""))


def _mentioned(message: dict[str, Any], me: str) -> bool:
    answered = (message.get("referenced_message") or {}).get("author") or {}
    return any(str(one.get("id")) == me for one in message.get("mentions") or ()) or str(answered.get("id")) == me


def _said(message: dict[str, Any], me: str) -> str:
    """Return the text, with descriptions of forwarded messages, stickers and polls."""
    forwarded = [_readable(one.get("message") or {}, me) for one in message.get("message_snapshots") or ()]
    parts = [_readable(message, me), *(f"[forwarded]\n{text}".strip() for text in forwarded)]
    parts += [sticker(one.get("name")) for one in message.get("sticker_items") or ()]
    if poll := message.get("poll"):
        answers = [str((one.get("poll_media") or {}).get("text") or "") for one in poll.get("answers") or ()]
        parts.append(f"[poll: {(poll.get('question') or {}).get('text', '')} {' / '.join(answers)}]")
    return "\n".join(part for part in parts if part)


def _readable(message: dict[str, Any], me: str) -> str:
    """Return the text with the names of people beside their ids, and without the mention of the bot. Each chose their name themselves."""
    names = {str(one["id"]): shown_name(one.get("global_name") or one.get("username")) for one in message.get("mentions") or ()}

    def shown(found: re.Match[str]) -> str:
        name = names.get(found[1])
        return f"@{name} ({found[1]})" if name else f"@{found[1]}"

    text = str(message.get("content") or "")
    if me:
        text = re.sub(rf"<@!?{re.escape(me)}>[ ]?", "", text)
    return re.sub(r"<@!?(\d+)>", shown, text).strip()


def facts(name: str, event: object) -> dict[str, str]:
    """Return the values to log for an event: its kind, channel and user, as far as present."""
    content = event if isinstance(event, dict) else {}
    member = content.get("member") if isinstance(content.get("member"), dict) else {}
    user = content.get("author") or content.get("user") or (member or {}).get("user") or {}
    by = user.get("id") if isinstance(user, dict) else content.get("user_id")
    return {"kind": name, "channel": str(content.get("channel_id"))[:40], "user": str(by or content.get("user_id"))[:40]}
