"""Attachments of a Discord message: the handle of each, and its download. Importing this module loads the library."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import discord

from channels.common.saving import check_size, save
from channels.discord.api_errors import TROUBLE, meaning
from channels.discord.gateway_client import GatewayClient
from channels.discord.settings import OFFICIAL, DiscordAccount
from channels.errors import NotFetched
from channels.messages import Attachment, AttachmentKind

VOICE = 1 << 13
HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
_PARTS = 4


@dataclass(frozen=True, slots=True)
class Handle:
    """A file of a message and its URL. Discord's URLs expire after a day; fetching the message again gives a new one."""

    channel: str
    message: str
    file: str
    address: str

    def written(self) -> str:
        """Return it as the handle of an attachment."""
        return f"{self.channel} {self.message} {self.file} {self.address}"

    @classmethod
    def read(cls, handle: str) -> Handle:
        """Parse a handle. Raises ``NotFetched`` if it is none."""
        parts = handle.split(" ")
        if len(parts) != _PARTS or not all(part.isdecimal() for part in parts[:-1]):
            raise NotFetched(f"{handle[:80]!r} is not a Discord file")
        return cls(*parts)


def attachments_of(message: dict[str, Any]) -> tuple[Attachment, ...]:
    """Return the files of a message, or of a message that it forwards."""
    voice = bool(message.get("flags", 0) & VOICE)
    own = len(message.get("attachments") or ()) if not message.get("message_snapshots") else 0
    found = []
    for number, one in enumerate(files_of(message)):
        handle = Handle(str(message["channel_id"]), str(message["id"]), str(one["id"]), str(one.get("url") or ""))
        found.append(
            Attachment(
                kind=(kind := _kind(str(one.get("content_type") or ""), voice=voice)),
                handle=handle.written(),
                name=str(one.get("filename") or ""),
                media_type=str(one.get("content_type") or "").partition(";")[0].strip(),
                size=int(one["size"]) if "size" in one else None,
                recorded=kind == "voice" and number < own,
            )
        )
    return tuple(found)


def files_of(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the files as Discord describes them."""
    yield from message.get("attachments") or ()
    for snapshot in message.get("message_snapshots") or ():
        yield from (snapshot.get("message") or {}).get("attachments") or ()


def served_by_discord(address: str, api_root: str) -> bool:
    """Return whether an address belongs to Discord's file servers, or to the server that the settings name."""
    try:
        asked, root = urlsplit(address), urlsplit(api_root)
        plain = asked.port is None
    except ValueError:
        return False
    if asked.scheme == "https" and asked.hostname in HOSTS and plain:
        return True
    return api_root != OFFICIAL and (asked.scheme, asked.netloc) == (root.scheme, root.netloc)


def _kind(media_type: str, *, voice: bool) -> AttachmentKind:
    match media_type.partition("/")[0]:
        case "image":
            return "image"
        case "video":
            return "video"
        case "audio":
            return "voice" if voice else "audio"
    return "document"


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
