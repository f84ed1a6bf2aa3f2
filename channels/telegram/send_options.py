"""The parameters of a Bot API send: chat, topic, reply, buttons, and the text as Telegram's HTML (https://core.telegram.org/bots/api#html-style)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from html import escape
from typing import Any, TypeVar

from telegram import InlineKeyboardButton, InlineKeyboardMarkup, LinkPreviewOptions, ReplyParameters
from telegram.constants import ParseMode
from telegram.error import BadRequest

from channels.common.markdown import Span, Styled, plain
from channels.errors import NotSent
from channels.messages import Button, ChatAddress, Outbound
from channels.telegram.updates import GENERAL

_TAGS = {"bold": "b", "italic": "i", "strike": "s", "quote": "blockquote"}
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")


def html(styled: Styled, within: frozenset[str] = frozenset()) -> str:
    """Return Telegram's HTML. A style inside the same style adds nothing, for block quotes must not be nested."""
    return "".join(escape(part, quote=False) if isinstance(part, str) else _span(part, within) for part in styled)


def _span(span: Span, within: frozenset[str]) -> str:
    inside = html(span.parts, within | {span.style})
    if span.style in within or not inside:
        return inside
    match span.style:
        case "code":
            return f"<code>{inside}</code>"
        case "pre" if _LANGUAGE.fullmatch(span.detail):
            return f'<pre><code class="language-{span.detail}">{inside}</code></pre>'
        case "pre":
            return f"<pre>{inside}</pre>"
        case "link":
            return f'<a href="{escape(span.detail)}">{inside}</a>'
        case _:
            return f"<{_TAGS[span.style]}>{inside}</{_TAGS[span.style]}>"


T = TypeVar("T")
MOST_DATA = 64
"""Bytes that a button can carry."""
SHORT = 12
NO_LINK_PREVIEW = {"link_preview_options": LinkPreviewOptions(is_disabled=True)}
IN_A_ROW = 3


async def as_html_or_plain(content: Styled, call: Callable[..., Awaitable[T]]) -> T:
    """Call with the text as HTML, and again as plain text if Telegram rejects the HTML."""
    try:
        return await call(html(content), parse_mode=ParseMode.HTML)
    except BadRequest as error:
        if "parse entities" not in str(error).lower():
            raise
        return await call(plain(content))


def placing(conversation: ChatAddress) -> dict[str, Any]:
    """Return chat and topic of a send. A message to a forum's General topic must not name the topic."""
    options: dict[str, Any] = {"chat_id": number(conversation.id)}
    if conversation.thread is not None and not (conversation.thread == GENERAL and conversation.kind == "group"):
        options["message_thread_id"] = number(conversation.thread)
    return options


def company(outbound: Outbound) -> dict[str, Any]:
    """Return the reply parameters and buttons of a message. The answered message may be gone."""
    options: dict[str, Any] = {}
    if outbound.reply_to is not None:
        options["reply_parameters"] = ReplyParameters(number(outbound.reply_to), allow_sending_without_reply=True)
    if outbound.buttons:
        options["reply_markup"] = keyboard(outbound.buttons)
    return options


def keyboard(buttons: Sequence[Button]) -> InlineKeyboardMarkup:
    """Return the buttons: short labels beside each other, long ones in rows of their own."""
    made = [InlineKeyboardButton(one.label, callback_data=one.value) for one in buttons if len(one.value.encode()) <= MOST_DATA]
    width = IN_A_ROW if all(len(one.text) <= SHORT for one in made) else 1
    return InlineKeyboardMarkup([made[start : start + width] for start in range(0, len(made), width)])


def number(identity: str) -> int:
    """Return an id as Telegram's number.

    Raises:
        NotSent: it is none.
    """
    try:
        return int(identity)
    except ValueError as error:
        raise NotSent(f"{identity[:80]!r} is not a Telegram id", permanent=True) from error
