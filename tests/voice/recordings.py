"""Recordings made of the bytes that their formats want, without any program that records."""

from __future__ import annotations

import io
import struct
import wave


def wav(seconds: float, rate: int = 8000) -> bytes:
    made = io.BytesIO()
    with wave.open(made, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(bytes(2 * round(seconds * rate)))
    return made.getvalue()


def opus(seconds: float, skipped: int = 312) -> bytes:
    """An Ogg file with the headers of Opus and a last page that ends after so many seconds. No player would like its sound."""
    head = b"OpusHead" + struct.pack("<BBHIhB", 1, 1, skipped, 48_000, 0, 0)
    tags = b"OpusTags" + struct.pack("<I", 4) + b"test" + struct.pack("<I", 0)
    last = round(seconds * 48_000) + skipped
    return page(head, 0, 0, 2) + page(tags, 0, 1, 0) + page(b"\xfc" * 60, last // 2, 2, 0) + page(b"\xfc" * 60, last, 3, 4)


def page(content: bytes, granule: int, number: int, flags: int) -> bytes:
    head = struct.pack("<4sBBQIIIB", b"OggS", 0, flags, granule, 7, number, 0, 1) + bytes([len(content)])
    return head + content
