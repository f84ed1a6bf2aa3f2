"""A message as Slack sends it (https://docs.slack.dev/reference/events/message), as an inbound message."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from channels.messages import Conversation, Inbound, Sender

_WRITTEN = {None, "file_share", "thread_broadcast", "me_message"}
"""Kinds of message that a person wrote."""
_COMMAND = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")


def order(stamp: str) -> Decimal:
    """Return a message's time stamp as a number, exactly."""
    return Decimal(stamp)


def inbound(event: dict[str, Any], *, team: str, account: str, me: str, event_id: str = "") -> Inbound | None:
    """Return what a person wrote, or None for everything else: bots, edits, notices, messages without text.

    ``message`` and ``app_mention`` events of one post give the same alias, and so does the post when it is read back later.
    """
    sender, channel, stamp = event.get("user"), event.get("channel"), event.get("ts")
    if event.get("subtype") not in _WRITTEN or event.get("bot_id") or not sender or not channel or not stamp:
        return None
    raw = str(event.get("text") or "")
    text = readable(raw, me)
    if not text:
        return None
    direct = event.get("channel_type") == "im" or str(channel).startswith("D")
    thread = event.get("thread_ts")
    alias = f"m:{team}:{channel}:{stamp}"
    return Inbound(
        conversation=Conversation(
            channel="slack",
            account=account,
            kind="direct" if direct else "group",
            id=str(sender if direct else channel),
            thread=str(thread) if thread and thread != stamp else None,
            space=team,
        ),
        sender=Sender(id=str(sender), name=str((event.get("user_profile") or {}).get("real_name") or "")),
        text=text,
        at=datetime.fromtimestamp(float(stamp), UTC),
        key=f"e:{event_id}" if event_id else alias,
        alias=alias,
        message_id=str(stamp),
        reply_to=str(thread) if thread and thread != stamp else None,
        mentioned=direct or f"<@{me}>" in raw or f"<@{me}|" in raw or event.get("parent_user_id") == me,
    )


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
