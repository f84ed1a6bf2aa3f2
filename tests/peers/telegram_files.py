"""Files on the Telegram peer: sent by people, fetched by the bot, and uploaded by it, with the limits of the real server."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.peers.telegram_methods import (
    CAPTION_UNITS,
    Refused,
    bad,
    buttons_of,
    chat_of,
    place_of,
    reply_of,
    text_of,
)
from tests.peers.telegram_state import File

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.peers.telegram_state import Chats

PHOTO_LIMIT = 10_000_000
_PICTURES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF")
BLOCK = 64 * 1024


def put(chats: Chats, kind: str, content: bytes, name: str, media_type: str) -> Any:
    """Keep a file, and return it as it stands in a message."""
    number = len(chats.files) + 1
    handle = f"file-{number}-{hashlib.sha256(content).hexdigest()[:16]}"
    chats.files[handle] = File(content, f"{kind}s/file_{number}")
    file: dict[str, Any] = {"file_id": handle, "file_unique_id": f"u{number}", "file_size": len(content)}
    match kind:
        case "photo":
            small = {**file, "file_id": f"{handle}-small", "file_size": 1, "width": 90, "height": 90}
            return [small, {**file, "width": 1280, "height": 960}]
        case "voice":
            return {**file, "duration": 2, "mime_type": media_type}
        case "video" | "animation":
            return {**file, "duration": 2, "width": 640, "height": 480, "file_name": name, "mime_type": media_type}
        case "video_note":
            return {**file, "duration": 2, "length": 240}
        case "audio":
            return {**file, "duration": 2, "file_name": name, "mime_type": media_type}
        case _:
            return {**file, "file_name": name, "mime_type": media_type}


def get_file(chats: Chats, arguments: dict[str, Any]) -> dict[str, Any]:
    handle = str(arguments.get("file_id") or "")
    found = chats.files.get(handle)
    if found is None:
        raise bad("wrong file_id or the file is temporarily unavailable")
    if len(found.content) > chats.download_limit:
        raise bad("file is too big")
    return {"file_id": handle, "file_unique_id": handle, "file_size": len(found.content), "file_path": found.path}


async def serve(chats: Chats, request: web.Request, path: str) -> web.StreamResponse:
    """Answer a download, in blocks; one that is to be cut off ends in the middle."""
    found = next((one for one in chats.files.values() if one.path == path), None)
    if found is None:
        return web.json_response({"ok": False, "error_code": 404, "description": "Not Found"}, status=404)
    response = web.StreamResponse()
    response.content_length = len(found.content)
    await response.prepare(request)
    for start in range(0, len(found.content), BLOCK):
        if found.cut_after is not None and start >= found.cut_after and request.transport is not None:
            request.transport.abort()
            raise asyncio.CancelledError
        await response.write(found.content[start : start + BLOCK])
    await response.write_eof()
    return response


def sending(kind: str) -> Callable[[Chats, dict[str, Any]], dict[str, Any]]:
    """Return the method that sends one kind of file."""

    def send(chats: Chats, arguments: dict[str, Any]) -> dict[str, Any]:
        chat = chat_of(chats, arguments)
        upload = arguments.get(kind)
        if not isinstance(upload, web.FileField):
            raise bad(f"there is no {kind} in the request")
        with upload.file as handle:
            content = handle.read()
        _check(chats, chat, kind, content)
        caption, entities = text_of(arguments, "caption", CAPTION_UNITS)
        more = place_of(chats, arguments) | buttons_of(arguments)
        if kind == "document" and upload.content_type == "image/gif":
            raise bad("the peer takes no moving pictures as documents")
        more[kind] = put(chats, kind, content, upload.filename, upload.content_type)
        message = chats.speak(chat, caption, entities, reply_of(chats, chat, arguments), **more)
        chats.received.append((kind, upload.filename, content))
        return message

    return send


def send_media_group(chats: Chats, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """Send an album: two to ten files, documents and music only with their like. One that is refused refuses all."""
    chat = chat_of(chats, arguments)
    media = json.loads(arguments.get("media") or "[]")
    if not 2 <= len(media) <= 10:
        raise bad("wrong number of messages in the album: there must be 2 to 10")
    kinds = {one.get("type") for one in media}
    if not kinds <= {"photo", "video"} and (len(kinds) > 1 or not kinds <= {"document", "audio"}):
        raise bad("can't mix these types of media in an album")
    if arguments.get("reply_markup"):
        raise bad("albums can't have a reply markup")
    made = []
    for number, one in enumerate(media, 1):
        upload = arguments.get(str(one.get("media") or "").removeprefix("attach://"))
        if not isinstance(upload, web.FileField):
            raise bad(f"there is no file of media #{number} in the request")
        with upload.file as handle:
            content = handle.read()
        try:
            _check(chats, chat, one["type"], content)
        except Refused as refused:
            why = str(refused).removeprefix("Bad Request: ")
            raise bad(f'failed to send message #{number} with the error message "{why}"') from refused
        made.append((one, upload, content, *text_of(one, "caption", CAPTION_UNITS)))
    album, reply, place = f"album-{len(chats.files)}", reply_of(chats, chat, arguments), place_of(chats, arguments)
    sent = []
    for one, upload, content, caption, entities in made:
        kind = one["type"]
        file = {kind: put(chats, kind, content, upload.filename, upload.content_type), "media_group_id": album}
        sent.append(chats.speak(chat, caption, entities, reply, **place, **file))
        chats.received.append((kind, upload.filename, content))
    return sent


def _check(chats: Chats, chat: int, kind: str, content: bytes) -> None:
    if not content:
        raise bad("file must be non-empty")
    if len(content) > chats.upload_limit:
        raise Refused("Request Entity Too Large", 413)
    if kind == "photo" and len(content) > PHOTO_LIMIT:
        raise bad("file is too big for a photo")
    if kind == "photo" and not content.startswith(_PICTURES):
        raise bad("IMAGE_PROCESS_FAILED")
    if kind == "voice" and chat in chats.no_voice:
        raise bad("VOICE_MESSAGES_FORBIDDEN")


METHODS: dict[str, Callable[[Chats, dict[str, Any]], Any]] = {
    "getFile": get_file,
    "sendMediaGroup": send_media_group,
    **{f"send{kind.capitalize()}": sending(kind) for kind in ("photo", "voice", "audio", "video", "document", "animation")},
}
