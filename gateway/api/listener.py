"""Listening sockets that leave descriptors to the gateway itself, and that wait without filling the log where none are left."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
import time
from typing import Any, Self

log = logging.getLogger(__name__)

KEPT_SHARE = 4
"""One of so many descriptors is kept from connections, for files, programs and connections that the gateway itself opens."""
MOST_KEPT = 256
TOLD_EVERY = 600.0
"""Seconds between two log lines about connections that wait."""
_REST = 0.5
"""Seconds without a further attempt. asyncio tries again after one second, but before it rests it tries as often as the backlog is long."""
_NONE_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener(socket.socket):
    """A listening socket. ``keeps``: it takes no connection where few descriptors are left; who connects waits until there are more."""

    keeps = False
    _rests_until = float("-inf")
    _told_at = float("-inf")

    @classmethod
    def of(cls, plug: socket.socket, *, keeps: bool) -> Self:
        """Return a listener in place of ``plug``, which is not to be used any more."""
        made = cls(plug.family, plug.type, plug.proto, fileno=plug.detach())
        made.setblocking(False)  # noqa: FBT003 - the standard library's signature
        made.keeps = keeps
        return made

    def accept(self) -> tuple[socket.socket, Any]:
        """Take a connection. Raises OSError with EMFILE where none may be taken, once, and BlockingIOError for a moment after that."""
        now = time.monotonic()
        if now < self._rests_until:
            raise BlockingIOError
        try:
            if self.keeps:
                _leave_some(self.fileno())
            return super().accept()
        except OSError as error:
            if error.errno in _NONE_LEFT:
                self._rests_until = now + _REST
                if now - self._told_at >= TOLD_EVERY:
                    self._told_at = now
                    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
                    log.warning(
                        "connections to %s wait: %s. This process may have %d files and connections open; a higher limit is set by "
                        "LimitNOFILE= in the systemd unit, or by ulimit -n",
                        _named(self.getsockname()),
                        error.strerror,
                        most,
                    )
            raise


def rest_quietly(loop: asyncio.AbstractEventLoop) -> None:
    """Leave what asyncio says of each failed attempt out of the log: ``Listener`` tells it."""

    def handle(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "socket" in context and isinstance(error, OSError) and error.errno in _NONE_LEFT:
            return
        loop.default_exception_handler(context)

    if loop.get_exception_handler() is None:
        loop.set_exception_handler(handle)


def _leave_some(any_open: int) -> None:
    """Raise OSError where no descriptor but those that are kept is free. The kernel gives the lowest one that is."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(any_open)
    os.close(free)
    if 0 < most - min(MOST_KEPT, most // KEPT_SHARE) <= free:
        raise OSError(errno.EMFILE, "few file descriptors are left")


def _named(address: Any) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)
