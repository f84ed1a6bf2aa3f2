"""A web with one server, and the tools on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from agent.tools.protocol import Outcome, ToolContext
from agent.tools.web.page_reader import PageReader
from agent.tools.web.web_fetch import FetchLimits, WebFetch
from tests.peers.web import WebPeer, fetcher_on, network_of, web_peer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.net.testing import RecordedNetwork

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def scene(now: datetime = NOON, max_chars: int = 16_000) -> ToolContext:
    return ToolContext(now=now, session="agent:main:main", turn="t1", max_chars=max_chars)


@dataclass
class Web:
    """``web_fetch`` and the server behind pages.example and www.example."""

    peer: WebPeer
    limits: FetchLimits = field(default_factory=FetchLimits)

    def __post_init__(self) -> None:
        self.network: RecordedNetwork = network_of(self.peer, "pages.example", "www.example")
        self.tool = WebFetch(fetcher_on(self.network), self.limits, PageReader())

    async def fetch(self, context: ToolContext | None = None, **arguments: Any) -> Outcome:
        return await self.tool.run({"url": "http://pages.example/", **arguments}, context or scene())


@pytest.fixture
async def peer() -> AsyncIterator[WebPeer]:
    async with web_peer() as made:
        yield made


@pytest.fixture
def web(peer: WebPeer) -> Web:
    return Web(peer)
