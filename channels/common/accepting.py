"""Storing one message for somebody who waits to hear whether it was stored: a terminal, a page, a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.errors import ChannelError

if TYPE_CHECKING:
    from channels.messages import Inbound
    from channels.protocol import InboundSink


async def accept_or_tell(sink: InboundSink, message: Inbound) -> None:
    """Store a message. Raises ChannelError with the reason and the hint of whatever kept the gateway from storing it."""
    try:
        await sink.accept([message])
    except ChannelError:
        raise
    except Exception as error:  # whoever waits is told of any of them
        raise ChannelError(str(error) or type(error).__name__, hint=str(getattr(error, "hint", ""))) from error
    sink.alive()
