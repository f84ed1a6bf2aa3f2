"""Downloads and uploads files. A download takes two steps: Meta gives an address for the file's id, which is good for five minutes.

https://developers.facebook.com/documentation/business-messaging/whatsapp/business-phone-numbers/media. Importing this module loads aiohttp.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import aiohttp

from channels.common.saving import check_size, save
from channels.errors import NotFetched, NotSent
from channels.whatsapp.error_codes import TOO_OFTEN
from channels.whatsapp.graph_api import TROUBLE, GraphApi, Refused

if TYPE_CHECKING:
    from channels.messages import Attachment, OutboundFile
    from channels.whatsapp.settings import WhatsAppAccount

MB: Final = 1_048_576
SLOWEST: Final = 50_000
"""Bytes a second below which a transfer is given up."""
_PIECE: Final = 64 * 1024
_FINE, _SERVER, _TOO_MANY = 300, 500, 429
_EXPIRED: Final = {401, 403, 404, 410}
_IMAGES: Final = frozenset({"image/jpeg", "image/png"})
_VIDEOS: Final = frozenset({"video/mp4", "video/3gpp"})
_SOUNDS: Final = frozenset({"audio/aac", "audio/mp4", "audio/mpeg", "audio/amr", "audio/ogg"})
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
_DOCUMENTS: Final = frozenset(
    {
        "text/plain",
        "application/pdf",
        "application/msword",
        "application/vnd.ms-excel",
        "application/vnd.ms-powerpoint",
        f"{_OFFICE}wordprocessingml.document",
        f"{_OFFICE}spreadsheetml.sheet",
        f"{_OFFICE}presentationml.presentation",
    }
)
_AS_TEXT: Final = ("text/", "application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml")
_MOST: Final = {"image": 5 * MB, "video": 16 * MB, "audio": 16 * MB, "document": 100 * MB}


@dataclass(frozen=True, slots=True)
class Shown:
    """As what a file is shown, and the type under which Meta takes it."""

    kind: str
    media_type: str
    voice: bool = False


def shown_as(file: OutboundFile, size: int) -> Shown | None:
    """Return how a file is shown; None if WhatsApp takes none of its kind. A picture or video that is too large is a document."""
    media_type = file.media_type.partition(";")[0].strip().lower()
    for kind, types in (("image", _IMAGES), ("video", _VIDEOS), ("audio", _SOUNDS)):
        if media_type in types and size <= _MOST[kind]:
            return Shown(kind, media_type, voice=media_type == "audio/ogg")
    if media_type in _DOCUMENTS | _IMAGES | _VIDEOS | _SOUNDS:
        return Shown("document", media_type)
    return Shown("document", "text/plain") if media_type.startswith(_AS_TEXT) else None


async def size_of(file: OutboundFile, most: float | None) -> int:
    """Return the size of a file that is to be sent. Raises NotSent if it cannot be, or is too large or empty."""
    try:
        size = (await asyncio.to_thread(file.path.stat)).st_size
    except OSError as error:
        raise _unreadable(file) from error
    largest = min(_MOST["document"], (most or _MOST["document"] / MB) * MB)
    if size > largest:
        raise NotSent(
            f"{file.name!r} has {size / MB:.1f} MB, and at most {largest / MB:g} can be sent",
            permanent=True,
            hint="send a smaller one, or a link",
        )
    if size == 0:
        raise NotSent(f"WhatsApp does not take empty files, and {file.name!r} is empty", permanent=True)
    return size


async def upload(api: GraphApi, file: OutboundFile, media_type: str, size: int, seconds: float) -> str:
    """Upload a file and return its id: nothing is shown yet.

    Raises:
        NotSent: it was not taken, or could not be read.
    """
    try:
        content = await asyncio.to_thread(file.path.open, "rb")
    except OSError as error:
        raise _unreadable(file) from error
    form = aiohttp.FormData({"messaging_product": "whatsapp", "type": media_type})
    form.add_field("file", content, filename=file.name, content_type=media_type)
    try:
        return await api.upload(form, seconds + size / SLOWEST)
    except Refused as error:
        passing = error.page or error.status >= _SERVER or error.code in TOO_OFTEN or error.status == _TOO_MANY
        raise NotSent(f"WhatsApp does not take the file: {error}", permanent=not passing and error.code != 190) from error  # noqa: PLR2004 - the token
    except (*TROUBLE, KeyError) as error:
        raise NotSent(f"the file could not be uploaded: {str(error) or type(error).__name__}") from error
    finally:
        await asyncio.to_thread(content.close)


def _unreadable(file: OutboundFile) -> NotSent:
    return NotSent(f"the file {file.name!r} to send cannot be read", permanent=True)


async def fetch(api: GraphApi, settings: WhatsAppAccount, attachment: Attachment, path: Path, limit: int) -> None:
    """Save a file at ``path``; see ``channels.protocol.Fetches``."""
    try:
        for last in (False, True):
            found = await _looked_up(api, attachment.handle)
            check_size(int(found.get("file_size") or 0), limit)
            if await _saved(api, str(found.get("url") or ""), path, limit, settings.timeout_seconds):
                return
            if last:  # two addresses in a row, each asked for a moment ago
                raise NotFetched("Meta does not give the file at the address that it names", permanent=False)
    except TROUBLE as error:
        raise NotFetched(f"the file could not be downloaded: {str(error) or type(error).__name__}", permanent=False) from error


async def _looked_up(api: GraphApi, handle: str) -> dict[str, Any]:
    if not handle.isascii() or not handle.isalnum():
        raise NotFetched("this is no id of a file")
    try:
        return await api.get(handle, phone_number_id=api.number)
    except Refused as error:
        gone = not error.page and error.status < _SERVER and error.code not in TOO_OFTEN | {190} and error.status != _TOO_MANY
        if not gone:
            raise
        raise NotFetched(f"the file is gone: WhatsApp keeps files for seven days ({error})") from error


async def _saved(api: GraphApi, address: str, path: Path, limit: int, seconds: float) -> bool:
    """Save what is at an address; False if that is over."""
    if not api.may_see_token(address):
        raise NotFetched(f"the file is not stored by Meta ({_host(address) or 'no address'})")
    async with api.download(address, seconds + limit / SLOWEST) as answer:
        if answer.status in _EXPIRED:
            return False
        if answer.status == _TOO_MANY or answer.status >= _SERVER:
            raise NotFetched(f"Meta answered {answer.status}", permanent=False)
        if answer.status >= _FINE:
            raise NotFetched(f"Meta returned {answer.status} instead of the file")
        check_size(answer.content_length or 0, limit)
        await save(answer.content.iter_chunked(_PIECE), path, limit)
    return True


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""
