"""An account that another gateway of a cluster connects: what has to be known of it here to queue messages for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from channels.errors import NotSent
from channels.messages import ChatAddress, Outbound, Sent
from channels.protocol import Channel, InboundSink

_SHAPES: Final = ("album_kind", "encloses", "reply_to_mode", "shows")
"""What a channel says of the messages that it can send (``channels.protocol``)."""


class ConnectedElsewhere:
    """A ``Channel`` that cuts texts as the platform needs it, and neither sends nor shows anything: its holder does."""

    def __init__(self, channel: Channel) -> None:
        self.name = channel.name
        self.account = channel.account
        self.chunks = channel.chunks
        for shape in _SHAPES:
            if hasattr(channel, shape):
                setattr(self, shape, getattr(channel, shape))

    async def run(self, sink: InboundSink) -> None:
        """Raise ``NotSent``: it is never connected here."""
        del sink
        raise self._elsewhere()

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Raise ``NotSent``."""
        del outbound, record
        raise self._elsewhere()

    async def typing(self, conversation: ChatAddress) -> None:
        """Show nothing."""

    async def close(self) -> None:
        """Nothing is open."""

    def _elsewhere(self) -> NotSent:
        return NotSent("another gateway of the cluster connects this account", hint="homebody cluster status")
