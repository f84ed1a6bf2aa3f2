"""Converts edits, reactions, button presses and slash commands to inbound messages."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from datetime import datetime
from typing import Any

from channels.messages import Inbound, Sender
from channels.slack.inbound import Identity, attached, moment, names, newer, readable
from channels.slack.reactions import emoji_of

_VALUE = 200


def edited(event: dict[str, Any], who: Identity, *, event_id: str = "") -> Inbound | None:
    """Return what a message reads now. None for the app's own, and where a person changed nothing: an unfolded link, a new reply."""
    now, before = event.get("message") or {}, event.get("previous_message") or {}
    channel, stamp, sender = str(event.get("channel") or ""), str(now.get("ts") or ""), str(now.get("user") or "")
    if not (channel and stamp and sender and now.get("edited")) or sender == who.user or now.get("text") == before.get("text"):
        return None
    raw = str(now.get("text") or "")
    text = readable(raw, who.user)
    if not text:
        return None
    thread = str(now.get("thread_ts") or "")
    parent = thread if thread != stamp else ""
    direct = event.get("channel_type") == "im" or channel.startswith("D")
    when = str(event.get("event_ts") or now["edited"].get("ts") or stamp)
    digest = hashlib.sha256(raw.encode("utf-8", "replace")).hexdigest()[:8]
    alias = f"x:{who.team}:{channel}:{stamp}:{now['edited'].get('ts')}:{digest}"
    return Inbound(
        conversation=who.place(channel, sender, parent or (stamp if who.opens and not direct else None), direct=direct),
        sender=Sender(id=sender),
        text=text,
        at=moment(when),
        key=f"e:{event_id}" if event_id else alias,
        alias=alias,
        message_id=stamp,
        reply_to=parent or None,
        mentioned=direct or names(raw, who.user),
        event="edited",
        target=stamp,
        attachments=attached(now),
        from_bot=bool(now.get("bot_id")),
    )


def changed(message: dict[str, Any], mark: str, who: Identity) -> Inbound | None:
    """Return a message from the history as an edit if it was edited after a mark. Its alias is that of Slack's own event."""
    if not newer((message.get("edited") or {}).get("ts"), mark):
        return None
    return edited({"channel": message["channel"], "message": message}, who)


def reaction(event: dict[str, Any], who: Identity, thread: str | None, *, event_id: str = "") -> Inbound | None:
    """Return a reaction to a message in ``thread``, which Slack's event does not name."""
    item = event.get("item") or {}
    channel, target, sender = str(item.get("channel") or ""), str(item.get("ts") or ""), str(event.get("user") or "")
    name = str(event.get("reaction") or "")
    if item.get("type") != "message" or not (channel and target and sender and name) or sender == who.user:
        return None
    when = str(event.get("event_ts") or target)
    alias = f"r:{who.team}:{channel}:{target}:{sender}:{name}"  # the history does not say when
    return Inbound(
        conversation=who.place(channel, sender, thread),
        sender=Sender(id=sender),
        text=emoji_of(name),
        at=moment(when),
        key=f"e:{event_id}" if event_id else alias,
        alias=alias,
        message_id=target,
        mentioned=channel.startswith("D") or event.get("item_user") == who.user,
        event="reaction",
        target=target,
    )


def reactions_to(message: dict[str, Any], who: Identity) -> list[Inbound]:
    """Return the reactions that a message of the history has, each under the alias that Slack's own event gets."""
    stamp, thread, found = str(message["ts"]), str(message.get("thread_ts") or ""), []
    for one in message.get("reactions") or ():
        for user in one.get("users") or ():
            item = {"type": "message", "channel": message["channel"], "ts": stamp}
            event = {"item": item, "user": user, "reaction": one.get("name"), "item_user": message.get("user")}
            found.append(reaction(event, who, thread if thread != stamp else None))
    return [one for one in found if one is not None]


def press(payload: dict[str, Any], who: Identity) -> Inbound | None:
    """Return the press of a button under a message of the app."""
    container, action = payload.get("container") or {}, (payload.get("actions") or [{}])[0]
    channel = str((payload.get("channel") or {}).get("id") or container.get("channel_id") or "")
    target, sender = str(container.get("message_ts") or ""), str((payload.get("user") or {}).get("id") or "")
    value, when = str(action.get("value") or ""), str(action.get("action_ts") or "")
    if not (channel and target and sender and value and when):
        return None
    shown = payload.get("message") or {}
    thread = str(shown.get("thread_ts") or container.get("thread_ts") or "")
    alias = f"b:{who.team}:{channel}:{target}:{sender}:{when}"
    return Inbound(
        conversation=who.place(channel, sender, thread if thread != target else None),
        sender=Sender(id=sender, name=str((payload.get("user") or {}).get("name") or "")),
        text=value[:_VALUE],
        at=moment(when),
        key=alias,
        alias=alias,
        message_id=target,
        mentioned=True,
        event="button",
        target=target,
    )


def command(payload: dict[str, Any], who: Identity, known: Collection[str], at: datetime) -> Inbound | None:
    """Return the text after the slash command: ``/status`` for a command of the gateway, else plain text.

    It comes with the channel it was given in, but never with a thread: Slack has no slash commands there. One that was given in a
    private conversation of other people is answered in the app's own with that person.
    """
    channel, sender = str(payload.get("channel_id") or ""), str(payload.get("user_id") or "")
    trigger = str(payload.get("trigger_id") or "")
    if not (channel and sender and trigger):
        return None
    said = readable(str(payload.get("text") or ""), who.user) or "/help"
    first = said.split(maxsplit=1)[0].lower()
    text = f"/{said}" if first in known else said
    alias = f"c:{who.team}:{sender}:{trigger}"
    direct = payload.get("channel_name") == "directmessage"
    return Inbound(
        conversation=who.place(channel, sender, direct=direct),
        sender=Sender(id=sender, name=str(payload.get("user_name") or "")),
        text=text,
        at=at,
        key=alias,
        alias=alias,
        message_id=trigger,
        mentioned=True,
    )
