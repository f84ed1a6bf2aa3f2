"""Downloads a file that came with a message. Importing this module loads the client library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path

from telegram.constants import FileSizeLimit
from telegram.error import BadRequest, NetworkError, TelegramError

from channels.common.saving import check_size, save
from channels.errors import NotFetched
from channels.messages import Attachment
from channels.telegram.bot import Connection, describe_error
from channels.telegram.settings import OFFICIAL

BLOCK = 256 * 1024
OWN_SERVER = "a Bot API server of your own has no such limit: channels.telegram.apiRoot"
_GONE = {400, 403, 404, 410}


async def fetch(connection: Connection, api_root: str, attachment: Attachment, path: Path, limit: int) -> None:
    """Save a file at ``path``. Its stated size is not trusted: the bytes are counted as they come.

    Raises:
        NotFetched: it is larger than ``limit`` bytes, deleted, or could not be downloaded; nothing is left at ``path``.
    """
    if attachment.size is not None:
        check_size(attachment.size, limit)
        if api_root == OFFICIAL and attachment.size > FileSizeLimit.FILESIZE_DOWNLOAD:
            raise NotFetched(f"{_mb(attachment.size)}, and Telegram gives bots at most 20 MB", hint=OWN_SERVER)
    await save(await _blocks(connection, api_root, attachment.handle), path, limit)


async def _blocks(connection: Connection, api_root: str, handle: str) -> AsyncIterator[bytes]:
    source = await _source(connection, handle)
    if "://" in source:
        return _streamed(connection, source)
    if api_root == OFFICIAL:
        raise NotFetched("Telegram returned a path on this machine")
    return _copied(Path(source))


async def _source(connection: Connection, handle: str) -> str:
    """Return the file's address; a path, where a Bot API server of the owner's own keeps files on this machine."""
    try:
        file = await connection.bot.get_file(handle)
    except BadRequest as error:
        hint = OWN_SERVER if "too big" in str(error).lower() else ""
        raise NotFetched(f"Telegram: {describe_error(error, connection.bot)}", hint=hint) from error
    except TelegramError as error:
        raise NotFetched(f"Telegram: {describe_error(error, connection.bot)}", permanent=False) from error
    except (TypeError, KeyError, ValueError) as error:
        raise NotFetched(f"Telegram returned something other than a file: {error!r}", permanent=False) from error
    if not file.file_path:
        raise NotFetched("Telegram does not say where the file is", permanent=False)
    return file.file_path


async def _streamed(connection: Connection, address: str) -> AsyncIterator[bytes]:
    try:
        async with connection.files.stream(address) as answer:
            if answer.status != HTTPStatus.OK:
                text = f"Telegram answered {answer.status} when asked for the file"
                raise NotFetched(text, permanent=answer.status in _GONE)
            async for block in answer.content.iter_chunked(BLOCK):
                yield block
    except NetworkError as error:
        raise NotFetched(f"the connection was lost: {describe_error(error, connection.bot)}", permanent=False) from error


async def _copied(source: Path) -> AsyncIterator[bytes]:
    with source.open("rb") as original:
        while block := await asyncio.to_thread(original.read, BLOCK):
            yield block


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
