"""Sending one chunk to Telegram. Importing this module loads the client library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from telegram import LinkPreviewOptions, ReplyParameters
from telegram.constants import ChatAction, ParseMode
from telegram.error import BadRequest, TelegramError

from channels.errors import NotSent, Uncertain
from channels.markdown import styled
from channels.messages import Sent
from channels.styled import plain
from channels.telegram.bot import send_error
from channels.telegram.html import html

if TYPE_CHECKING:
    from telegram import Bot

    from channels.messages import Conversation, Outbound

REPEATED = "(repeated after restart)\n"


async def send(bot: Bot, outbound: Outbound, *, link_preview: bool) -> Sent:
    """Send a chunk as HTML, or as plain text when Telegram does not take our HTML.

    Raises:
        NotSent: it did not arrive.
        Uncertain: it may have.
    """
    content = styled(outbound.text)
    prefix = REPEATED if outbound.uncertain else ""
    options = _options(outbound, link_preview=link_preview)
    try:
        try:
            message = await bot.send_message(text=prefix + html(content), parse_mode=ParseMode.HTML, **options)
        except BadRequest as error:
            if "parse entities" not in str(error).lower():
                raise
            message = await bot.send_message(text=prefix + plain(content), **options)
    except TelegramError as error:
        raise send_error(error, bot) from error
    except (TypeError, KeyError, ValueError) as error:
        raise Uncertain(f"Telegram answered with a message that cannot be read: {error!r}") from error
    return Sent(platform_id=str(message.message_id))


def _options(outbound: Outbound, *, link_preview: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"chat_id": _number(outbound.conversation.id)}
    if not link_preview:
        options["link_preview_options"] = LinkPreviewOptions(is_disabled=True)
    if outbound.conversation.thread is not None:
        options["message_thread_id"] = _number(outbound.conversation.thread)
    if outbound.reply_to is not None:
        options["reply_parameters"] = ReplyParameters(_number(outbound.reply_to), allow_sending_without_reply=True)
    return options


def _number(identity: str) -> int:
    try:
        return int(identity)
    except ValueError as error:
        raise NotSent(f"{identity[:80]!r} is no id of Telegram's", permanent=True) from error


async def show_typing(bot: Bot, conversation: Conversation) -> None:
    """Show "typing" for about five seconds."""
    thread = None if conversation.thread is None else int(conversation.thread)
    await bot.send_chat_action(int(conversation.id), ChatAction.TYPING, message_thread_id=thread)
