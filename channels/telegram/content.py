"""Attachments of a message, and short descriptions of content such as locations. Importing this module loads the client library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from channels.messages import Attachment, AttachmentKind
from channels.telegram.rich_messages import rich

if TYPE_CHECKING:
    from telegram import Message, PhotoSize, Sticker

LONGEST_QUOTE = 500
_FILES: tuple[tuple[str, AttachmentKind, str], ...] = (
    ("voice", "voice", "audio/ogg"),
    ("audio", "audio", ""),
    ("animation", "video", "video/mp4"),
    ("video", "video", ""),
    ("video_note", "video", "video/mp4"),
    ("document", "document", ""),
)


def attachments(message: Message) -> tuple[Attachment, ...]:
    """Return the files of a message: of a photo the largest size, of an animation not the document that repeats it."""
    found = [_file(kind, one, media) for name, kind, media in _FILES if (one := getattr(message, name)) is not None]
    if message.forward_origin is None and message.via_bot is None:
        found = [replace(one, recorded=one.kind == "voice") for one in found]
    if message.animation is not None:
        found = found[:1]
    if message.photo:
        largest: PhotoSize = max(message.photo, key=lambda one: one.width * one.height)
        found.append(_file("image", largest, "image/jpeg"))
    if message.sticker is not None and not message.sticker.is_animated:
        found.append(_sticker(message.sticker))
    return tuple(found)


def _file(kind: AttachmentKind, file: Any, media_type: str) -> Attachment:
    name = getattr(file, "file_name", None) or ""
    media_type = getattr(file, "mime_type", None) or media_type
    return Attachment(kind=kind, handle=file.file_id, name=name, media_type=media_type, size=file.file_size)


def _sticker(sticker: Sticker) -> Attachment:
    return _file("video", sticker, "video/webm") if sticker.is_video else _file("image", sticker, "image/webp")


def described(message: Message) -> str:
    """Return a description in brackets of content other than text and files, such as a location; empty for service messages."""
    return "\n".join(f"[{line}]" for line in _descriptions(message) if line)


def _descriptions(message: Message) -> Iterator[str]:
    if message.sticker is not None:
        named = f" of the set {message.sticker.set_name}" if message.sticker.set_name else ""
        yield f"sticker {message.sticker.emoji or ''}".rstrip() + named
    yield _place(message)
    if message.contact is not None:
        name = " ".join(filter(None, (message.contact.first_name, message.contact.last_name)))
        yield f"contact: {name}, {message.contact.phone_number}"
    if message.poll is not None:
        yield f"poll: {message.poll.question} — {' / '.join(one.text for one in message.poll.options)}"
    if message.dice is not None:
        yield f"{message.dice.emoji} shows {message.dice.value}"
    if message.checklist is not None:
        yield f"checklist: {message.checklist.title} — {' / '.join(one.text for one in message.checklist.tasks)}"
    for name in ("game", "story", "paid_media"):
        if getattr(message, name) is not None:
            yield f"{name.replace('_', ' ')}, which bots cannot see"


def _place(message: Message) -> str:
    if message.venue is not None:
        at = message.venue.location
        return f"place: {message.venue.title}, {message.venue.address} ({at.latitude:.5f}, {at.longitude:.5f})"
    if message.location is None:
        return ""
    live = "live location" if message.location.live_period else "location"
    return f"{live}: {message.location.latitude:.5f}, {message.location.longitude:.5f}"


def origin(message: Message) -> str:
    """Return a line that says whose words these are, when they are not the sender's own; else nothing."""
    lines = []
    forwarded = message.forward_origin
    if forwarded is not None:
        user, chat = (
            getattr(forwarded, "sender_user", None),
            getattr(forwarded, "sender_chat", None) or getattr(forwarded, "chat", None),
        )
        name = (
            user.full_name if user else getattr(forwarded, "sender_user_name", None) or (chat.effective_name if chat else None)
        )
        lines.append(f"[forwarded from {_one_line(name or 'somebody')}]\n")
    if message.via_bot is not None:
        lines.append(f"[made with @{message.via_bot.username}]\n")
    return "".join(lines)


def quoted(message: Message) -> str:
    """Return the beginning of what this message answers, or the part of it that its sender chose."""
    answered = replied(message)
    if message.quote is not None:
        text = message.quote.text
    elif answered is not None:
        formed = rich(answered)
        text = answered.text or answered.caption or (formed.text if formed else "") or described(answered) or _kinds(answered)
    else:
        return ""
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 1] + "…"


def replied(message: Message) -> Message | None:
    """Return the message that this one replies to. In a topic Telegram names the topic's first message, which is not a reply."""
    answered = message.reply_to_message
    return None if answered is None or answered.forum_topic_created is not None else answered


def _kinds(message: Message) -> str:
    return " ".join(f"[{one.kind}]" for one in attachments(message))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:100]
