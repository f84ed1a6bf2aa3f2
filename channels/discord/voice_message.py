"""What a voice message says of its recording: its length and a curve (https://discord.com/developers/docs/resources/message).

The curve is drawn from the sizes of the Opus packets, which grow with what is said: loudness itself would take a decoder.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from channels.messages import OutboundFile

VOICE: Final = 1 << 13
"""The flag of a voice message. It carries one recording and nothing else."""
NO_VOICE: Final = frozenset({50013, 50159, 50160, 50161, 50173})
"""Discord's codes for a voice message that it does not take: the recording is then sent as a file."""
POINTS: Final = 256
LONGEST: Final = 25_000_000
RATE: Final = 48_000
_HEAD: Final = struct.Struct("<4sBBqIIIB")
_BEGINS: Final = b"OggS"


@dataclass(frozen=True, slots=True)
class Voice:
    """The length of a recording in seconds, and its curve in base64."""

    seconds: float
    waveform: str


def voice_of(file: OutboundFile) -> Voice | None:
    """Return what Discord is told of a recording; None for what is no Opus in Ogg. Reads the file."""
    if file.media_type.partition(";")[0].strip().lower() not in {"audio/ogg", "audio/opus"}:
        return None
    try:
        if file.path.stat().st_size > LONGEST:
            return None
        return measured(file.path.read_bytes())
    except OSError:
        return None


def measured(data: bytes) -> Voice | None:
    """Return the length and the curve of Ogg Opus; None for anything else, or what holds no sound."""
    packets: list[list[int]] = []
    end = 0
    for position, sizes, first in _pages(data):
        if position > 0:
            end = position
        if not packets and not first.startswith(b"OpusHead"):
            return None
        packets.append(sizes)
    if len(packets) < 3:  # noqa: PLR2004 - two pages are heads
        return None
    skipped = _skipped(data)
    seconds = round(max(0, end - skipped) / RATE, 3)
    sizes = [size for page in packets[2:] for size in page]
    if seconds <= 0 or not sizes:
        return None
    return Voice(seconds, base64.b64encode(curve(sizes, min(POINTS, max(1, int(seconds * 10))))).decode())


def curve(sizes: list[int], points: int) -> bytes:
    """Return at most ``points`` heights from 0 to 255: the mean sizes of as many parts, the largest of them the highest."""
    points = min(points, len(sizes))
    parts = [sizes[len(sizes) * number // points : len(sizes) * (number + 1) // points] for number in range(points)]
    means = [sum(part) / len(part) for part in parts]
    highest = max(means) or 1.0
    return bytes(round(255 * mean / highest) for mean in means)


def _pages(data: bytes) -> Iterator[tuple[int, list[int], bytes]]:
    """Yield the position, the sizes of the packets that end in it, and the content of each page (RFC 3533)."""
    at = 0
    while at + _HEAD.size < len(data) and data.startswith(_BEGINS, at):
        _, _, _, position, _, _, _, count = _HEAD.unpack_from(data, at)
        lacing = data[at + _HEAD.size : at + _HEAD.size + count]
        begin = at + _HEAD.size + count
        sizes, size = [], 0
        for one in lacing:
            size += one
            if one < 255:  # noqa: PLR2004 - a shorter piece ends a packet
                sizes.append(size)
                size = 0
        content = data[begin : begin + sum(lacing)]
        yield position, sizes, content
        at = begin + sum(lacing)


def _skipped(data: bytes) -> int:
    at = data.find(b"OpusHead")
    return int(struct.unpack_from("<H", data, at + 10)[0]) if at >= 0 and len(data) >= at + 12 else 0
