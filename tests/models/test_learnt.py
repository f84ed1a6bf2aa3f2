"""What calls taught about models, over a restart."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from agent.models.token_estimate import Calibration, Weight
from agent.settings import AgentSettings, ModelsSettings
from gateway.base.clock import ManualClock
from gateway.models.facts_cache import FILE_NAME, ModelFactsCache
from gateway.models.model_registry import ModelRegistry
from tests.models.conversation import NOON, ask, hear, user

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.peers.anthropic import AnthropicPeer

OPUS = "anthropic/claude-opus-5-5"


async def test_a_window_that_was_told_is_known_before_the_first_call_of_the_next_start(
    tmp_path: Path, anthropic_peer: AnthropicPeer
) -> None:
    anthropic_peer.models["claude-opus-5-5"] = {"max_input_tokens": 1_000_000, "max_tokens": 128_000}
    env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": anthropic_peer.url}

    def model_registry() -> ModelRegistry:
        learnt = ModelFactsCache(tmp_path / FILE_NAME)
        return ModelRegistry(ModelsSettings(), env, clock=ManualClock(NOON), random=Random(1), learnt=learnt)

    first = model_registry()
    model = await first.get(OPUS, AgentSettings())
    assert model.window == 200_000, "a guess by family"
    await hear(model, ask(user("a")))
    await first.close()
    second = model_registry()
    model = await second.get(OPUS, AgentSettings())
    assert (model.window, model.max_output) == (1_000_000, 128_000)
    anthropic_peer.models["claude-opus-5-5"] = {"max_input_tokens": 500_000, "max_tokens": 64_000}
    await hear(model, ask(user("a")))
    assert model.window == 500_000, "it is asked again all the same"
    await second.close()


async def test_what_the_owner_says_of_a_window_goes_before_what_was_told(tmp_path: Path) -> None:
    learnt = ModelFactsCache(tmp_path / FILE_NAME)
    await learnt.record("nas/qwen3", 32_000, 8_000)
    described = {"baseUrl": "http://127.0.0.1:9/v1", "models": [{"id": "qwen3", "contextWindow": 64_000}]}
    settings = ModelsSettings.model_validate({"providers": {"nas": described}})
    model_registry = ModelRegistry(
        settings, {}, clock=ManualClock(NOON), random=Random(1), learnt=ModelFactsCache(tmp_path / FILE_NAME)
    )
    assert (await model_registry.get("nas/qwen3", AgentSettings())).window == 64_000


async def test_a_calibration_is_kept_when_it_moved_enough(tmp_path: Path) -> None:
    learnt = ModelFactsCache(tmp_path / FILE_NAME)
    await learnt.calibrated(OPUS, Calibration())
    assert not (tmp_path / FILE_NAME).exists()
    moved = Calibration().learn(Weight(prose=1000), 1500)
    await learnt.calibrated(OPUS, moved)
    again = ModelFactsCache(tmp_path / FILE_NAME)
    assert again.calibration(OPUS) == moved
    assert again.calibration("other/model") == Calibration.for_model("other/model")
    assert again.calibration("anthropic/claude-haiku-5") == Calibration()
    stamp = (tmp_path / FILE_NAME).stat().st_mtime_ns
    await again.calibrated(OPUS, moved.learn(Weight(prose=1000), moved.apply(Weight(prose=1000))))
    assert (tmp_path / FILE_NAME).stat().st_mtime_ns == stamp


async def test_a_calibration_that_was_learned_against_earlier_rates_is_left(tmp_path: Path) -> None:
    earlier = {"prose": 1.4, "code": 0.7, "opaque": 1.0, "dense": 1.0, "calls": 40}
    (tmp_path / FILE_NAME).write_text(json.dumps({"version": 1, "models": {OPUS: {"calibration": earlier}}}))
    assert ModelFactsCache(tmp_path / FILE_NAME).calibration(OPUS) == Calibration.for_model(OPUS)


numbers = st.integers() | st.floats() | st.text(max_size=3) | st.none()
factors = st.dictionaries(st.sampled_from(["prose", "foreign", "code", "calls", "odd"]), numbers)
rows = st.dictionaries(st.sampled_from(["window", "maxOutput"]), numbers) | st.fixed_dictionaries({"calibration": factors})
files = st.fixed_dictionaries({"models": st.fixed_dictionaries({OPUS: rows})}).map(lambda raw: json.dumps(raw).encode())


@given(st.binary(max_size=40) | files)
def test_a_damaged_file_teaches_nothing_wrong(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("learnt") / FILE_NAME
    path.write_bytes(data)
    learnt = ModelFactsCache(path)
    limits: Any = learnt.limits(OPUS)
    assert limits is None or (limits[0] >= 1000 and limits[1] > 0)
    assert 0 < learnt.calibration(OPUS).apply(Weight(prose=1000, code=1000)) < 10_000
