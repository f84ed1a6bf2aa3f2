"""The real onnxruntime, through fastembed, on a model that the test writes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from memory.embedding.engines.onnx import OnnxEmbedder
from memory.errors import EmbeddingFailed
from tests.embedding.tiny_models import DIMS, skip_without, write_onnx

if TYPE_CHECKING:
    from pathlib import Path

    from tests.peers.embeddings import EmbeddingPeer

pytestmark = [
    skip_without(["fastembed", "onnx"], "HOMEBODY_REQUIRE_ONNX", "local"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # the engine's own dependencies
]

KNOWN = "sentence-transformers/all-MiniLM-L6-v2"


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


async def test_a_folder_gives_vectors_with_meaning(tmp_path: Path) -> None:
    write_onnx(tmp_path / "words")
    embedder = OnnxEmbedder(tmp_path / "words", cache_dir=tmp_path, hub_url="http://127.0.0.1:9")
    garden, spring, bill = await embedder.embed(["garden flowers", "spring", "invoice due in march"], purpose="passage")
    assert len(garden) == DIMS
    assert cosine(garden, garden) == pytest.approx(1.0)
    assert cosine(garden, spring) > 0.7 > cosine(garden, bill)
    again = await asyncio.gather(*(embedder.embed(["garden flowers"], purpose="query") for _ in range(8)))
    assert all(vectors[0] == pytest.approx(garden, abs=1e-5) for vectors in again)
    await embedder.close()


async def test_one_folder_may_be_opened_twice(tmp_path: Path) -> None:
    write_onnx(tmp_path / "words")
    for _ in range(2):
        embedder = OnnxEmbedder(tmp_path / "words", cache_dir=tmp_path, hub_url="http://127.0.0.1:9")
        assert len(await embedder.embed(["cat"], purpose="query")) == 1
        await embedder.close()


async def test_a_model_by_name_is_fetched_from_the_hub(peer: EmbeddingPeer, tmp_path: Path) -> None:
    write_onnx(tmp_path / "words")
    for file in (tmp_path / "words").iterdir():
        if file.name != "special_tokens_map.json":  # newer models do without
            peer.hub[f"Qdrant/all-MiniLM-L6-v2-onnx/{file.name}"] = file.read_bytes()
    heard: list[str] = []
    embedder = OnnxEmbedder(
        KNOWN, cache_dir=tmp_path / "models", hub_url=peer.url, progress=lambda name, *_: heard.append(name)
    )
    (vector,) = await embedder.embed(["garden"], purpose="query")
    assert len(vector) == DIMS
    assert heard[-1] == "model.onnx"
    await embedder.close()
    fetched = len(peer.hub_ranges)
    offline = OnnxEmbedder(KNOWN, cache_dir=tmp_path / "models", hub_url=peer.url)
    assert await offline.embed(["garden"], purpose="query") == [vector]
    assert len(peer.hub_ranges) == fetched
    await offline.close()


async def test_a_name_that_fastembed_does_not_know(tmp_path: Path) -> None:
    embedder = OnnxEmbedder("nobody/nothing", cache_dir=tmp_path, hub_url="http://127.0.0.1:9")
    with pytest.raises(EmbeddingFailed, match="has no model 'nobody/nothing'"):
        await embedder.embed(["a"], purpose="query")
    await embedder.close()


async def test_a_folder_without_a_model_says_what_it_needs(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(tmp_path, cache_dir=tmp_path, hub_url="http://127.0.0.1:9")
    with pytest.raises(EmbeddingFailed, match="cannot be loaded") as failed:
        await embedder.embed(["a"], purpose="query")
    assert "tokenizer.json" in failed.value.hint
    await embedder.close()
