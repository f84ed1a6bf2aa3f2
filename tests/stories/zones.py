"""A time zone of one's own, in which a given hour comes soon: the system clock stays as it is.

zoneinfo reads compiled zones (RFC 8536) from the folders of ``PYTHONTZPATH`` before those of the system.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NAME = "Story/Soon"


def zone_before_midnight(folder: Path, seconds: float) -> timezone:
    """Write the zone ``NAME`` into a folder: in it, midnight comes after so many seconds. Return the same offset for the story itself."""
    now = datetime.now(UTC)
    passed = timedelta(hours=now.hour, minutes=now.minute, seconds=now.second)
    offset = round((timedelta(days=1) - timedelta(seconds=seconds) - passed).total_seconds())
    if offset > 12 * 3600:
        offset -= 24 * 3600
    file = folder / NAME
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(_compiled(offset))
    return timezone(timedelta(seconds=offset))


def _compiled(offset: int) -> bytes:
    """Return a zone that has had one offset for ever."""
    name = b"STY\0"
    counts = struct.pack(">6l", 0, 0, 0, 0, 1, len(name))
    kind = struct.pack(">lbB", offset, 0, 0)
    block = b"TZif2" + b"\0" * 15 + counts + kind + name
    hours, rest = divmod(abs(offset), 3600)
    minutes, secs = divmod(rest, 60)
    sign = "-" if offset > 0 else ""  # POSIX counts westwards
    return block + block + f"\n<STY>{sign}{hours}:{minutes:02}:{secs:02}\n".encode()
