"""Sends a file in the form that suits its type. Importing this module loads the client library."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from telegram import InputFile
from telegram.constants import FileSizeLimit, MessageLimit
from telegram.error import BadRequest

from channels.common.chunking import utf16_length
from channels.common.markdown import styled
from channels.common.styled_text import plain
from channels.errors import NotSent
from channels.messages import OutboundFile
from channels.telegram.send_options import as_html_or_plain
from channels.telegram.settings import OFFICIAL, TelegramAccount

if TYPE_CHECKING:
    from telegram import Bot, Message

FORMS: Final = {
    "image/jpeg": "photo",
    "image/png": "photo",
    "image/webp": "photo",
    "image/gif": "animation",
    "audio/ogg": "voice",
    "audio/opus": "voice",
    "audio/mpeg": "audio",
    "audio/mp4": "audio",
    "audio/x-m4a": "audio",
    "video/mp4": "video",
}
"""What is shown or played in the chat; everything else is a document."""
_UNSUITED = (
    "photo_invalid",
    "image_process_failed",
    "photo_save_file_invalid",
    "photo_ext_invalid",
    "voice_messages_forbidden",
)
"""Refusals of a form, not of the file."""
PROCESSING_SECONDS = 120
"""Telegram looks at a film before it answers."""
TOO_LARGE = "a Bot API server of your own takes up to 2 GB: channels.telegram.apiRoot"


def captioned(text: str) -> tuple[str, str]:
    """Return the caption, and what is sent as a message of its own: a text that is too long for a caption stays in one piece."""
    return (text, "") if utf16_length(plain(styled(text))) <= MessageLimit.CAPTION_LENGTH else ("", text)


def form_of(media_type: str, size: int) -> str:
    """Return how a file is sent."""
    form = FORMS.get(media_type.partition(";")[0].strip().lower(), "document")
    too_large = form == "photo" and size > FileSizeLimit.PHOTOSIZE_UPLOAD
    return "document" if too_large else form


async def send_file(
    bot: Bot, enclosure: OutboundFile, caption: str, options: dict[str, Any], settings: TelegramAccount
) -> Message:
    """Send a file with its caption; as a document when Telegram does not take it in the form that suits it.

    Raises:
        NotSent: it is gone, empty, or too large.
        TelegramError: as the library does.
    """
    try:
        size = (await asyncio.to_thread(enclosure.path.stat)).st_size
    except OSError as error:
        raise NotSent(f"the file {enclosure.name!r} is gone: {error.strerror}", permanent=True) from error
    if size == 0:
        raise NotSent(f"the file {enclosure.name!r} is empty, and Telegram does not accept empty files", permanent=True)
    if settings.api_root == OFFICIAL and size > FileSizeLimit.FILESIZE_UPLOAD:
        text = f"the file {enclosure.name!r} has {size / 1e6:.0f} MB, and Telegram accepts 50 MB from bots"
        raise NotSent(text, permanent=True, hint=TOO_LARGE)
    form = form_of(enclosure.media_type, size)
    how = {"read_timeout": max(settings.timeout_seconds, PROCESSING_SECONDS), "write_timeout": settings.timeout_seconds}
    try:
        return await _send_as(form, bot, enclosure, caption, **options, **how)
    except BadRequest as error:
        if form == "document" or not any(sign in str(error).lower() for sign in _UNSUITED):
            raise
        return await _send_as("document", bot, enclosure, caption, **options, **how)


async def _send_as(form: str, bot: Bot, enclosure: OutboundFile, caption: str, **options: Any) -> Message:
    call: Callable[..., Awaitable[Message]] = getattr(bot, f"send_{form}")

    async def sent(text: str | None = None, **how: Any) -> Message:
        with enclosure.path.open("rb") as handle:
            file = InputFile(handle, filename=enclosure.name, read_file_handle=False)
            return await call(**{form: file}, caption=text, **options, **how)

    return await as_html_or_plain(styled(caption), sent) if caption.strip() else await sent()
