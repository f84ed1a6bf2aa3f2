"""The published rules, asked of this channel."""  # noqa: INP001 - a test stands alone

from __future__ import annotations

from typing import TYPE_CHECKING

from homebody_linechat.server import Server

from channels.common.log import NoLog
from channels.testing import FastClock

if TYPE_CHECKING:
    from channels.testing.conformance import Conformance


async def test_the_channel_keeps(channel_conformance: Conformance) -> None:
    """See ``channels.testing``."""
    await channel_conformance(Server(FastClock(), NoLog()))
