"""Prices: every model that is listed has one, a file may be newer, and what nobody knows is estimated high."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from agent.errors import InvalidPriceFile
from agent.messages import Usage
from agent.models.catalog.known_models import MODELS, PROVIDERS, facts_of
from agent.models.catalog.model_selection import ALIASES, find
from agent.models.catalog.prices import AS_OF, ESTIMATE, FREE, LISTED, Price, PriceList, is_own, read_prices
from agent.settings import ModelsSettings

if TYPE_CHECKING:
    from pathlib import Path

ROUTERS = {"openrouter/auto"}
"""Models that stand for others: their provider charges what it chose, and says so with each answer."""


def test_every_listed_model_and_every_default_has_a_dated_price() -> None:
    named = {f"{provider}/{model}" for provider, models in MODELS.items() for model in models}
    named |= {f"{one.id}/{one.default_model}" for one in PROVIDERS.values() if one.default_model}
    named |= {name for name in ALIASES.values() if not name.startswith("offline/")}
    named = {name.removeprefix("openrouter/") if name.startswith("openrouter/openrouter") else name for name in named}
    for name in sorted(named - ROUTERS):
        provider, _, model = name.partition("/")
        price = facts_of(provider, model).price
        assert price is not None, name
        assert (price.as_of, price.estimated) == (AS_OF, False)
        assert 0 < price.input < price.output, name


@pytest.mark.parametrize(
    "model",
    [
        "claude-sonnet-4-5-20250929",
        "claude-sonnet-4-5-latest",
        "anthropic/claude-sonnet-4.5",
        "anthropic/claude-sonnet-4.5:beta",
    ],
)
def test_releases_and_a_routers_names_have_the_price_of_their_model(model: str) -> None:
    assert PriceList().find("openrouter", model) == LISTED["claude-sonnet-4-5"]


@pytest.mark.parametrize("model", ["gpt-5-pro", "gpt-5.4-nano", "claude-opus-9", "claude-opus-4-51", "o3"])
def test_a_namesake_has_no_price_but_the_dearest_of_its_provider(model: str) -> None:
    provider = "anthropic" if "claude" in model else "openai"
    assert PriceList().find(provider, model) is None
    assumed = PriceList().estimate(provider, "https://api.example.com")
    assert assumed.estimated
    ours = [price for name, price in LISTED.items() if name.startswith("claude-" if provider == "anthropic" else "gpt-")]
    assert assumed.input == max(price.input for price in ours)
    assert assumed.output == max(price.output for price in ours)


def test_a_server_of_ones_own_is_free_and_anothers_is_not() -> None:
    own = (
        "http://127.0.0.1:8080/v1",
        "http://[::1]:1",
        "http://nas.local:1234/v1",
        "http://192.168.1.7:8000",
        "http://localhost",
    )
    others = ("https://api.groq.com/openai/v1", "http://8.8.8.8/v1", "", "http://10.example.com", "not an address")
    assert [PriceList().estimate("box", url) for url in own] == [FREE] * len(own)
    assert [PriceList().estimate("box", url) for url in others] == [ESTIMATE] * len(others)
    assert not any(map(is_own, others))


def test_a_long_prompt_costs_more_where_its_provider_says_so() -> None:
    price = LISTED["claude-haiku-5-5"]
    short, long = Usage(input=100_000, output=1000), Usage(input=100_001, output=1000)
    assert price.of_usage(long) == pytest.approx(5 * price.of_usage(short), rel=1e-3)
    assert price.at_most(100_000, 1000) >= price.of_usage(long)


def test_cached_tokens_cost_what_input_does_where_nobody_says_less() -> None:
    assert ESTIMATE.of_usage(Usage(cache_read=1_000_000, cache_write=1_000_000)) == 2 * ESTIMATE.input


def test_an_hours_write_costs_what_anthropic_takes_for_it_where_the_owner_gives_no_price() -> None:
    def price(cost: dict[str, float], api: str) -> Price:
        provider = {"api": api, "baseUrl": "http://192.0.2.1", "apiKey": "k", "models": [{"id": "m", "cost": cost}]}
        found = find("own/m", ModelsSettings.model_validate({"providers": {"own": provider}}), {})
        assert found is not None
        assert found.facts.price is not None
        return found.facts.price

    written = Usage(input=100, output=10, cache_write=3000)
    cost = {"input": 3.0, "output": 15.0, "cacheRead": 0.3, "cacheWrite": 3.75}
    assert price(cost, "anthropic-messages").of_usage(written, written_for_an_hour=3000) == pytest.approx(0.01845)
    assert price({"input": 3.0, "output": 15.0}, "anthropic-messages").of_usage(written) == pytest.approx(0.0117)
    told = price(cost | {"cacheWrite1h": 5.0}, "anthropic-messages").of_usage(written, written_for_an_hour=3000)
    assert told == pytest.approx(0.01545)
    assert price(cost, "openai-completions").cache_write_1h is None


def test_a_file_of_our_own_form_speaks_first(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(
        "asOf: 2027-01-02\nmodels:\n  openai/gpt-9: {input: 3, output: 9, cacheRead: 0.3}\n  gpt-5: {input: 1, output: 2}\n"
    )
    listed = read_prices(path)
    found = listed.find("openai", "gpt-9")
    assert found is not None
    assert (found.input, found.cache_read, found.cache_write, found.as_of, listed.as_of) == (
        3,
        0.3,
        None,
        "2027-01-02",
        "2027-01-02",
    )
    cheaper = listed.find("openai", "gpt-5-2027-01-01")
    assert cheaper is not None
    assert cheaper.input == 1
    assert listed.find("anthropic", "claude-opus-5") == LISTED["claude-opus-5"], "what the file lacks is ours"


def test_litellms_public_list_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "model_prices_and_context_window.json"
    row = {"input_cost_per_token": 2e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 1e-07, "mode": "chat"}
    path.write_text(
        json.dumps({"sample_spec": {"max_tokens": "a text"}, "gpt-9": row, "odd": 3, "nan": {"input_cost_per_token": None}})
    )
    price = read_prices(path).find("openai", "gpt-9")
    assert price is not None
    assert (price.input, price.output, price.cache_read) == (2, 10, 0.1)


def test_the_higher_rates_of_long_prompts_in_litellms_list_are_read(tmp_path: Path) -> None:
    plain = {"input_cost_per_token": 2e-06, "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 1e-07}
    longer = {"input_cost_per_token_above_200k_tokens": 4e-06, "output_cost_per_token_above_200k_tokens": 1.5e-05}
    longest = {"input_cost_per_token_above_1000k_tokens": 9e-06, "input_cost_per_token_above_128k_tokens": None}
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"claude-sonnet-4-5": plain | longer | longest, "gpt-9": plain}))
    price, other = (read_prices(path).find("anthropic", name) for name in ("claude-sonnet-4-5", "gpt-9"))
    assert price is not None
    assert other is not None
    usage = Usage(input=100_000, cache_read=100_001, output=1000)
    assert price.of_usage(usage) == pytest.approx((100_000 * 4 + 100_001 * 0.2 + 1000 * 15) / 1e6)
    assert price.of_usage(Usage(input=200_000)) == pytest.approx(0.4)
    assert other.of_usage(usage) == pytest.approx((100_000 * 2 + 100_001 * 0.1 + 1000 * 10) / 1e6)


@pytest.mark.parametrize("text", ["", "[1]", "{", "models: {a: {input: -1, output: 2}}", "a: [", "models: {a: {input: .nan}}"])
def test_a_file_without_prices_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(InvalidPriceFile, match=r"prices\.yaml") as refused:
        read_prices(path)
    assert "models.pricesFile" in refused.value.hint


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidPriceFile, match="cannot be read"):
        read_prices(tmp_path / "none.json")
