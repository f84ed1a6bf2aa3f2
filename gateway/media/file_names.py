"""Sanitises file names given by others."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

LONGEST: Final = 80
"""Maximum UTF-8 bytes, leaving room for a prefix."""
_LONGEST_END: Final = 12
_UNFIT: Final = re.compile(r"[\\/:*?\"<>|%~$`;&#{}\[\]\s]+")
_FALLBACK: Final = "file"
_ENDINGS: Final = {
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "audio/ogg": ".ogg",
    "audio/mpeg": ".mp3",
    "audio/mp4": ".m4a",
    "audio/wav": ".wav",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
    "application/pdf": ".pdf",
    "text/plain": ".txt",
}


def safe_name(name: str, media_type: str, kind: str = _FALLBACK) -> str:
    """Return a safe file name: no folder, no invisible characters, no leading dot, limited length, with an extension.

    An empty name is replaced by the ``kind`` of the file.
    """
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    plain = "".join(character for character in unicodedata.normalize("NFKC", last) if _visible(character))
    plain = _UNFIT.sub("_", plain).strip(". _-")
    stem, dot, end = plain.rpartition(".")
    if not dot or not stem or len(end.encode()) > _LONGEST_END:
        stem, end = plain, _ENDINGS.get(media_type, "").lstrip(".")
    stem = _cut(stem, LONGEST - len(end.encode()) - 1).strip(". _-") or kind
    return f"{stem}.{end}" if end else stem


def _visible(character: str) -> bool:
    return character == " " or unicodedata.category(character)[0] not in {"C", "Z"}


def _cut(text: str, most: int) -> str:
    return text.encode()[:most].decode("utf-8", "ignore")
