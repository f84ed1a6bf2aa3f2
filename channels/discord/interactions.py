"""Converts reactions, slash commands and button presses to inbound messages."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from channels.discord.inbound import Place, sender_of
from channels.messages import Inbound

COMMAND = 2
PRESS = 3
MARK = "hb"
"""What the ids of our buttons begin with, followed by their number and a colon."""


def reaction(event: dict[str, Any], place: Place, account: str, at: datetime, key: str, *, mine: bool) -> Inbound:
    """Return a reaction. A server's custom emoji is given by its name, as ``:name:``.

    It counts as a mention on a message of the bot (``mine``), and always in private.
    """
    emoji, message = event.get("emoji") or {}, str(event["message_id"])
    user = (event.get("member") or {}).get("user") or {"id": event["user_id"]}
    return Inbound(
        conversation=place.conversation(account, str(event["user_id"])),
        sender=sender_of(user),
        text=f":{emoji.get('name')}:" if emoji.get("id") else str(emoji.get("name") or ""),
        at=at,
        key=key,
        alias=key,
        message_id=message,
        mentioned=mine or not place.guild,
        event="reaction",
        target=message,
        from_bot=bool(user.get("bot")),
    )


def interaction(event: dict[str, Any], place: Place, account: str, at: datetime) -> Inbound | None:
    """Return a slash command or press as a message; None if it is not one of this bot's."""
    user = (event.get("member") or {}).get("user") or event.get("user") or {}
    data, identity = event.get("data") or {}, str(event["id"])
    if not user:
        return None
    press = event.get("type") == PRESS
    text = pressed(str(data.get("custom_id") or "")) if press else _command(data) if event.get("type") == COMMAND else None
    if text is None:
        return None
    return Inbound(
        conversation=place.conversation(account, str(user["id"])),
        sender=sender_of(user),
        text=text,
        at=at,
        key=f"i:{identity}",
        alias=f"i:{identity}",
        message_id=identity,
        mentioned=True,
        event="button" if press else "message",
        target=str((event.get("message") or {}).get("id")) if press else None,
        from_bot=bool(user.get("bot")),
    )


def custom_id(number: int, value: str) -> str:
    """Return the id of a button, unique in its message."""
    return f"{MARK}{number}:{value}"


def pressed(identity: str) -> str | None:
    """Return the value of a button, or None if it is not the bot's."""
    mark, colon, value = identity.partition(":")
    return value if colon and mark.startswith(MARK) and mark.removeprefix(MARK).isdecimal() else None


def _command(data: dict[str, Any]) -> str | None:
    name = data.get("name")
    given = [str(one["value"]) for one in data.get("options") or () if "value" in one]
    return " ".join([f"/{name}", *given]) if name else None
