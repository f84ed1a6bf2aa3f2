"""Closing a connection whose peer is still sending: its answer would be lost if what comes in then were answered with a reset.

It is told that nothing more comes, and what it sends is dropped, until it closes or a limit is reached (RFC 9112, 9.6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

LINGER_SECONDS: Final = 10.0
LINGER_BYTES: Final = 32 * 1024 * 1024
"""As much as the largest body that is allowed anywhere."""


class LingeringTransport:
    """A transport whose first ``close`` lingers, if ``sending`` says that the peer has not finished; a second one ends that."""

    def __init__(self, transport: asyncio.Transport, sending: Callable[[], bool]) -> None:
        self._transport = transport
        self._sending = sending
        self._left = LINGER_BYTES
        self._end: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    @property
    def lingers(self) -> bool:
        """Whether it was closed and the peer may still be sending."""
        return self._end is not None

    def is_closing(self) -> bool:
        """See ``asyncio.BaseTransport``."""
        return self.lingers or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        """Write, unless it was closed."""
        if not self.lingers:
            self._transport.write(data)

    def close(self) -> None:
        """Close; what was written is sent before."""
        if self.lingers or self._transport.is_closing() or not self._sending():
            self.lost()
            self._transport.close()
            return
        self._end = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._transport.close)
        self._transport.write_eof()
        self._transport.resume_reading()

    def drop(self, data: bytes) -> None:
        """Drop what came in while it lingers."""
        self._left -= len(data)
        if self._left < 0:
            self.close()

    def lost(self) -> None:
        """Take note that the connection has ended."""
        if self._end is not None:
            self._end.cancel()
