"""Types of files, detected by content, and safe names. What the sender claims is only shown, never trusted."""

from __future__ import annotations

import re
from typing import Final

from agent.tools.image_header import read_image_header

UNKNOWN: Final = "application/octet-stream"
TEXT: Final = "text/plain"

_AT_START: Final = (
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf1", "audio/aac"),
    (b"\xff\xf9", "audio/aac"),
    (b"fLaC", "audio/flac"),
    (b"#!AMR", "audio/amr"),
    (b"\x1a\x45\xdf\xa3", "video/webm"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ", "application/x-msdownload"),
    (b"\xca\xfe\xba\xbe", "application/java-vm"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
)
_SHORT: Final = frozenset({"image/bmp", "application/x-msdownload", "application/x-bzip2", "audio/mpeg"})
"""Signatures so short that a text might begin with them."""
EPUB: Final = "application/epub+zip"
_OFFICE: Final = (
    (b"word/document", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (b"xl/workbook", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    (b"ppt/presentation", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
)
DOCUMENTS: Final = frozenset({"application/pdf", EPUB, *(kind for _, kind in _OFFICE)})
"""Types that the tool ``read`` shows as text."""
_BRANDS: Final = {
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"heic": "image/heic",
    b"mif1": "image/heif",
    b"avif": "image/avif",
}
HTML: Final = "text/html"
_RIFF: Final = {b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_HEAD: Final = 4096
_KB: Final = 1000
_MB: Final = 1_000_000


def media_type(data: bytes) -> str:
    """Return a file's MIME type: one of a few known by their first bytes, plain text, or ``application/octet-stream``."""
    from agent.tools.read_file import is_binary

    found = read_image_header(data)
    if found is not None:
        return found.media_type
    if data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], "video/mp4")
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12], UNKNOWN)
    known = next((kind for start, kind in _AT_START if data.startswith(start)), None)
    if known == "application/zip":
        return _archive_type(data)
    if known is not None and (known not in _SHORT or is_binary(data)):
        return known
    return UNKNOWN if not data or is_binary(data) else TEXT


def is_page(data: bytes, name: str) -> bool:
    """Return whether a text is a web page: by its name, or by how it begins. What it hides is left out when it is read."""
    begins = data[:_HEAD].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    named = name.lower().endswith((".html", ".htm", ".xhtml"))
    return media_type(data) == TEXT and (named or begins.startswith((b"<!doctype html", b"<html")))


def _archive_type(data: bytes) -> str:
    """Tell documents that are ZIP files from others: by the names of their parts, which stand in the file as they are."""
    if EPUB.encode() in data[:_HEAD]:
        return EPUB
    office = b"[Content_Types].xml" in data
    return next((kind for mark, kind in _OFFICE if office and mark in data), "application/zip")


def format_size(size: int) -> str:
    """Format a size in bytes, kB or MB."""
    if size < _KB:
        return f"{size} bytes"
    return f"{size / _KB:.0f} kB" if size < _MB else f"{size / _MB:.1f} MB"


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
    "application/epub+zip": ".epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
}


def safe_name(name: str, media_type: str, kind: str = _FALLBACK) -> str:
    """Return a safe file name: no folder, no invisible characters, no leading dot, limited length, with an extension.

    An empty name is replaced by the ``kind`` of the file.
    """
    from unicodedata import normalize

    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    plain = "".join(character for character in normalize("NFKC", last) if _visible(character))
    plain = _UNFIT.sub("_", plain).strip(". _-")
    stem, dot, end = plain.rpartition(".")
    if not dot or not stem or len(end.encode()) > _LONGEST_END:
        stem, end = plain, _ENDINGS.get(media_type, "").lstrip(".")
    stem = _cut(stem, LONGEST - len(end.encode()) - 1).strip(". _-") or kind
    return f"{stem}.{end}" if end else stem


def _visible(character: str) -> bool:
    if character.isascii():
        return character.isprintable()
    from unicodedata import category

    return category(character)[0] not in {"C", "Z"}


def _cut(text: str, most: int) -> str:
    return text.encode()[:most].decode("utf-8", "ignore")
