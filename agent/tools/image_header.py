"""Recognises a picture and its size from its first bytes, without decoding it.

Layouts: PNG (W3C, IHDR), GIF89a, JPEG (ITU T.81, frame headers), WebP (RFC 9649).
"""

from __future__ import annotations

from msgspec import Struct

_MARKER = 0xFF
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class ImageHeader(Struct, frozen=True):
    """What a file says of itself. Sides are in pixels; 0 where the header is broken."""

    media_type: str
    width: int
    height: int


def read_image_header(data: bytes) -> ImageHeader | None:
    """Return the kind and size of a picture, or None for other data."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return ImageHeader("image/png", _big(data[16:20]), _big(data[20:24]))
    if data.startswith((b"GIF87a", b"GIF89a")):
        return ImageHeader("image/gif", _little(data[6:8]), _little(data[8:10]))
    if data.startswith(b"\xff\xd8\xff"):
        return ImageHeader("image/jpeg", *_jpeg_sides(data))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return ImageHeader("image/webp", *_webp_sides(data))
    return None


_STEPS = 65_536
"""Steps to the frame header of a picture at most, filling included. Real ones take some dozens."""


def _jpeg_sides(data: bytes) -> tuple[int, int]:
    """Walk the segments to the first frame header (SOF0-SOF15 but for DHT, JPG and DAC); one that comes late is not found."""
    at = 2
    for _ in range(_STEPS):
        if at + 9 > len(data) or data[at] != _MARKER:
            break
        if data[at + 1] in _FRAMES:
            return _big(data[at + 7 : at + 9]), _big(data[at + 5 : at + 7])
        at += 1 if data[at + 1] == _MARKER else 2 + _big(data[at + 2 : at + 4])
    return 0, 0


def _webp_sides(data: bytes) -> tuple[int, int]:
    form = data[12:16]
    if form == b"VP8X":
        return _little(data[24:27]) + 1, _little(data[27:30]) + 1
    if form == b"VP8L":
        bits = _little(data[21:25])
        return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
    if form == b"VP8 ":
        return _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF
    return 0, 0


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
