"""How Telegram shows files, and which of them go together in an album (https://core.telegram.org/bots/api#sendmediagroup)."""

from __future__ import annotations

from typing import Final

from channels.common.chunking import utf16_length
from channels.messages import OutboundFile

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
LARGEST_PHOTO: Final = 10_000_000
LONGEST_CAPTION: Final = 1024
ALBUM_MOST: Final = 10
ALBUM_BYTES: Final = 50_000_000
"""A limit of our own: what Telegram takes of one upload."""
_TOGETHER: Final = {"photo": "seen", "video": "seen", "document": "document", "audio": "audio"}


def form_of(media_type: str, size: int) -> str:
    """Return how a file is sent."""
    form = FORMS.get(media_type.partition(";")[0].strip().lower(), "document")
    return "document" if form == "photo" and size > LARGEST_PHOTO else form


def album_kind(file: OutboundFile, size: int) -> str:
    """Return with what a file may stand in an album: pictures with films, documents and music with their like, others alone.

    One whose caption might be too long stands alone: its text follows as a message.
    """
    if utf16_length(file.caption) > LONGEST_CAPTION:
        return ""
    return _TOGETHER.get(form_of(file.media_type, size), "")
