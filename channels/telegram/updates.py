"""A Telegram update as an inbound message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.messages import Conversation, Inbound, Sender

if TYPE_CHECKING:
    from telegram import Update

ALLOWED = ("message",)
"""The kinds of update that are asked for."""


def inbound(update: Update, account: str, bot: str) -> Inbound | None:
    """Return the message of a private chat with a person, or None for everything else.

    The alias names the bot: another bot on the same account counts the messages of a chat anew.
    """
    message = update.message
    if message is None or message.chat.type != "private" or not message.text:
        return None
    sender = message.from_user
    if sender is None or sender.is_bot:
        return None
    edited = int(message.edit_date.timestamp()) if message.edit_date else 0
    answered = message.reply_to_message
    return Inbound(
        conversation=Conversation(channel="telegram", account=account, kind="direct", id=str(message.chat.id)),
        sender=Sender(id=str(sender.id), name=sender.full_name),
        text=message.text,
        at=message.date,
        key=f"u:{update.update_id}",
        alias=f"m:{bot}:{message.chat.id}:{message.message_id}:{edited}",
        message_id=str(message.message_id),
        reply_to=str(answered.message_id) if answered else None,
        mentioned=True,
    )
