"""Sends files and albums to Telegram. Importing this module loads the client library."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace
from telegram import InputFile, InputMediaAudio, InputMediaDocument, InputMediaPhoto, InputMediaVideo
from telegram.constants import FileSizeLimit, ParseMode
from telegram.error import BadRequest

from channels.common.chunking import utf16_length
from channels.common.markdown import plain, styled
from channels.errors import NotSent
from channels.messages import OutboundFile
from channels.telegram.file_forms import LONGEST_CAPTION, form_of
from channels.telegram.send_options import as_html_or_plain, html
from channels.telegram.settings import OFFICIAL, TelegramAccount

if TYPE_CHECKING:
    from telegram import Bot, Message

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
    return (text, "") if utf16_length(plain(styled(text))) <= LONGEST_CAPTION else ("", text)


async def send_file(
    bot: Bot, enclosure: OutboundFile, caption: str, options: dict[str, Any], settings: TelegramAccount
) -> Sequence[Message]:
    """Send a file with its caption; as a document when Telegram does not take it in the form that suits it.

    Raises:
        NotSent: it is gone, empty, or too large.
        TelegramError: as the library does.
    """
    form = form_of(enclosure.media_type, await asyncio.to_thread(_size, enclosure, settings))
    how = _patience(settings)
    try:
        return [await _send_as(form, bot, enclosure, caption, **options, **how)]
    except BadRequest as error:
        if form == "document" or not _is_unsuited(error):
            raise
        return [await _send_as("document", bot, enclosure, caption, **options, **how)]


def _size(file: OutboundFile, settings: TelegramAccount) -> int:
    """Return the size of a file in bytes. Raises NotSent when Telegram would not take it."""
    try:
        size = file.path.stat().st_size
    except OSError as error:
        raise NotSent(f"the file {file.name!r} is gone: {error.strerror}", permanent=True) from error
    if size == 0:
        raise NotSent(f"the file {file.name!r} is empty, and Telegram does not accept empty files", permanent=True)
    if settings.api_root == OFFICIAL and size > FileSizeLimit.FILESIZE_UPLOAD:
        text = f"the file {file.name!r} has {size / 1e6:.0f} MB, and Telegram accepts 50 MB from bots"
        raise NotSent(text, permanent=True, hint=TOO_LARGE)
    return size


def _patience(settings: TelegramAccount) -> dict[str, float]:
    return {"read_timeout": max(settings.timeout_seconds, PROCESSING_SECONDS), "write_timeout": settings.timeout_seconds}


def _is_unsuited(error: BadRequest) -> bool:
    return any(sign in str(error).lower() for sign in _UNSUITED)


async def _send_as(form: str, bot: Bot, enclosure: OutboundFile, caption: str, **options: Any) -> Message:
    call: Callable[..., Awaitable[Message]] = getattr(bot, f"send_{form}")

    async def sent(text: str | None = None, **how: Any) -> Message:
        with enclosure.path.open("rb") as handle:
            file = InputFile(handle, filename=enclosure.name, read_file_handle=False)
            return await call(**{form: file}, caption=text, **options, **how)

    return await as_html_or_plain(styled(caption), sent) if caption.strip() else await sent()


MEDIA: Final = {
    "photo": InputMediaPhoto,
    "video": InputMediaVideo,
    "audio": InputMediaAudio,
    "document": InputMediaDocument,
}


async def send_album(
    bot: Bot, enclosure: OutboundFile, caption: str, options: dict[str, Any], settings: TelegramAccount
) -> Sequence[Message]:
    """Send a file and those of its album in one request, each with its caption; as documents when Telegram does not take a picture.

    Raises:
        NotSent: one is gone, empty, or too large.
        TelegramError: as the library does. Then none was sent, or what was sent is not known.
    """
    files = [replace(enclosure, caption=caption), *enclosure.album]
    sizes = [await asyncio.to_thread(_size, one, settings) for one in files]
    forms = [form_of(one.media_type, size) for one, size in zip(files, sizes, strict=True)]
    allowed = {key: value for key, value in options.items() if key != "reply_markup"}  # albums have no buttons

    async def sent(forms: Sequence[str]) -> Sequence[Message]:
        try:
            return await _send_together(bot, files, forms, allowed | _patience(settings), marked_up=True)
        except BadRequest as error:
            if "parse entities" not in str(error).lower():
                raise
        return await _send_together(bot, files, forms, allowed | _patience(settings), marked_up=False)

    try:
        return await sent(forms)
    except BadRequest as error:
        if set(forms) == {"document"} or not _is_unsuited(error):
            raise
        return await sent(["document"] * len(files))


async def _send_together(
    bot: Bot, files: Sequence[OutboundFile], forms: Sequence[str], options: dict[str, Any], *, marked_up: bool
) -> Sequence[Message]:
    with ExitStack() as opened:
        media = []
        for file, form in zip(files, forms, strict=True):
            handle = opened.enter_context(file.path.open("rb"))
            content = InputFile(handle, filename=file.name, attach=True, read_file_handle=False)
            said = styled(file.caption)
            text = (html(said) if marked_up else plain(said)) if file.caption.strip() else None
            how: dict[str, Any] = {"parse_mode": ParseMode.HTML} if text and marked_up else {}
            media.append(MEDIA[form](content, caption=text, **how))
        return await bot.send_media_group(media=media, **options)
