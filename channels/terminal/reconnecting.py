"""A client connection that survives a restart of the gateway: it reconnects and repeats unacknowledged messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from channels.errors import LinkLost
from channels.live import LiveEvent, Note
from channels.protocol import Clock
from channels.terminal.link import Link

PAUSE_SECONDS = 1.0
PATIENCE_SECONDS = 120.0
"""How long a gateway may be away: starting anew takes seconds, an update a minute."""


class ReconnectingLink:
    """A ``Link`` that reconnects. ``open_link`` makes a new connection; it raises LinkLost while the gateway does not answer.

    An unacknowledged message is sent again with its key, which the gateway stores once. Replies that were not delivered
    stay queued and come over the new connection. ``frames`` must be read: it is what reconnects.
    """

    def __init__(self, link: Link, open_link: Callable[[], Awaitable[Link]], clock: Clock) -> None:
        self._link = link
        self._open = open_link
        self._clock = clock
        self._whole = asyncio.Event()
        self._whole.set()
        self._given_up: LinkLost | None = None

    async def say(self, text: str, *, key: str, hints: Mapping[str, str] | None = None, files: Sequence[str] = ()) -> None:
        """Send a message, after a restart again; see ``Link.say``."""
        while True:
            link = await self._present()
            try:
                return await link.say(text, key=key, hints=hints, files=files)
            except LinkLost:
                self._broke(link)

    async def stop(self) -> None:
        """Stop the running turn. Does nothing while the gateway is away."""
        if self._whole.is_set():
            await self._link.stop()

    async def frames(self) -> AsyncIterator[LiveEvent]:
        """Yield live events across restarts, and a Note when the gateway stops and when it is back; see ``Link.frames``."""
        while True:
            link = self._link
            try:
                async for frame in link.frames():
                    yield frame
            except LinkLost as error:
                self._broke(link)
                yield Note(f"{str(error).capitalize()}. Waiting until it is back (Ctrl-D quits) …")
                await self._reopen(error)
                yield Note("The gateway is back.")
            else:
                return

    async def close(self) -> None:
        """Detach; see ``Link.close``."""
        await self._link.close()

    async def _present(self) -> Link:
        """Return the connection once it works. Raises LinkLost if the gateway stays away."""
        await self._whole.wait()
        if self._given_up is not None:
            raise self._given_up
        return self._link

    def _broke(self, link: Link) -> None:
        if link is self._link:
            self._whole.clear()

    async def _reopen(self, broken: LinkLost) -> None:
        """Reconnect. Raises ``broken`` if the gateway does not answer for PATIENCE_SECONDS."""
        until = self._clock.monotonic() + PATIENCE_SECONDS
        await self._link.close()
        try:
            while True:
                await self._clock.sleep(PAUSE_SECONDS)
                try:
                    self._link = await self._open()
                except LinkLost:
                    if self._clock.monotonic() >= until:
                        self._given_up = broken
                        raise broken from None
                else:
                    return
        finally:
            self._whole.set()
