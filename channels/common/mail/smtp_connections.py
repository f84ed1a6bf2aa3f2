"""Connections to one SMTP server that stay open for a while, so that mails that follow each other need no login each."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from aiosmtplib import SMTP

AT_ONCE: Final = 4
"""Connections that send at one time: providers allow a mailbox few."""
IDLE_SECONDS: Final = 20.0
MOST_MAILS: Final = 50
"""Mails of one connection: many servers end it after a hundred."""


class Lent:
    """A connection for one mail. ``kept``: it was open before, so the server may have ended it since. ``done``: it can go on."""

    def __init__(self, client: SMTP, mails: int) -> None:
        self.client = client
        self.mails = mails
        self.done = False

    @property
    def kept(self) -> bool:
        """Whether a mail went through it before."""
        return self.mails > 0


class SmtpConnections:
    """Lends connections, and closes those that nobody has used for ``IDLE_SECONDS``. ``connect`` makes a new one."""

    def __init__(self, connect: Callable[[], Awaitable[SMTP]]) -> None:
        self._connect = connect
        self._places = asyncio.Semaphore(AT_ONCE)
        self._idle: list[tuple[Lent, asyncio.TimerHandle]] = []

    @contextlib.asynccontextmanager
    async def lend(self, *, fresh: bool = False) -> AsyncIterator[Lent]:
        """Lend a connection for one mail, a new one where it must be ``fresh``. What is not ``done`` in the end is closed."""
        async with self._places:
            lent = None if fresh else self._taken()
            if lent is None:
                lent = Lent(await self._connect(), 0)
            try:
                yield lent
            finally:
                lent.mails += 1
                if lent.done and lent.mails < MOST_MAILS and lent.client.is_connected:
                    self._keep(lent)
                else:
                    _end(lent)

    def close(self) -> None:
        """Close those that nobody uses."""
        while self._idle:
            lent, timer = self._idle.pop()
            timer.cancel()
            _end(lent)

    def _taken(self) -> Lent | None:
        while self._idle:
            lent, timer = self._idle.pop()
            timer.cancel()
            if lent.client.is_connected:
                lent.done = False
                return lent
            lent.client.close()
        return None

    def _keep(self, lent: Lent) -> None:
        self._idle.append((lent, asyncio.get_running_loop().call_later(IDLE_SECONDS, self._drop, lent)))

    def _drop(self, lent: Lent) -> None:
        self._idle = [(one, timer) for one, timer in self._idle if one is not lent]
        _end(lent)


def _end(lent: Lent) -> None:
    """Take leave where no mail is half said, and close, without waiting for the server's farewell."""
    if lent.done and lent.client.is_connected and lent.client.protocol is not None:
        lent.client.protocol.write(b"QUIT\r\n")
    lent.client.close()
