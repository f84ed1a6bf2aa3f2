"""OpenAI embeddings and batch jobs against a third party's idea of the service."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from memory.embedding.batch.backfill import Backfill
from memory.embedding.batch.openai_batch import OpenAIBatches
from memory.embedding.batch.protocol import InMemoryBatchJobs
from memory.embedding.endpoint import Endpoint
from memory.embedding.engines.openai import OpenAIEmbedder
from memory.embedding.identity import text_hash
from memory.embedding.retry import Retries
from memory.settings import BatchSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.embedding.conftest import ImpatientClock
    from tests.peers.aimock import Aimock


@pytest.fixture
async def embedder(aimock: Aimock, clock: ImpatientClock) -> AsyncIterator[OpenAIEmbedder]:
    unscripted = {"X-AIMock-Strict": "false"}  # every text gets the peer's own vector for it
    endpoint = Endpoint(provider="openai", base_url=aimock.openai_url, key=lambda: "test", headers=unscripted)
    embedder = OpenAIEmbedder(model="text-embedding-3-small", endpoint=endpoint, retries=Retries(clock, lambda: 0.5))
    yield embedder
    await embedder.close()


async def test_embeddings_come_back_of_unit_length_and_stay_the_same(
    embedder: OpenAIEmbedder, aimock: Aimock, clock: ImpatientClock
) -> None:
    first = await embedder.embed(["one", "two", "three"], purpose="passage")
    assert all(abs(math.hypot(*vector) - 1) < 1e-6 for vector in first)
    assert len({len(vector) for vector in first}) == 1
    assert await embedder.embed(["three"], purpose="query") == [first[2]]


async def test_a_refusal_is_tried_again(embedder: OpenAIEmbedder, aimock: Aimock, clock: ImpatientClock) -> None:
    aimock.fail_next(503)
    assert len(await embedder.embed(["one"], purpose="query")) == 1
    assert clock.slept == [0.5]


async def test_a_job_that_brings_zeros_alone_is_told_of_and_made_good_by_direct_calls(
    embedder: OpenAIEmbedder, aimock: Aimock, clock: ImpatientClock
) -> None:
    """Uploads, polling, results and clean-up are real; the peer's batch vectors are always [0, 0, 0]."""
    told: list[str] = []
    book = InMemoryBatchJobs()
    backfill = Backfill(
        embedder, batch=OpenAIBatches(embedder), book=book, settings=BatchSettings(), clock=clock, tell=told.append, large=5
    )
    texts = {text_hash(text): text for text in (f"note {i}" for i in range(12))}
    found = {}
    async for portion in backfill.run(texts):
        found.update(portion)
    assert found.keys() == texts.keys()
    assert all(abs(math.hypot(*vector) - 1) < 1e-6 for vector in found.values())
    assert [entry["method"] for entry in aimock.requests("/v1/embeddings")] == ["POST"]
    assert "brought 0 vectors for 12 texts" in told[0]
    assert book.records == {}
