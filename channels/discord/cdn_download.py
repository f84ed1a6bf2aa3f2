"""Downloads attachments from Discord. Importing this module loads the library."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, BinaryIO

import aiohttp
import discord

from channels.discord.api_errors import TROUBLE, meaning
from channels.discord.attachments import Handle, files_of, served_by_discord
from channels.errors import NotFetched

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from channels.discord.gateway_client import GatewayClient
    from channels.discord.settings import DiscordAccount
    from channels.messages import Attachment

SLOWEST = 100_000
"""Bytes a second below which a file is given up."""
PIECE = 1 << 18
_FINE = 200
_RUN_OUT = {401, 403, 404, 410}


class Fetcher:
    """Downloads files, each from its URL or, if that expired, from the URL that its message has now."""

    def __init__(self, settings: DiscordAccount, link: Callable[[], GatewayClient]) -> None:
        self._settings = settings
        self._link = link

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """See ``channels.protocol.Fetches``."""
        handle = Handle.read(attachment.handle)
        if attachment.size is not None and attachment.size > limit:
            raise too_large(limit)
        seconds = self._settings.timeout_seconds + limit / SLOWEST
        try:
            async with asyncio.timeout(seconds), aiohttp.ClientSession() as session:
                if not await self._saved(session, handle.address, path, limit):
                    address = await self._renewed(handle)
                    if not await self._saved(session, address, path, limit):
                        raise NotFetched("the file no longer exists on Discord")
        except TROUBLE as error:
            raise NotFetched(
                f"the file could not be downloaded: {str(error) or type(error).__name__}", permanent=False
            ) from error

    async def _renewed(self, handle: Handle) -> str:
        """Fetch the message again, which returns addresses that work."""
        try:
            message: dict[str, Any] = dict(await self._link().http.get_message(int(handle.channel), int(handle.message)))
        except discord.HTTPException as error:
            text, hint = meaning(error)
            gone = isinstance(error, discord.NotFound | discord.Forbidden)
            raise NotFetched(text, permanent=gone, hint=hint) from error
        found = [str(one.get("url") or "") for one in files_of(message) if str(one["id"]) == handle.file]
        if not found:
            raise NotFetched("the file was removed from its message")
        return found[0]

    async def _saved(self, session: aiohttp.ClientSession, address: str, path: Path, limit: int) -> bool:
        """Save the content of a URL; return whether there was any."""
        if not served_by_discord(address, self._settings.api_root):
            return False
        async with session.get(address, allow_redirects=False) as response:
            if response.status in _RUN_OUT:
                return False
            if response.status != _FINE:
                raise NotFetched(f"Discord returned {response.status} instead of the file", permanent=False)
            if (response.content_length or 0) > limit:
                raise too_large(limit)
            await _written(response, path, limit)
        return True


async def _written(response: aiohttp.ClientResponse, path: Path, limit: int) -> None:
    """Write a file in pieces; leave nothing if it ends too early or is too large."""
    whole = False
    file = _opened(path)
    try:
        size = 0
        async for piece in response.content.iter_chunked(PIECE):
            size += len(piece)
            if size > limit:
                raise too_large(limit)
            await asyncio.to_thread(file.write, piece)
        await asyncio.to_thread(file.close)
        whole = True
    finally:
        if not whole:
            _undone(file, path)


def _opened(path: Path) -> BinaryIO:
    return path.open("xb")


def _undone(file: BinaryIO, path: Path) -> None:
    with contextlib.suppress(OSError):
        file.close()
    path.unlink(missing_ok=True)


def too_large(limit: int) -> NotFetched:
    """Return the error for a file that is larger than allowed."""
    return NotFetched(f"the file is larger than {limit / 1_000_000:.1f} MB")
