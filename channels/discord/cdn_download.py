"""Downloads attachments from Discord. Importing this module loads the library."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import discord

from channels.common.saving import check_size, save
from channels.discord.api_errors import TROUBLE, meaning
from channels.discord.attachments import Handle, files_of, served_by_discord
from channels.discord.gateway_client import GatewayClient
from channels.discord.settings import DiscordAccount
from channels.errors import NotFetched
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
        check_size(attachment.size or 0, limit)
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
            check_size(response.content_length or 0, limit)
            await save(response.content.iter_chunked(PIECE), path, limit)
        return True
