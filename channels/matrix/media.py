"""Downloads and uploads files, decrypted and encrypted on this machine where the room is. Importing this module loads aiohttp."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from channels.common.json_answers import BadAnswer, read_json
from channels.common.saving import check_size, save
from channels.errors import ChannelError, NotFetched, NotSent
from channels.matrix.attachments import parsed_handle
from channels.matrix.http_api import LARGEST, OLD_MEDIA, TROUBLE, V1_MEDIA, MatrixHttp, Refused, refusal

if TYPE_CHECKING:
    from channels.messages import Attachment, OutboundFile

PIECE: Final = 1 << 18
SLOWEST: Final = 50_000
"""Bytes a second below which a transfer is given up."""
NO_CRYPTO: Final = "install the extra: `make extras` in a clone, elsewhere pip install 'homebody[matrix]'"
_MISSING, _FINE, _TOO_LARGE = 404, 300, 413
_GONE = {401, 403, 404, 410}


async def fetch(http: MatrixHttp, attachment: Attachment, path: Path, limit: int, seconds: float) -> None:
    """Save a file at ``path``; see ``channels.protocol.Fetches``."""
    server, media, key = parsed_handle(attachment.handle)
    check_size(attachment.size or 0, limit)
    whole = seconds + limit / SLOWEST
    try:
        for base in (V1_MEDIA, OLD_MEDIA):  # homeservers before 1.11 know the old one alone
            async with http.open("GET", f"{base}/download/{server}/{media}", seconds=whole) as response:
                if response.status in _GONE and base == V1_MEDIA:
                    continue
                if response.status >= _FINE:
                    gone = response.status in _GONE and response.content_type == "application/json"
                    raise NotFetched(f"the homeserver returned {response.status} instead of the file", permanent=gone)
                check_size(response.content_length or 0, limit)
                blocks = response.content.iter_chunked(PIECE)
                await save(blocks if key is None else _decrypted(blocks, key), path, limit)
                return
    except TROUBLE as error:
        raise NotFetched(f"the file could not be downloaded: {str(error) or type(error).__name__}", permanent=False) from error


async def _decrypted(blocks: AsyncIterator[bytes], key: dict[str, str]) -> AsyncIterator[bytes]:
    """Yield the content of an encrypted file. Raises NotFetched at its end if it is not the one that was sent."""
    try:
        from Crypto.Cipher import AES
    except ImportError as error:
        raise NotFetched("the file is encrypted", hint=NO_CRYPTO) from error
    try:
        start = _unpadded(key["iv"])
        cipher = AES.new(_unpadded(key["k"]), AES.MODE_CTR, nonce=start[:8], initial_value=int.from_bytes(start[8:], "big"))
        expected = _unpadded(key["sha256"])
    except (ValueError, LookupError) as error:
        raise NotFetched("the key of the file is damaged") from error
    seen = hashlib.sha256()
    async for block in blocks:
        seen.update(block)
        yield cipher.decrypt(block)
    if seen.digest() != expected:
        raise NotFetched("the file is not the one that was sent: its checksum is another")


def _unpadded(text: str) -> bytes:
    return base64.b64decode(text.translate({ord("-"): "+", ord("_"): "/"}) + "=" * (-len(text) % 4))


def _text(raw: bytes, *, url: bool = False) -> str:
    return (base64.urlsafe_b64encode(raw) if url else base64.b64encode(raw)).decode().rstrip("=")


async def upload(http: MatrixHttp, file: OutboundFile, *, encrypt: bool, most: float | None, seconds: float) -> dict[str, Any]:
    """Upload a file and return the fields of its message: ``url``, or ``file`` with the key, and ``info``.

    Raises:
        NotSent: it cannot be read or is too large; or one of ``TROUBLE``, after which nothing is shown to anybody.
    """
    content = await asyncio.to_thread(_content, file, most)
    info: dict[str, Any] = {"size": len(content), "mimetype": file.media_type or "application/octet-stream"}
    secret: dict[str, Any] | None = None
    if encrypt:
        content, secret = await asyncio.to_thread(_encrypted, content)
    media_type = "application/octet-stream" if encrypt else info["mimetype"]
    query = None if encrypt else {"filename": file.name}
    whole = seconds + len(content) / SLOWEST
    async with http.open("POST", f"{OLD_MEDIA}/upload", content, media_type=media_type, query=query, seconds=whole) as response:
        found = await read_json(response, LARGEST)
        if response.status == _TOO_LARGE:
            raise NotSent(
                f"{file.name!r} has {len(content) / 1_048_576:.1f} MB, which is more than the homeserver takes",
                permanent=True,
                hint="send a smaller one, or a link",
            )
        if response.status >= _FINE:
            raise refusal(response.status, found, response.headers.get("Retry-After"))
    address = found.get("content_uri") if isinstance(found, dict) else None
    if not isinstance(address, str):
        raise BadAnswer("the answer to an upload does not say where the file is")
    return {"info": info, **({"url": address} if secret is None else {"file": {**secret, "url": address}})}


def _content(file: OutboundFile, most: float | None) -> bytes:
    try:
        size = file.path.stat().st_size
        if most is not None and size > most * 1_048_576:
            raise NotSent(
                f"{file.name!r} has {size / 1_048_576:.1f} MB, and channels.matrix.mediaMaxMb is {most:g}",
                permanent=True,
                hint="send a smaller one, or a link",
            )
        return file.path.read_bytes()
    except OSError as error:
        raise NotSent(f"the file {file.name!r} to send cannot be read: {error.strerror}", permanent=True) from error


def _encrypted(content: bytes) -> tuple[bytes, dict[str, Any]]:
    """Return the content encrypted, and what decrypts it (https://spec.matrix.org/latest/client-server-api/#sending-encrypted-attachments)."""
    from Crypto.Cipher import AES

    key, start = os.urandom(32), os.urandom(8)
    sealed = AES.new(key, AES.MODE_CTR, nonce=start, initial_value=0).encrypt(content)
    web_key = {"kty": "oct", "key_ops": ["encrypt", "decrypt"], "alg": "A256CTR", "k": _text(key, url=True), "ext": True}
    return sealed, {
        "v": "v2",
        "key": web_key,
        "iv": _text(start + bytes(8)),
        "hashes": {"sha256": _text(hashlib.sha256(sealed).digest())},
    }


def upload_error(error: Exception) -> ChannelError:
    """Return the error of an upload that failed: nothing was shown, so that nothing is in doubt."""
    if isinstance(error, Refused):
        passing = error.passing
        return NotSent(f"the homeserver does not take the file: {error}", permanent=not passing, retry_after=error.retry_after)
    if isinstance(error, aiohttp.ClientError | TimeoutError | OSError):
        return NotSent(f"the file could not be uploaded: {str(error) or type(error).__name__}")
    return NotSent(f"the file could not be uploaded: {error}")
