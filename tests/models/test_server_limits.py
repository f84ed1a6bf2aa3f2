"""Reading windows out of what each kind of server tells."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from agent.models.catalog.known_models import ModelFacts
from agent.models.catalog.prices import Price
from agent.models.catalog.server_limits import of_list, of_ollama
from tests.models.conversation import values

GUESS = ModelFacts(window=1_000, max_output=900, images=False)


@pytest.mark.parametrize(
    ("loaded", "shown", "window", "assumed"),
    [
        ({"models": [{"name": "m:latest", "context_length": 4096}]}, None, 4096, False),
        ({"models": [{"name": "other", "context_length": 4096}]}, {"parameters": "num_ctx 8192"}, 8192, True),
        ({"models": []}, {"model_info": {"llama.context_length": 131_072}}, 32_768, True),
        (None, {"model_info": {"llama.context_length": 8_192}}, 8_192, True),
        (None, None, 1_000, True),
    ],
)
def test_ollama(loaded: Any, shown: Any, window: int, assumed: bool) -> None:
    facts = of_ollama(GUESS, loaded, shown, "m")
    assert (facts.window, facts.assumed) == (window, assumed)


def test_openrouter_tells_prices_and_pictures_too() -> None:
    entry = {
        "id": "m",
        "context_length": 200_000,
        "top_provider": {"max_completion_tokens": 64_000},
        "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"},
        "architecture": {"input_modalities": ["text", "image"]},
    }
    facts = of_list(GUESS, {"data": [entry]}, "m")
    assert (facts.window, facts.max_output, facts.images, facts.assumed) == (200_000, 64_000, True, False)
    assert facts.price is not None
    assert facts.price.input == pytest.approx(3)
    assert facts.price.cache_read == pytest.approx(0.3)


def test_a_router_has_no_price_of_its_own() -> None:
    entry = {"id": "m", "context_length": 2_000_000, "pricing": {"prompt": "-1", "completion": "-1"}}
    assert of_list(GUESS, {"data": [entry]}, "m").price is None


def test_an_answer_is_never_longer_than_the_window() -> None:
    assert of_list(GUESS, {"data": [{"id": "m", "max_model_len": 512}]}, "m").max_output == 512


@given(values, values)
def test_any_json_at_all_is_read(one: Any, other: Any) -> None:
    for answer in (one, {"data": one}, {"data": [{"id": "m", "context_length": other, "pricing": one, "top_provider": other}]}):
        assert of_list(GUESS, answer, "m").window >= 1
    for answer in (one, {"models": one}, {"models": [{"name": "m", "context_length": other}]}):
        assert of_ollama(GUESS, answer, {"model_info": {"a.context_length": one}, "parameters": other}, "m").window >= 1


def test_hourly_writes_cost_what_short_ones_do_where_no_price_of_theirs_is_known() -> None:
    from agent.messages import Usage

    usage = Usage(cache_write=1_000_000)
    assert Price(input=1, output=1, cache_write=2).of_usage(usage, written_for_an_hour=1_000_000) == 2
