"""The published rules, asked of this channel."""  # noqa: INP001 - a test stands alone

from __future__ import annotations

from typing import Any

import pytest
from homebody_linechat.server import Server

from channels.common.log import NoLog
from channels.testing import CHECKS, FastClock


@pytest.mark.parametrize("rule", CHECKS, ids=lambda rule: rule.__name__)
async def test_the_channel_keeps_the_rule(rule: Any) -> None:
    """See ``channels.testing``."""
    async with Server(FastClock(), NoLog()) as peer:
        if rule.__name__ in peer.lacks:
            pytest.skip("the platform has no such feature")
        await rule(peer)
