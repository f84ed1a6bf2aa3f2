"""An IMAP connection with limits: each operation has a time and a number of bytes, whatever the server sends.

The client of the standard library waits and collects without end; a server that hangs, trickles or floods would hold a thread and its
memory. Here all reading and writing goes by a deadline and a budget that the operation set.
"""

from __future__ import annotations

import imaplib
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from channels.common.mail.server_settings import DEFAULT_PORTS, MailServer

if TYPE_CHECKING:
    from typing_extensions import Buffer

CONNECT_SECONDS: Final = 20.0
OPERATION_BYTES: Final = 8_000_000
"""What one operation may receive unless it asks for more: a list of a million message numbers fits."""
LONGEST_LINE: Final = 4_000_000
_CHUNK: Final = 65_536
_AT_ONCE: Final = 262_144
"""Bytes that are sent before the time is looked at again."""


class TooMuch(OSError):
    """The server sent more than an operation may receive. The connection cannot be used any more."""


class BoundedIMAP(imaplib.IMAP4):
    """An IMAP connection. ``allow`` begins an operation; ``abort`` ends whatever waits, from another thread.

    Raises ``TimeoutError`` when the time of an operation is over, ``TooMuch`` beyond its bytes, and what ``imaplib`` raises.
    """

    def __init__(
        self, server: MailServer, *, seconds: float = CONNECT_SECONDS, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._server = server
        self._monotonic = monotonic
        self._received = bytearray()
        self._wake_read, self._wake_write = os.pipe()
        self._closing = threading.Lock()
        self._context = tls_context(server) if server.security != "none" else None
        self.allow(seconds)
        try:
            super().__init__(server.host, server.port or DEFAULT_PORTS["imap", server.security], timeout=seconds)
            if server.security == "starttls":
                try:
                    self._encrypt()
                except BaseException:
                    self.sock.close()
                    raise
        except BaseException:
            self._close_pipe()
            raise

    def allow(self, seconds: float, most_bytes: int = OPERATION_BYTES) -> None:
        """Begin an operation that may take so long and receive so much."""
        self._deadline = self._monotonic() + seconds
        self._left = most_bytes

    def open(self, host: str = "", port: int = 143, timeout: float | None = None) -> None:
        """Connect, encrypted where that is how the server is spoken to."""
        self.host, self.port = host, port
        plain = socket.create_connection((host, port), timeout)
        try:
            plain.settimeout(self._remaining())
            encrypted = self._server.security == "tls" and self._context is not None
            self.sock = self._context.wrap_socket(plain, server_hostname=host) if encrypted and self._context else plain
        except BaseException:
            plain.close()
            raise

    def _encrypt(self) -> None:
        if "STARTTLS" not in self.capabilities:
            raise self.error("the server does not offer STARTTLS")
        assert self._context is not None
        answer, words = self.xatom("STARTTLS")
        if answer != "OK":
            raise self.error(f"the server refuses STARTTLS: {words}")
        if self._received:  # in plain text: somebody on the way could have put it there
            raise self.abort("the server sent something before the encryption began")
        self.sock.settimeout(self._remaining())
        self.sock = self._context.wrap_socket(self.sock, server_hostname=self.host)
        self.capabilities = ()  # what was said before may be somebody else's word

    def read(self, size: int) -> bytes:
        """Read exactly ``size`` bytes."""
        if size > self._left + len(self._received):
            raise TooMuch(f"the server announces {size:,} bytes, which is more than this may take")
        while len(self._received) < size:
            self._receive()
        return self._take(size)

    def readline(self) -> bytes:
        """Read one line."""
        looked = 0
        while (end := self._received.find(b"\n", looked)) < 0:
            looked = len(self._received)
            if looked > LONGEST_LINE:
                raise TooMuch("the server sends a line without end")
            self._receive()
        return self._take(end + 1)

    def send(self, data: Buffer) -> None:
        """Send all of it."""
        view = memoryview(data)
        for start in range(0, len(view), _AT_ONCE):
            self.sock.settimeout(self._remaining())
            self.sock.sendall(view[start : start + _AT_ONCE])

    def shutdown(self) -> None:
        """Close the connection."""
        self._close_pipe()
        self.sock.close()

    def abort_waiting(self) -> None:
        """End what waits for the server. Called from another thread."""
        with self._closing:
            if self._wake_write >= 0:
                os.write(self._wake_write, b"x")

    def wait_for_line(self, seconds: float) -> bytes | None:
        """Return the next line, or None where none came in time or ``abort_waiting`` was called. For IDLE."""
        end = self._monotonic() + seconds
        while b"\n" not in self._received:
            left = end - self._monotonic()
            if left <= 0 or not self._readable(left):
                return None
            self.allow(max(left, 1.0), LONGEST_LINE)
            self._receive()
        return self.readline()

    def _readable(self, seconds: float) -> bool:
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            return True
        poll = select.poll()
        poll.register(self.sock.fileno(), select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        found = [descriptor for descriptor, _ in poll.poll(seconds * 1000)]
        return bool(found) and self._wake_read not in found

    def _receive(self) -> None:
        self.sock.settimeout(self._remaining())
        data = self.sock.recv(_CHUNK)
        if not data:
            raise self.abort("the server closed the connection")
        self._left -= len(data)
        if self._left < 0:
            raise TooMuch("the server sends more than this may take")
        self._received += data

    def _take(self, size: int) -> bytes:
        data = bytes(self._received[:size])
        del self._received[:size]
        return data

    def _remaining(self) -> float:
        left = self._deadline - self._monotonic()
        if left <= 0:
            raise TimeoutError("the server does not answer in time")
        return left

    def _close_pipe(self) -> None:
        with self._closing:
            if self._wake_write >= 0:
                os.close(self._wake_read)
                os.close(self._wake_write)
                self._wake_read = self._wake_write = -1


def tls_context(server: MailServer) -> ssl.SSLContext:
    """Return the checks of a server's certificate. Blocking: reads files. Raises OSError where ``caFile`` cannot be read."""
    chosen: Path | None = server.ca_file.expanduser() if server.ca_file else None
    context = ssl.create_default_context(cafile=str(chosen) if chosen else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
