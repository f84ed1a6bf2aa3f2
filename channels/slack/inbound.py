"""Converts a Slack message (https://docs.slack.dev/reference/events/message) to an inbound message."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from channels.messages import Attachment, AttachmentKind, ChatAddress, Inbound, Sender

_WRITTEN = {None, "file_share", "thread_broadcast", "me_message", "bot_message"}
"""Kinds of message that a person or another app wrote."""
_COMMAND = re.compile(r"<([@#!]|(?=[a-z][a-z0-9+.-]*:))([^<>|]*)(?:\|([^<>]*))?>")
_STAMP = re.compile(r"[0-9]{1,12}\.[0-9]{1,9}")
QUOTED = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """As whom events are read: the account, the workspace, and the app's ids there. ``opens``: a message in a channel begins a thread."""

    account: str
    team: str
    user: str
    bot: str = ""
    opens: bool = False

    def place(self, channel: str, person: str, thread: str | None = None, *, direct: bool = False) -> ChatAddress:
        """Return the conversation that a channel is: with one person in private, or with a group."""
        private = direct or channel.startswith("D")
        return ChatAddress(
            channel="slack",
            account=self.account,
            kind="direct" if private else "group",
            id=person if private else channel,
            thread=thread or None,
            space=self.team,
        )


def is_stamp(message: object) -> bool:
    """Return whether an id is that of a message, which is when it was written: a slash command, for one, has none."""
    return isinstance(message, str) and _STAMP.fullmatch(message) is not None


def order(stamp: str) -> Decimal:
    """Return a message's time stamp as a number, exactly. Raises ValueError for what is none."""
    if not is_stamp(stamp):
        raise ValueError(f"not a message timestamp: {stamp[:40]!r}")
    return Decimal(stamp)


def newer(stamp: object, mark: str) -> bool:
    """Return whether something happened after a mark; never, when it carries no time stamp."""
    return is_stamp(stamp) and order(str(stamp)) > order(mark)


def stamped(messages: object, channel: str) -> list[dict[str, Any]]:
    """Return the messages of a channel that have a time stamp, oldest first and with their channel."""
    listed = messages if isinstance(messages, list) else []
    found = [{**one, "channel": channel} for one in listed if isinstance(one, dict) and is_stamp(one.get("ts"))]
    return sorted(found, key=lambda one: order(one["ts"]))


def moment(stamp: object) -> datetime:
    """Return when something was that carries a time stamp. Raises ValueError for one that is no time."""
    try:
        return datetime.fromtimestamp(float(str(stamp)), UTC)
    except (OverflowError, OSError) as error:
        raise ValueError("no time") from error


def inbound(event: dict[str, Any], who: Identity, *, event_id: str = "", quoted: str = "") -> Inbound | None:
    """Return a person's message, or None for everything else: the app's own messages, notices, messages without content.

    ``message`` and ``app_mention`` events of one post give the same alias, and so does the post when it is read back later.
    """
    channel, stamp = str(event.get("channel") or ""), str(event.get("ts") or "")
    sender = str(event.get("user") or event.get("bot_id") or "")
    if event.get("subtype") not in _WRITTEN or not (sender and channel and stamp):
        return None
    if sender == who.user or (who.bot and event.get("bot_id") == who.bot):
        return None
    raw, files = str(event.get("text") or ""), attached(event)
    shared, own = _shared(event, who.user), readable(raw, who.user)
    text = own or (shared if event.get("bot_id") or not shared else f"{_head_of(event)}\n{shared}")
    if not text and not files:
        return None
    direct = event.get("channel_type") == "im" or channel.startswith("D")
    thread = str(event.get("thread_ts") or "")
    parent = thread if thread != stamp else ""
    alias = f"m:{who.team}:{channel}:{stamp}"
    return Inbound(
        conversation=who.place(channel, sender, parent or (stamp if who.opens and not direct else None), direct=direct),
        sender=Sender(id=sender, name=_name(event)),
        text=text,
        at=moment(stamp),
        key=f"e:{event_id}" if event_id else alias,
        alias=alias,
        message_id=stamp,
        reply_to=parent or None,
        mentioned=direct or names(raw, who.user) or event.get("parent_user_id") == who.user,
        quoted=quoted or (shared[:QUOTED] if own else ""),
        attachments=files,
        from_bot=bool(event.get("bot_id")),
    )


def names(raw: str, user: str) -> bool:
    """Return whether a text mentions somebody."""
    return f"<@{user}>" in raw or f"<@{user}|" in raw


def attached(event: dict[str, Any]) -> tuple[Attachment, ...]:
    """Return the files in Slack that came with a message, or with one that it quotes. Deleted ones are left out."""
    listed = [*(event.get("files") or [])]
    for one in event.get("attachments") or []:
        listed += one.get("files") or []
    found = {str(one["id"]): one for one in listed if one.get("id") and one.get("mode") != "tombstone"}
    own = {str(one.get("id")) for one in event.get("files") or []} if not event.get("attachments") else set()
    return tuple(
        Attachment(
            kind=_kind(one),
            handle=handle,
            name=str(one.get("name") or one.get("title") or ""),
            media_type=str(one.get("mimetype") or ""),
            size=one["size"] if isinstance(one.get("size"), int) else None,
            recorded=handle in own and _kind(one) == "voice" and bool(one.get("user")) and one["user"] == event.get("user"),
        )
        for handle, one in found.items()
    )


def _kind(file: dict[str, Any]) -> AttachmentKind:
    kind = str(file.get("mimetype") or "").partition("/")[0]
    if file.get("subtype") == "slack_audio":
        return "voice"
    if file.get("subtype") == "slack_video" or kind == "video":
        return "video"
    return "image" if kind == "image" else "audio" if kind == "audio" else "document"


def _shared(event: dict[str, Any], me: str) -> str:
    """Return what the messages say that this one passes on, and the texts of an app that says all in attachments."""
    bot = bool(event.get("bot_id"))
    said = [
        readable(str(one.get("text") or one.get("fallback") or ""), me)
        for one in event.get("attachments") or []
        if bot or one.get("is_share") or one.get("is_msg_unfurl")
    ]
    return "\n".join(text for text in said if text)


def _head_of(event: dict[str, Any]) -> str:
    """Return the line that stands before words which are not the sender's own: ``user_message`` in ``gateway.turns`` fences them."""
    names = {" ".join(str(one.get("author_name") or "").split())[:100] for one in event.get("attachments") or []}
    return f"[forwarded from {names.pop()}]" if len(names) == 1 and all(names) else "[forwarded]"


def _name(event: dict[str, Any]) -> str:
    profile, bot = event.get("user_profile") or {}, event.get("bot_profile") or {}
    return str(profile.get("real_name") or bot.get("name") or event.get("username") or "")


def readable(raw: str, me: str) -> str:
    """Return text as a person sees it: names and addresses in place of Slack's marks, without the mention of the bot itself."""

    def shown(found: re.Match[str]) -> str:
        kind, what, label = found[1], found[2], found[3]
        if kind == "@" and what == me:
            return ""
        if kind == "!":
            return label or f"@{what.partition('^')[0]}"
        if kind:
            return kind + (label or what)
        return what if not label or label == what else f"{label} ({what})"

    text = _COMMAND.sub(shown, raw)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()


def facts(body: object) -> dict[str, str]:
    """Return the values to log for an event: its kind, channel and user, as far as present."""
    payload = _object(body)
    event = _object(payload.get("event")) or payload
    channel = event.get("channel") or event.get("channel_id") or _object(event.get("item")).get("channel")
    user = event.get("user") or event.get("user_id")
    named = {"kind": event.get("type") or event.get("command"), "channel": channel, "user": user}
    return {key: str(_object(one).get("id", one))[:80] for key, one in named.items()}


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
