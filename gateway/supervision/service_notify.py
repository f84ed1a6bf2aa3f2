"""Tells systemd that the gateway is ready, alive and stopping (``Type=notify``, ``WatchdogSec=``).

The protocol is a datagram of lines to the socket in ``NOTIFY_SOCKET`` (sd_notify(3)); without that variable nothing is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping

_PARTS_OF_THE_INTERVAL = 3
"""The service manager hears from us this often within the time after which it would end the process."""
_MICROSECONDS = 1_000_000


class ServiceNotifier:
    """Sends the state of this process to the service manager. Failures are ignored: the manager notices by itself."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._address = _address(env.get("NOTIFY_SOCKET", ""))
        self.interval = _interval(env) if self._address else None

    def ready(self, status: str) -> None:
        """Say that the gateway serves, and in one line what."""
        self._send(f"READY=1\nSTATUS={' '.join(status.split())}")

    def stopping(self, seconds: float) -> None:
        """Say that the gateway stops, and within how many seconds it will have ended."""
        self._send(f"STOPPING=1\nSTATUS=Finishing what is under way\nEXTEND_TIMEOUT_USEC={int(seconds * _MICROSECONDS)}")

    async def beat(self) -> None:
        """Say again and again that the event loop runs, until cancelled; return at once where nobody wants to hear it."""
        while self.interval is not None:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self.interval)

    def _send(self, text: str) -> None:
        if self._address is None:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
            out.setblocking(False)  # noqa: FBT003 - its own signature
            out.sendto(text.encode(), self._address)


def _address(path: str) -> str | None:
    """Return the address of the socket; a leading @ stands for the abstract namespace."""
    if path.startswith("@"):
        return "\0" + path[1:]
    return path if path.startswith("/") else None


def _interval(env: Mapping[str, str]) -> float | None:
    """Return the seconds between signs of life; None where the manager expects none from this process."""
    if env.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        limit = int(env.get("WATCHDOG_USEC", "0")) / _MICROSECONDS
    except ValueError:
        return None
    return limit / _PARTS_OF_THE_INTERVAL if limit > 0 else None
