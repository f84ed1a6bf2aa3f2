"""The frames that the gateway and its runner process exchange over a socket. Imports the standard library alone.

A frame is a length (4 bytes), a kind (1 byte), a job number (4 bytes) and a payload of that length: JSON, raw bytes, or a count.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

START: Final = b"S"
"""To the runner: start a command. JSON: ``plan``, ``pty`` ([rows, columns] or null), ``input``, ``timeout`` and ``watch``."""
INPUT: Final = b"I"
"""To the runner: bytes for the command's standard input."""
END_INPUT: Final = b"E"
"""To the runner: close the command's standard input."""
KILL: Final = b"K"
"""To the runner: end the command's processes. JSON: ``grace``, seconds between SIGTERM and SIGKILL, and ``reason``."""
SEEN: Final = b"A"
"""To the runner: that many bytes of output were taken in, and as many more may be sent."""
STARTED: Final = b"P"
"""From the runner: the command is about to be executed. JSON: ``pid``."""
OUTPUT: Final = b"O"
"""From the runner: bytes that the command printed."""
TAKEN: Final = b"U"
"""From the runner: that many bytes of input were written to the command."""
EXITED: Final = b"X"
"""From the runner: the command and all its processes are gone. JSON: see ``keeper.py``."""
FAILED: Final = b"F"
"""From the runner: the command was never executed. JSON: ``errno``, ``text`` and ``file``."""

WINDOW: Final = 256 * 1024
"""How many bytes of a job's output may be on the way before the gateway says ``SEEN``."""
LONGEST: Final = 8 * 1024 * 1024
"""The longest payload, in bytes."""
_HEAD: Final = struct.Struct(">IcI")
_COUNT: Final = struct.Struct(">I")


class BrokenFrame(Exception):
    """The bytes that arrived are no frame."""


class Frame(NamedTuple):
    """One frame."""

    kind: bytes
    job: int
    payload: bytes

    @property
    def json(self) -> Any:
        """The payload as JSON values."""
        return json.loads(self.payload)

    @property
    def number(self) -> int:
        """The payload as a count of bytes."""
        return int(_COUNT.unpack(self.payload)[0])


def packed(kind: bytes, job: int, payload: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    return _HEAD.pack(len(payload), kind, job) + payload


def packed_json(kind: bytes, job: int, value: Any) -> bytes:
    """Return a frame with a JSON payload as bytes."""
    return packed(kind, job, json.dumps(value).encode())


def packed_count(kind: bytes, job: int, count: int) -> bytes:
    """Return a frame with a count as bytes."""
    return packed(kind, job, _COUNT.pack(count))


class Unpacker:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take in bytes, and yield every frame that is complete. Raises BrokenFrame."""
        buffer = self._buffer
        buffer += data
        at = 0
        try:
            while len(buffer) - at >= _HEAD.size:
                length, kind, job = _HEAD.unpack_from(buffer, at)
                if length > LONGEST:
                    raise BrokenFrame(f"a frame of {length} bytes")
                end = at + _HEAD.size + length
                if len(buffer) < end:
                    break
                payload = bytes(buffer[at + _HEAD.size : end])
                at = end
                yield Frame(kind, job, payload)
        finally:
            del buffer[:at]
