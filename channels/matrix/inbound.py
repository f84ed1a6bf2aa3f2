"""Converts an event of a room (https://spec.matrix.org/latest/client-server-api/#instant-messaging) to an inbound message."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from channels.common.shown_names import sticker
from channels.matrix.attachments import attachment_of
from channels.matrix.markup import said
from channels.matrix.rooms import Room
from channels.messages import Inbound, Sender

MESSAGES: Final = frozenset({"m.room.message", "m.sticker", "m.poll.start", "org.matrix.msc3381.poll.start"})
QUOTED_CHARS: Final = 300
_KINDS: Final = frozenset(f"m.{kind}" for kind in ("text", "notice", "emote", "location", "image", "file", "audio", "video"))
PLACE: Final = "[forwarded from a map]"
"""What stands before a place: others gave it its name."""
LONGEST_ID: Final = 255


def relation(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return how an event refers to another one; empty if it does not."""
    found = content.get("m.relates_to")
    return found if isinstance(found, dict) else {}


def thread_of(content: Mapping[str, Any]) -> str | None:
    """Return the event that a thread began with, for a message in one."""
    found = relation(content)
    return _identity(found.get("event_id")) if found.get("rel_type") == "m.thread" else None


def answered(content: Mapping[str, Any]) -> str | None:
    """Return the event that a message replies to. In a thread, what is given for old clients alone is none."""
    found = relation(content)
    if found.get("rel_type") == "m.thread" and found.get("is_falling_back"):
        return None
    reply = found.get("m.in_reply_to")
    return _identity(reply.get("event_id")) if isinstance(reply, dict) else None


def replaced(content: Mapping[str, Any]) -> str | None:
    """Return the message that an edit replaces."""
    found = relation(content)
    return _identity(found.get("event_id")) if found.get("rel_type") == "m.replace" else None


def inbound(event: Mapping[str, Any], room: Room, account: str, *, quoted: tuple[str, str] = ("", "")) -> Inbound | None:
    """Return a person's message; None for one without content. ``quoted`` is who wrote the message that it replies to, and its text."""
    content = event["content"]
    text, files = text_of(event, room.me, room.people.get(room.me, "")), attachment_of(content)
    if not text and not files and room.person is not None and (strange := _unread(content)):
        text = f"[something that cannot be read here: {strange}]"
    if not text and not files:
        return None
    identity, reply = str(event["event_id"]), answered(content)
    return Inbound(
        conversation=room.conversation(account, thread_of(content)),
        sender=sender_of(event, room),
        text=text,
        at=at(event),
        key=f"m:{identity}",
        alias=f"m:{identity}",
        message_id=identity,
        reply_to=reply,
        mentioned=room.person is not None or quoted[0] == room.me or _mentioned(content, room),
        quoted=quoted[1][:QUOTED_CHARS],
        attachments=files,
        from_bot=content.get("msgtype") == "m.notice",
    )


def edited(event: Mapping[str, Any], room: Room, account: str) -> Inbound | None:
    """Return an edit, with the text that the message has now."""
    content, identity = event["content"], str(event["event_id"])
    fresh = content.get("m.new_content")
    if not isinstance(fresh, dict):
        return None
    text = text_of({**event, "content": fresh}, room.me, room.people.get(room.me, ""))
    return Inbound(
        conversation=room.conversation(account, thread_of(fresh)),
        sender=sender_of(event, room),
        text=text,
        at=at(event),
        key=f"e:{identity}",
        alias=f"e:{identity}",
        message_id=str(replaced(content)),
        mentioned=room.person is not None or _mentioned(fresh, room),
        event="edited",
        target=replaced(content),
        from_bot=fresh.get("msgtype") == "m.notice",
    )


def reaction(event: Mapping[str, Any], room: Room, account: str, *, value: str | None, thread: str | None) -> Inbound:
    """Return a reaction; ``value`` is that of the button for which it stands, if it stands for one."""
    found, identity = relation(event["content"]), str(event["event_id"])
    return Inbound(
        conversation=room.conversation(account, thread),
        sender=sender_of(event, room),
        text=str(found["key"])[:100] if value is None else value,
        at=at(event),
        key=f"r:{identity}",
        alias=f"r:{identity}",
        message_id=identity,
        mentioned=room.person is not None,
        event="reaction" if value is None else "button",
        target=_identity(found["event_id"]),
    )


def at(event: Mapping[str, Any]) -> datetime:
    """Return when an event was sent, as its sender's homeserver says."""
    return datetime.fromtimestamp(int(event["origin_server_ts"]) / 1000, UTC)


def sender_of(event: Mapping[str, Any], room: Room) -> Sender:
    """Return the sender, by the full id. The person behind a bridge has an id of their own."""
    person = str(event["sender"])
    return Sender(id=person, name=room.people.get(person, "") or person[1:].partition(":")[0])


def text_of(event: Mapping[str, Any], me: str, my_name: str) -> str:
    """Return the text of a message, with descriptions of stickers, polls and places; the mention of the agent is left out."""
    content = event["content"]
    kind = str(event["type"])
    if kind != "m.room.message":
        return _poll(content) if kind.endswith("poll.start") else sticker(content.get("body"))
    text = said(content)
    match content.get("msgtype"):
        case "m.emote":
            return f"* {text}"
        case "m.location":
            return f"{PLACE}\n[location: {text} {str(content.get('geo_uri') or '')[:200]}]"
        case "m.image" | "m.file" | "m.audio" | "m.video":
            name = content.get("filename")
            return text if isinstance(name, str) and name != content.get("body") else ""
        case _:
            return _unaddressed(text, me, my_name) if content.get("msgtype") in {"m.text", "m.notice"} else ""


def _unread(content: Mapping[str, Any]) -> str:
    """Return the kind of a message that nothing here reads, "" for one that is known or names none."""
    kind = content.get("msgtype")
    return kind if isinstance(kind, str) and kind not in _KINDS and re.fullmatch(r"[\w.-]{1,80}", kind) else ""


def _unaddressed(text: str, me: str, name: str) -> str:
    """Return the text without a mention of the agent at its beginning, as clients write it: ``Homebody: what now?``."""
    for called in filter(None, (me, name, me[1:].partition(":")[0])):
        found = re.match(rf"@?{re.escape(called)}(?:[:,]\s*|\s+|$)", text, re.IGNORECASE)
        if found:
            return text[found.end() :].strip()
    return text


def _mentioned(content: Mapping[str, Any], room: Room) -> bool:
    """Return whether a message names the agent. Clients that know ``m.mentions`` say so there; elsewhere the text must hold its full id."""
    named = content.get("m.mentions")
    if isinstance(named, dict):
        people = named.get("user_ids")
        return isinstance(people, list) and room.me in people
    text = f"{content.get('body') or ''} {content.get('formatted_body') or ''}"
    return bool(re.search(rf"(?<![\w@]){re.escape(room.me)}(?![\w.-])", text))


def _poll(content: Mapping[str, Any]) -> str:
    poll = content.get("m.poll") or content.get("m.poll.start") or content.get("org.matrix.msc3381.poll.start") or {}
    answers = [_words(one) for one in poll.get("answers") or ()]
    return f"[poll: {_words(poll.get('question') or {})} {' / '.join(answers)}]"


def _words(part: Mapping[str, Any]) -> str:
    for key in ("m.text", "org.matrix.msc1767.text", "body"):
        found = part.get(key)
        if isinstance(found, list) and found and isinstance(found[0], dict):
            found = found[0].get("body")
        if isinstance(found, str):
            return found[:200]
    return ""


def _identity(value: object) -> str | None:
    return value if isinstance(value, str) and 1 < len(value) <= LONGEST_ID else None
