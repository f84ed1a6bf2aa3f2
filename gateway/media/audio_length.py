"""How long a recording is, by its own headers: Ogg, WAV, MP4, MP3 and FLAC. Nothing is decoded."""

from __future__ import annotations

import struct
from typing import Final

_OPUS_RATE: Final = 48_000
"""Ogg Opus counts samples at this rate whatever was recorded (RFC 7845)."""
_LAST_PAGES: Final = 65_536 + 300
"""The last page of an Ogg file begins at most this many bytes before its end."""
_FINAL_GRANULE: Final = (1 << 64) - 1
_MPEG_RATES: Final = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_MPEG1_LAYER3: Final = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_MPEG2_LAYER3: Final = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_LONGEST: Final = 10 * 86_400.0


def seconds_of(data: bytes) -> float | None:
    """Return the length of a recording in seconds; None where its headers do not say, or cannot be believed."""
    try:
        found = _seconds(data)
    except (struct.error, IndexError, ZeroDivisionError):
        return None
    return found if found is not None and 0 <= found < _LONGEST else None


def _seconds(data: bytes) -> float | None:
    if data.startswith(b"OggS"):
        return _ogg(data)
    if data.startswith(b"RIFF") and data[8:12] == b"WAVE":
        return _wav(data)
    if data.startswith(b"fLaC"):
        return _flac(data)
    if data[4:8] == b"ftyp":
        return _mp4(data)
    return _mp3(data)


def _ogg(data: bytes) -> float | None:
    head = data[:512]
    if (at := head.find(b"OpusHead")) >= 0:
        rate, skipped = _OPUS_RATE, struct.unpack_from("<H", head, at + 10)[0]
    elif (at := head.find(b"\x01vorbis")) >= 0:
        rate, skipped = struct.unpack_from("<I", head, at + 12)[0], 0
    else:
        return None
    last = data.rfind(b"OggS", max(0, len(data) - _LAST_PAGES))
    granule: int = struct.unpack_from("<Q", data, last + 6)[0] if last >= 0 else _FINAL_GRANULE
    if granule == _FINAL_GRANULE:
        return None
    seconds: float = (granule - skipped) / rate
    return max(0.0, seconds)


def _wav(data: bytes) -> float | None:
    at, rate = 12, 0
    while at + 8 <= len(data):
        name, size = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        if name == b"fmt ":
            rate = struct.unpack_from("<I", data, at + 16)[0]
        elif name == b"data":
            return float(min(size, len(data) - at - 8) / rate)
        at += 8 + size + size % 2
    return None


def _flac(data: bytes) -> float | None:
    packed = int.from_bytes(data[18:26], "big")
    rate, samples = packed >> 44, packed & ((1 << 36) - 1)
    return samples / rate if samples else None


def _mp4(data: bytes) -> float | None:
    at = data.find(b"mvhd")
    if at < 0:
        return None
    if data[at + 4] == 1:
        scale, length = struct.unpack_from(">IQ", data, at + 24)
    else:
        scale, length = struct.unpack_from(">II", data, at + 16)
    return float(length / scale)


def _mp3(data: bytes) -> float | None:
    start = 0
    if data.startswith(b"ID3"):
        size = data[6:10]
        start = 10 + (size[0] << 21 | size[1] << 14 | size[2] << 7 | size[3])
    head = int.from_bytes(data[start : start + 4], "big")
    version, layer, kbits, rate = head >> 19 & 3, head >> 17 & 3, head >> 12 & 15, head >> 10 & 3
    if head >> 21 != 0x7FF or version not in _MPEG_RATES or layer != 1 or rate > 2:  # noqa: PLR2004 (bits of the header)
        return None
    samples = 1152 if version == 3 else 576  # noqa: PLR2004 (MPEG 1)
    frame = data[start : start + 200]
    if (at := max(frame.find(b"Xing"), frame.find(b"Info"))) >= 0 and frame[at + 7] & 1:
        return float(struct.unpack_from(">I", frame, at + 8)[0] * samples / _MPEG_RATES[version][rate])
    kbits = (_MPEG1_LAYER3 if version == 3 else _MPEG2_LAYER3)[kbits]  # noqa: PLR2004
    return (len(data) - start) * 8 / (kbits * 1000)
