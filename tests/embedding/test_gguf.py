"""The real llama.cpp on a GGUF file that the test writes, and what is told where it is not installed.

`make engines` builds llama.cpp and runs this; elsewhere the tests that need it skip.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import struct
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.embedding.engines.gguf import GgufEmbedder, NotGguf, context_length
from memory.embedding.engines.model_download import HubFile
from memory.embedding.engines.onnx import OnnxEmbedder
from memory.embedding.selection import DEFAULT_ONNX_MODEL, local_embedder
from memory.errors import EmbeddingFailed
from memory.settings import LocalSettings
from tests.embedding.tiny_models import CONTEXT, DIMS, skip_without, write_gguf

if TYPE_CHECKING:
    from tests.peers.embeddings import EmbeddingPeer

with_llama = skip_without(["llama_cpp", "gguf"], "HOMEBODY_REQUIRE_GGUF", "gguf")
installed = {name: importlib.util.find_spec(name) is not None for name in ("llama_cpp", "fastembed")}


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@with_llama
async def test_a_file_gives_vectors_with_meaning(tmp_path: Path) -> None:
    write_gguf(tmp_path / "words.gguf")
    embedder = GgufEmbedder(tmp_path / "words.gguf", cache_dir=tmp_path, hub_url="http://127.0.0.1:9")
    garden, spring, bill = await embedder.embed(["garden flowers", "spring", "invoice due in march"], purpose="passage")
    assert len(garden) == DIMS
    assert cosine(garden, garden) == pytest.approx(1.0)
    assert cosine(garden, spring) > 0.7 > cosine(garden, bill)
    again = await asyncio.gather(*(embedder.embed(["garden flowers"], purpose="query") for _ in range(8)))
    assert all(vectors[0] == pytest.approx(garden, abs=1e-4) for vectors in again)
    await embedder.close()


@with_llama
async def test_a_text_longer_than_the_model_reads_is_cut(tmp_path: Path) -> None:
    write_gguf(tmp_path / "words.gguf")
    embedder = GgufEmbedder(tmp_path / "words.gguf", cache_dir=tmp_path, hub_url="http://127.0.0.1:9")
    assert len(await embedder.embed(["garden " * 5_000, ""], purpose="passage")) == 2
    await embedder.close()


def header(*pairs: tuple[str, int, bytes]) -> bytes:
    """Write the beginning of a GGUF file: (key, kind, packed value)."""
    body = b"".join(struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value for key, kind, value in pairs)
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + body


NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Each kind of number in the specification, as ``struct`` packs it."""
WORD = struct.pack("<Q", 4) + b"word"


def test_the_context_length_is_found_behind_values_of_every_kind(tmp_path: Path) -> None:
    numbers = [(f"n{kind}", kind, struct.pack(f"<{form}", 1)) for kind, form in NUMBERS.items()]
    arrays = [("words", 9, struct.pack("<IQ", 8, 3) + WORD * 3), ("floats", 9, struct.pack("<IQ", 6, 5) + bytes(20))]
    nested = ("nested", 9, struct.pack("<IQ", 9, 2) + (struct.pack("<IQ", 8, 1) + WORD) * 2)
    path = tmp_path / "m.gguf"
    path.write_bytes(header(("name", 8, WORD), *numbers, *arrays, nested, ("bert.context_length", 4, struct.pack("<I", 512))))
    assert context_length(path) == 512
    path.write_bytes(header(("name", 8, WORD), *arrays))
    assert context_length(path) is None


@given(st.binary(max_size=200))
def test_rubbish_is_never_taken_for_a_model(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.gguf")
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 7) + content)
        with contextlib.suppress(NotGguf):
            assert context_length(path) is None or b".context_length" in content


@pytest.mark.skipif(importlib.util.find_spec("gguf") is None, reason="needs gguf")
def test_the_context_length_of_a_real_file(tmp_path: Path) -> None:
    write_gguf(tmp_path / "words.gguf")
    assert context_length(tmp_path / "words.gguf") == CONTEXT


@with_llama
async def test_a_model_is_fetched_from_the_hub_at_the_first_call(peer: EmbeddingPeer, tmp_path: Path) -> None:
    write_gguf(tmp_path / "words.gguf")
    peer.hub["owner/repo/words.gguf"] = (tmp_path / "words.gguf").read_bytes()
    source = HubFile.parse("hf:owner/repo/words.gguf")
    embedder = GgufEmbedder(source, cache_dir=tmp_path / "models", hub_url=peer.url)
    assert not (tmp_path / "models").exists()
    assert len(await embedder.embed(["cat"], purpose="query")) == 1
    assert (tmp_path / "models/owner--repo/words.gguf").is_file()
    await embedder.close()


@with_llama
async def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    for content, message in ((b"<html>sign in</html>", "is not a GGUF model"), (b"GGUF but no more", "is truncated")):
        (tmp_path / "x.gguf").write_bytes(content)
        embedder = GgufEmbedder(tmp_path / "x.gguf", cache_dir=tmp_path, hub_url="http://127.0.0.1:9")
        with pytest.raises(EmbeddingFailed, match=message):
            await embedder.embed(["a"], purpose="query")
        await embedder.close()


@pytest.mark.skipif(installed["llama_cpp"], reason="llama-cpp-python is installed")
async def test_without_llama_cpp_the_command_that_installs_it_is_given_and_nothing_is_fetched(
    peer: EmbeddingPeer, tmp_path: Path
) -> None:
    peer.hub["owner/repo/words.gguf"] = b"GGUF"
    embedder = GgufEmbedder(HubFile.parse("hf:owner/repo/words.gguf"), cache_dir=tmp_path, hub_url=peer.url)
    with pytest.raises(EmbeddingFailed, match="llama-cpp-python") as failed:
        await embedder.embed(["a"], purpose="query")
    assert failed.value.hint == f"Run: {sys.executable} -m pip install 'llama-cpp-python>=0.3.16,<0.4'"
    assert failed.value.hint in embedder.trouble
    assert peer.hub_ranges == []
    await embedder.close()


@pytest.mark.skipif(installed["fastembed"], reason="fastembed is installed")
async def test_without_fastembed_the_command_that_installs_it_is_given(tmp_path: Path) -> None:
    embedder = OnnxEmbedder(tmp_path, cache_dir=tmp_path, hub_url="http://127.0.0.1:9")
    with pytest.raises(EmbeddingFailed, match="fastembed") as failed:
        await embedder.embed(["a"], purpose="query")
    assert failed.value.hint == f"Run: {sys.executable} -m pip install 'fastembed>=0.7,<1'"
    assert failed.value.hint in embedder.trouble
    await embedder.close()


async def test_the_path_tells_the_engine(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    expected = {
        str(tmp_path / "m.gguf"): GgufEmbedder,
        "hf:owner/repo/m.gguf": GgufEmbedder,
        str(tmp_path): OnnxEmbedder,
        "BAAI/bge-small-en-v1.5": OnnxEmbedder,
    }
    for path, engine in expected.items():
        found = local_embedder(LocalSettings(model_path=path), cache_dir=tmp_path, progress=None)
        assert isinstance(found, engine), path
        await found.close()
    with pytest.raises(EmbeddingFailed, match=r"There is no model at \./gone\.gguf"):
        local_embedder(LocalSettings(model_path="./gone.gguf"), cache_dir=tmp_path, progress=None)


async def test_without_a_path_the_engine_that_is_installed_runs(tmp_path: Path) -> None:
    found = local_embedder(LocalSettings(), cache_dir=tmp_path, progress=None)
    only_fastembed = installed["fastembed"] and not installed["llama_cpp"]
    assert found.model == (DEFAULT_ONNX_MODEL if only_fastembed else "embeddinggemma-300M-Q8_0.gguf")
    await found.close()


def test_another_file_under_the_same_name_is_another_model(tmp_path: Path) -> None:
    def identity() -> str:
        return GgufEmbedder(tmp_path / "m.gguf", cache_dir=tmp_path, hub_url="").fingerprint

    (tmp_path / "m.gguf").write_bytes(b"GGUF" + b"a" * 200_000)
    first = identity()
    assert identity() == first
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + b"a" * 199_999 + b"b")
    assert identity() != first
