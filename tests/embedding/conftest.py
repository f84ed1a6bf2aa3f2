from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from memory.embedding.endpoint import Endpoint
from memory.embedding.engines.gemini import GeminiEmbedder
from memory.embedding.engines.openai import OpenAIEmbedder
from memory.embedding.retry import Retries
from tests.peers.embeddings import KEY, EmbeddingPeer, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class ImpatientClock:
    """A clock whose sleepers wake at once, with the time moved on: waits are looked at, not waited for."""

    def __init__(self) -> None:
        self.start = datetime(2026, 11, 21, 12, tzinfo=UTC)
        self.elapsed = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        return self.elapsed

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.elapsed += seconds
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> ImpatientClock:
    return ImpatientClock()


@pytest.fixture
async def peer() -> AsyncIterator[EmbeddingPeer]:
    async with serving() as made:
        yield made


@pytest.fixture
async def openai(peer: EmbeddingPeer, clock: ImpatientClock) -> AsyncIterator[OpenAIEmbedder]:
    endpoint = Endpoint(provider="openai", base_url=peer.openai, key=lambda: KEY, key_from="a test")
    embedder = OpenAIEmbedder(model="text-embedding-3-small", endpoint=endpoint, retries=Retries(clock, lambda: 0.5))
    yield embedder
    await embedder.close()


@pytest.fixture
async def gemini(peer: EmbeddingPeer, clock: ImpatientClock) -> AsyncIterator[GeminiEmbedder]:
    endpoint = Endpoint(provider="gemini", base_url=peer.gemini, key=lambda: KEY, key_from="a test")
    embedder = GeminiEmbedder(model="gemini-embedding-001", endpoint=endpoint, retries=Retries(clock, lambda: 0.5))
    yield embedder
    await embedder.close()
