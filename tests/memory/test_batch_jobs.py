"""A backfill of the whole memory by a real client's batch jobs, across restarts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from memory.audience import OWNER
from memory.embedding.batch.gemini_batch import GeminiBatches
from memory.embedding.batch.openai_batch import OpenAIBatches
from memory.embedding.endpoint import Endpoint
from memory.embedding.engines.gemini import GeminiEmbedder
from memory.embedding.engines.openai import OpenAIEmbedder
from memory.embedding.retry import Retries
from memory.settings import MemorySettings
from tests.memory.memory_engines import memory_at
from tests.patience import PATIENCE
from tests.peers.embeddings import KEY, EmbeddingPeer, Seen, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from memory.embedding.batch.protocol import BatchService
    from memory.embedding.protocol import Embedder
    from memory.workspace_memory import WorkspaceMemory

NOTES = 24


class SwiftClock:
    """Waits end at once, and the time has moved on."""

    def __init__(self) -> None:
        self.elapsed = 0.0

    def now(self) -> datetime:
        return datetime(2026, 3, 18, 12, tzinfo=UTC) + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        return self.elapsed

    async def sleep(self, seconds: float) -> None:
        self.elapsed += seconds
        await asyncio.sleep(0)


@pytest.fixture
async def peer() -> AsyncIterator[EmbeddingPeer]:
    async with serving() as made:
        yield made


def _client(endpoint: Endpoint, retries: Retries) -> tuple[Embedder, BatchService]:
    if endpoint.provider == "openai":
        openai = OpenAIEmbedder(model="text-embedding-3-small", endpoint=endpoint, retries=retries)
        return openai, OpenAIBatches(openai)
    gemini = GeminiEmbedder(model="gemini-embedding-001", endpoint=endpoint, retries=retries)
    return gemini, GeminiBatches(gemini)


class House:
    """One workspace, and processes that come and go over it."""

    def __init__(self, root: Path, peer: EmbeddingPeer, provider: str) -> None:
        self.provider = provider
        self.root = root
        self.peer = peer
        self.clock = SwiftClock()
        self.told: list[str] = []
        self.memory: WorkspaceMemory | None = None

    def write(self, *numbers: int) -> None:
        folder = self.root / "workspace/memory"
        folder.mkdir(parents=True, exist_ok=True)
        for number in numbers:
            (folder / f"{number:02}.md").write_text(f"entry {number} is about parcel {number * 7}\n")

    def start(self, batch_from: int = 10, *, wait: bool = True, cache: bool = True) -> WorkspaceMemory:
        """Open the memory as a fresh process would, with a client of its own."""
        address = {"openai": self.peer.openai, "gemini": self.peer.gemini}[self.provider]
        endpoint = Endpoint(provider=self.provider, base_url=address, key=lambda: KEY, key_from="a test")
        retries = Retries(self.clock, lambda: 0.5)
        embedder, batch = _client(endpoint, retries)
        settings: dict[str, Any] = {"remote": {"batch": {"wait": wait}}, "cache": {"enabled": cache}}
        self.memory = memory_at(
            self.root / "workspace",
            self.root / "index.sqlite",
            MemorySettings.model_validate(settings),
            agent="main",
            clock=self.clock,
            embedder=embedder,
            batch=batch,
            tell=self.told.append,
            batch_from=batch_from,
        )
        return self.memory

    async def stop(self) -> None:
        if self.memory is not None:
            await self.memory.close()
        self.memory = None


def jobs_made(peer: EmbeddingPeer) -> int:
    """How many jobs were created; Gemini's are deleted when they were collected."""
    return sum(seen.method == "POST" and seen.path.endswith(("/batches", ":asyncBatchEmbedContent")) for seen in peer.seen)


def passage_calls(peer: EmbeddingPeer) -> list[Seen]:
    """Direct calls for passages; questions, also those by which the index learns how near answers are, hold no whole line."""
    return [seen for seen in peer.embedding_calls() if "is about parcel" in str(seen.body)]


@pytest.fixture(params=["openai", "gemini"])
async def house(tmp_path: Path, peer: EmbeddingPeer, request: pytest.FixtureRequest) -> AsyncIterator[House]:
    house = House(tmp_path, peer, request.param)
    house.write(*range(NOTES))
    yield house
    await house.stop()


async def test_a_large_backfill_goes_by_batch_and_answers_by_meaning(house: House, peer: EmbeddingPeer) -> None:
    memory = house.start()
    await memory.sync()
    status = await memory.status()
    assert (status.vectors, status.missing_vectors, jobs_made(peer)) == (NOTES, 0, 1)
    assert passage_calls(peer) == []
    answer = await memory.search("parcel 49", audience=OWNER)
    assert (answer.hits[0].path, answer.provider) == ("memory/07.md", house.provider)
    assert (peer.files, house.told) == ({}, [])


async def test_a_job_that_was_left_running_is_collected_after_a_restart(house: House, peer: EmbeddingPeer) -> None:
    memory = house.start(wait=False)
    await memory.sync()
    status = await memory.status()
    assert (status.vectors, status.trouble) == (0, "a batch job is running")
    assert (await memory.search("parcel 49", audience=OWNER)).hits[0].path == "memory/07.md"
    await house.stop()
    asked = len(passage_calls(peer))  # for the question
    memory = house.start(wait=False)
    await memory.sync()
    assert (await memory.status()).vectors == NOTES
    assert (jobs_made(peer), len(passage_calls(peer))) == (1, asked)


async def test_a_process_that_ends_while_it_waits_loses_nothing(house: House, peer: EmbeddingPeer) -> None:
    peer.polls_until_done = 1_000_000
    memory = house.start()
    syncing = asyncio.create_task(memory.sync())
    async with asyncio.timeout(PATIENCE):
        while not any(job.polls for job in peer.jobs.values()):  # noqa: ASYNC110 - the peer tells nobody
            await asyncio.sleep(0.01)
    syncing.cancel()
    await asyncio.gather(syncing, return_exceptions=True)
    await house.stop()
    peer.polls_until_done = 1
    memory = house.start()
    await memory.sync()
    assert (await memory.status()).vectors == NOTES
    assert (jobs_made(peer), passage_calls(peer)) == (1, [])


async def test_vectors_of_notes_that_went_away_meanwhile_are_kept_for_their_return(house: House, peer: EmbeddingPeer) -> None:
    await house.start(wait=False).sync()
    await house.stop()
    for number in range(1, NOTES):
        (house.root / f"workspace/memory/{number:02}.md").unlink()
    memory = house.start()
    await memory.sync()
    assert (await memory.status()).vectors == 1
    house.write(*range(NOTES))
    await memory.sync()
    assert (await memory.status()).vectors == NOTES
    assert (jobs_made(peer), passage_calls(peer)) == (1, [])


async def test_vectors_beyond_the_slice_in_hand_reach_their_chunks_even_without_a_cache(
    house: House, peer: EmbeddingPeer
) -> None:
    await house.start(wait=False).sync()
    await house.stop()
    memory = house.start(batch_from=2, cache=False)  # eight at once now, and the job has all of them
    await memory.sync()
    assert (await memory.status()).vectors == NOTES
    assert (jobs_made(peer), passage_calls(peer)) == (1, [])
