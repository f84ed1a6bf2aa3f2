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
    from collections.abc import Awaitable, Callable

    from telegram import Bot

    from channels.messages import Conversation, Outbound
    from channels.styled import Styled

REPEATED = "(repeated after restart)\n"
PLACEHOLDER = "…"


async def send(
    bot: Bot, outbound: Outbound, record: Callable[[str], Awaitable[None]], *, link_preview: bool, by_edit: bool = False
) -> Sent:
    """Send a chunk as HTML, or as plain text when Telegram does not take our HTML.

    Telegram has no key against doubles, and a bot cannot read its chat. So a chunk that may have arrived is repeated with a mark;
    or, ``by_edit``, an ellipsis is posted first and its id recorded, and the text is put in its place: an edit can be repeated
    as often as needed, so that at worst one ellipsis is left over.

    Raises:
        NotSent: it did not arrive.
        Uncertain: it may have.
    """
    content = styled(outbound.text)
    options = _options(outbound, link_preview=link_preview)
    try:
        if by_edit or outbound.recorded is not None:
            message_id = await _placed(bot, outbound, record, options)
            if await _edited(bot, message_id, content, options):
                return Sent(platform_id=str(message_id))
        prefix = REPEATED if outbound.uncertain else ""
        message = await _as_html_or_plain(content, lambda text, **how: bot.send_message(text=prefix + text, **options, **how))
    except TelegramError as error:
        raise send_error(error, bot) from error
    except (TypeError, KeyError, ValueError) as error:
        raise Uncertain(f"Telegram answered with a message that cannot be read: {error!r}") from error
    return Sent(platform_id=str(message.message_id))


async def _placed(bot: Bot, outbound: Outbound, record: Callable[[str], Awaitable[None]], options: dict[str, Any]) -> int:
    """Return the message that the text goes into: the one of an earlier attempt, or a new one."""
    if outbound.recorded is not None:
        return _number(outbound.recorded)
    message = await bot.send_message(text=PLACEHOLDER, **options)
    await record(str(message.message_id))
    return message.message_id


async def _edited(bot: Bot, message_id: int, content: Styled, options: dict[str, Any]) -> bool:
    """Put the text into a message. Returns False when that message is gone."""
    fitting = {key: value for key, value in options.items() if key in {"chat_id", "link_preview_options"}}
    try:
        await _as_html_or_plain(
            content, lambda text, **how: bot.edit_message_text(text=text, message_id=message_id, **fitting, **how)
        )
    except BadRequest as error:
        told = str(error).lower()
        if "not modified" in told:
            return True
        if "to edit not found" in told or "can't be edited" in told:
            return False
        raise
    return True


async def _as_html_or_plain(content: Styled, call: Callable[..., Awaitable[Any]]) -> Any:
    try:
        return await call(html(content), parse_mode=ParseMode.HTML)
    except BadRequest as error:
        if "parse entities" not in str(error).lower():
            raise
        return await call(plain(content))


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
