"""Embedding services that give rubbish, change, hang or go away: each is told in words that are true, and mends by itself."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.clock import ManualClock, SystemClock
from memory.audience import OWNER
from memory.embedding.endpoint import Endpoint
from memory.embedding.engines.bag_of_words import BagOfWords
from memory.embedding.engines.openai import OpenAIEmbedder
from memory.embedding.fallback import FallbackEmbedder
from memory.embedding.retry import Retries, loading_client
from memory.errors import EmbeddingFailed
from memory.settings import MemorySettings
from tests.memory.memory_engines import memory_at
from tests.peers.embeddings import KEY, EmbeddingPeer, serving
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from pathlib import Path

    from memory.workspace_memory import WorkspaceMemory

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
NOTES = 30


class Refusing(BagOfWords):
    """Refuses texts that hold a word, as services do with what they take for harmful; the rest of a call with them."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self.word = word

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> list[list[float]]:
        if any(self.word in text for text in texts):
            raise EmbeddingFailed(f"not with {self.word}", about_text=True)
        return await super().embed(texts, purpose=purpose)


class Gone(BagOfWords):
    """An embedder whose runtime is not installed."""

    provider = "local"

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> list[list[float]]:
        raise EmbeddingFailed("llama-cpp-python is missing")


@pytest.fixture
async def peer() -> AsyncIterator[EmbeddingPeer]:
    async with serving() as made:
        yield made


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "memory").mkdir(parents=True)
    for number in range(NOTES):
        (folder / f"memory/day-{number}.md").write_text(f"We walked to market {number} and bought bread and apples\n")
    (folder / "memory/tea.md").write_text("Alice drinks jasmine tea\n")
    return folder


def client(peer: EmbeddingPeer, model: str = "text-embedding-3-small") -> OpenAIEmbedder:
    clock = SystemClock()
    endpoint = Endpoint(provider="openai", base_url=peer.openai, key=lambda: KEY, key_from="test")
    return OpenAIEmbedder(model=model, endpoint=endpoint, retries=Retries(clock, lambda: 0.5))


def opened(workspace: Path, embedder: Any, **others: Any) -> WorkspaceMemory:
    others.setdefault("clock", ManualClock(NOW))
    settings = others.pop("settings", MemorySettings())
    return memory_at(workspace, workspace.parent / "i.sqlite", settings, agent="main", embedder=embedder, **others)


async def until(condition: Callable[[], Awaitable[bool]], between: Callable[[], None] = lambda: None) -> None:
    """Look again and again; for a minute, as the machine may be busy."""
    for _ in range(1_200):
        if await condition():
            return
        between()
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen within a minute")


@pytest.mark.parametrize("kind", ["nan", "zero"])
async def test_a_spell_of_rubbish_is_the_services_fault_and_over_when_it_is(
    peer: EmbeddingPeer, workspace: Path, kind: str
) -> None:
    told: list[str] = []
    clock = ManualClock(NOW)
    memory = opened(workspace, client(peer), tell=told.append, clock=clock)
    peer.spoil_all = kind
    await memory.sync()
    status = await memory.status()
    assert (status.vectors, status.refused_texts, status.missing_vectors) == (0, 0, NOTES + 1)
    assert len(peer.embedding_calls()) <= 3  # not a call for each text
    assert "vector" in told[0]
    answer = await memory.search("jasmine tea", audience=OWNER)
    assert "still being made" not in (answer.note or "")
    assert "vector" in (answer.note or "")
    peer.spoil_all = ""
    clock.move(60)
    await memory.sync()
    assert (await memory.status()).vectors == NOTES + 1
    assert (await memory.search("jasmine tea", audience=OWNER)).provider == "openai"
    await memory.close()


async def test_one_refused_text_is_named_and_asked_for_again_the_next_day_by_force_and_by_another_model(
    workspace: Path,
) -> None:
    (workspace / "memory/poison.md").write_text("All about arsenic\n")
    told: list[str] = []
    embedder = Refusing("arsenic")
    clock = ManualClock(NOW)
    memory = opened(workspace, embedder, tell=told.append, clock=clock)
    await memory.sync()
    status = await memory.status()
    assert (status.vectors, status.refused_texts) == (NOTES + 1, 1)
    assert status.refusals == {"memory/poison.md:1": "not with arsenic"}
    assert "not with arsenic" in told[0]
    embedder.word = "nothing of the kind"
    await memory.sync()
    assert (await memory.status()).refused_texts == 1
    clock.move(86_401)
    await memory.sync()
    assert (await memory.status()).vectors == NOTES + 2

    embedder.word = "arsenic"
    (workspace / "memory/poison.md").write_text("More about arsenic\n")
    await memory.sync()
    assert (await memory.status()).refused_texts == 1
    embedder.word = "nothing of the kind"
    await memory.forget_stamps()
    await memory.sync()
    assert (await memory.status()).refused_texts == 0
    await memory.close()


async def test_what_one_model_refused_is_asked_of_the_next(workspace: Path) -> None:
    for path in (workspace / "memory").iterdir():
        path.unlink()
    (workspace / "memory/poison.md").write_text("All about arsenic\n")
    memory = opened(workspace, Refusing("arsenic"))
    await memory.sync()
    assert (await memory.status()).refused_texts == 1
    await memory.close()
    memory = opened(workspace, BagOfWords(model="another"))
    await memory.sync()
    assert (await memory.status()).vectors == 1
    await memory.close()


@parametrize_some(1, "way", ["edit", "search", "force"])
@pytest.mark.parametrize("restart", [False, True])
async def test_a_model_that_became_another_one_is_told_and_the_index_made_anew(
    peer: EmbeddingPeer, workspace: Path, way: str, *, restart: bool
) -> None:
    told: list[str] = []
    peer.dims = 64
    memory = opened(workspace, client(peer), tell=told.append)
    await memory.sync()
    assert (await memory.status()).dims == 64
    if restart:
        await memory.close()
        memory = opened(workspace, client(peer), tell=told.append)
        await memory.sync()
    peer.dims = 96
    if way == "edit":
        (workspace / "memory/tea.md").write_text("Alice drinks jasmine tea, and green tea\n")
        await memory.sync()
    elif way == "force":
        await memory.forget_stamps()
        await memory.sync()
    else:
        answer = await memory.search("jasmine tea", audience=OWNER)
        assert (answer.hits[0].path, answer.provider) == ("memory/tea.md", "none")
        assert "vectors of another length" in (answer.note or "")

        async def made_anew() -> bool:
            status = await memory.status()
            return status.vectors == NOTES + 1 and status.dims == 96

        await until(made_anew)
    status = await memory.status()
    assert (status.vectors, status.refused_texts, status.dims) == (NOTES + 1, 0, 96)
    assert "64" in told[0]
    assert "96" in told[0]
    assert (await memory.search("who drinks jasmine?", audience=OWNER)).provider == "openai"
    await memory.close()


@pytest.mark.parametrize("indexed_before", [False, True])
async def test_after_a_fallback_the_vectors_are_made_at_once(workspace: Path, *, indexed_before: bool) -> None:
    if indexed_before:
        first = opened(workspace, BagOfWords(model="old"))
        await first.sync()
        await first.close()
    embedder = FallbackEmbedder(Gone(), BagOfWords(), tell=lambda _: None)
    memory = opened(workspace, embedder)
    await memory.sync()
    status = await memory.status()
    assert (status.vectors, status.provider, status.building) == (NOTES + 1, "fake", None)
    assert (await memory.search("jasmine tea", audience=OWNER)).provider == "fake"
    await memory.close()


async def test_a_fallback_that_a_question_brought_makes_its_vectors_too(workspace: Path) -> None:
    first = opened(workspace, Gone())
    await first.close()
    working = BagOfWords()
    breaks = Refusing("")
    breaks.word = "never said"
    embedder = FallbackEmbedder(breaks, working, tell=lambda _: None)
    working.model, working.fingerprint = "second", "second"
    memory = opened(workspace, embedder)
    await memory.sync()

    async def refuse(texts: Sequence[str], *, purpose: Any) -> list[list[float]]:
        raise EmbeddingFailed("the account is closed")

    breaks.embed = refuse  # type: ignore[method-assign]
    assert (await memory.search("jasmine tea", audience=OWNER)).provider == "none"

    async def answers() -> bool:
        return (await memory.search("jasmine tea", audience=OWNER)).model == "second"

    await until(answers)
    await memory.close()


async def test_the_reason_is_the_true_one_when_nobody_makes_vectors(peer: EmbeddingPeer, workspace: Path) -> None:
    memory = opened(workspace, client(peer))
    await memory.sync(vectors=False)
    note = (await memory.search("jasmine tea", audience=OWNER)).note or ""
    assert "homebody memory index" in note
    peer.keys.clear()
    await memory.sync()
    note = (await memory.search("jasmine tea", audience=OWNER)).note or ""
    assert "rejected" in note
    assert "still being made" not in note
    await memory.close()


async def test_a_started_memory_goes_on_by_itself_when_the_service_is_back(workspace: Path) -> None:
    clock = ManualClock(NOW)
    away = Refusing("")  # everything is refused
    memory = opened(workspace, away, clock=clock, settings=MemorySettings(sync={"watch": False}))  # type: ignore[arg-type]
    memory.start()

    async def in_trouble() -> bool:
        return bool((await memory.status()).trouble)

    async def complete() -> bool:
        return (await memory.status()).vectors == NOTES + 1

    await until(in_trouble)
    away.word = "never said"
    await until(complete, lambda: clock.move(20))
    await memory.close()


async def test_a_service_that_hangs_holds_a_search_for_three_seconds_and_the_next_not_at_all(
    peer: EmbeddingPeer, workspace: Path
) -> None:
    memory = opened(workspace, client(peer))
    await memory.sync()
    peer.delay = 20
    began = time.monotonic()
    answer = await memory.search("who drinks jasmine?", audience=OWNER)
    took = time.monotonic() - began
    assert took < 10  # 3 seconds, on a machine of any load; it was 60
    assert answer.hits[0].path == "memory/tea.md"
    assert "3 seconds" in (answer.note or "")
    began = time.monotonic()
    assert (await memory.search("what does Alice drink?", audience=OWNER)).hits
    assert time.monotonic() - began < took
    await memory.close()


@parametrize_some(
    2,
    ("page", "fault"),
    [
        ((500, ""), "answered 500"),
        ((502, "<html>Bad gateway</html>"), "answered 502"),
        ((200, "<html>Welcome</html>"), "no usable answer: text or a web page instead"),
        ((200, ""), "no usable answer"),
    ],
)
async def test_a_wrong_answer_is_told_as_such_and_not_as_none(
    peer: EmbeddingPeer, workspace: Path, page: tuple[int, str], fault: str
) -> None:
    memory = opened(workspace, client(peer))
    await memory.sync()
    peer.page = page
    note = (await memory.search("who drinks jasmine?", audience=OWNER)).note or ""
    assert fault in note
    assert "has not answered" not in note
    await memory.close()


class SlowToLoad(BagOfWords):
    """An embedder whose client takes its time before it asks anybody."""

    async def embed(self, texts: Sequence[str], *, purpose: Any) -> list[list[float]]:
        with loading_client():
            await asyncio.sleep(0.5)
        return await super().embed(texts, purpose=purpose)


async def test_loading_a_client_uses_up_no_patience(workspace: Path) -> None:
    memory = opened(workspace, SlowToLoad(), query_timeout=0.3)
    await memory.sync()
    answer = await memory.search("who drinks jasmine?", audience=OWNER)
    assert answer.provider == SlowToLoad.provider
    await memory.close()


async def test_a_slow_answer_is_there_for_who_asks_again(peer: EmbeddingPeer, workspace: Path) -> None:
    memory = opened(workspace, client(peer), query_timeout=0.01)
    await memory.sync()
    peer.delay = 0.5
    question = "who drinks jasmine?"
    assert (await memory.search(question, audience=OWNER)).provider == "none"

    async def answers() -> bool:
        return (await memory.search(question, audience=OWNER)).provider == "openai"

    await until(answers)
    assert sum("jasmine?" in str(seen.body) for seen in peer.embedding_calls()) == 1
    await memory.close()
