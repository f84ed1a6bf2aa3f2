"""Which model is chosen, from a name, keys, or what runs on this machine."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import ModelNotConfigured, UnknownModel
from agent.models.catalog.discovery import Found
from agent.models.catalog.known_models import MODELS, PROVIDERS, ModelFacts, facts_of
from agent.models.catalog.model_selection import ALIASES, BY_KEY, ResolvedModel, find, known_names
from agent.models.catalog.prices import AS_OF
from agent.models.notebook.notebook_model import NotebookModel
from agent.settings import ModelsSettings
from tests.models.conversation import ask, choose, hear, user
from tests.peers.compatible import Refuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.peers.anthropic import AnthropicPeer
    from tests.peers.compatible import CompatiblePeer

NOTHING = ModelsSettings()


def settings(**providers: Any) -> ModelsSettings:
    return ModelsSettings.model_validate({"providers": providers})


def place(name: str, made: ModelsSettings = NOTHING, **env: str) -> ResolvedModel:
    found = find(name, made, env)
    assert found is not None
    return found


async def nothing_found(env: Mapping[str, str]) -> Found | None:
    return None


async def ollama_found(env: Mapping[str, str]) -> Found | None:
    return Found(
        provider="ollama",
        model="qwen3",
        base_url="http://127.0.0.1:11434/v1",
        facts=ModelFacts(window=40_000, max_output=4_000),
    )


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ({}, "offline/notebook"),
        ({"ANTHROPIC_API_KEY": "k"}, "anthropic/claude-sonnet-5-5"),
        ({"OPENAI_API_KEY": "k"}, "openai/gpt-6.1-terra"),
        ({"GEMINI_API_KEY": "k"}, "google/gemini-3.8-flash"),
        ({"OPENROUTER_API_KEY": "k"}, "openrouter/openrouter/auto"),
        ({"OPENROUTER_API_KEY": "k", "GEMINI_API_KEY": "k", "OPENAI_API_KEY": "k"}, "openai/gpt-6.1-terra"),
        ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "anthropic/claude-sonnet-5-5"),
        ({"ANTHROPIC_API_KEY": "  ", "OPENAI_API_KEY": "k"}, "openai/gpt-6.1-terra"),
    ],
)
async def test_without_a_name_the_first_key_decides(env: dict[str, str], name: str) -> None:
    assert (await choose(None, NOTHING, env, discover=nothing_found)).name == name


async def test_without_a_key_a_server_on_this_machine_is_used() -> None:
    model = await choose(None, NOTHING, {}, discover=ollama_found)
    assert (model.name, model.window) == ("ollama/qwen3", 40_000)


async def test_a_key_goes_before_a_server_on_this_machine() -> None:
    assert (await choose(None, NOTHING, {"OPENAI_API_KEY": "k"}, discover=ollama_found)).name == "openai/gpt-6.1-terra"


async def test_looking_around_can_be_left_out() -> None:
    assert isinstance(await choose(None, NOTHING, {}), NotebookModel)


async def test_a_key_in_the_settings_counts_like_one_in_the_environment() -> None:
    assert (await choose(None, settings(openai={"apiKey": "k"}), {})).name == "openai/gpt-6.1-terra"


async def test_a_server_described_in_the_settings_is_used_without_a_name() -> None:
    made = settings(nas={"baseUrl": "http://nas:8000/v1", "models": [{"id": "qwen3", "contextWindow": 50_000}]})
    model = await choose(None, made, {}, discover=nothing_found)
    assert (model.name, model.window) == ("nas/qwen3", 50_000)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("anthropic/claude-opus-5", "anthropic/claude-opus-5"),
        ("claude-opus-5", "anthropic/claude-opus-5"),
        ("claude/claude-opus-5", "anthropic/claude-opus-5"),
        ("gpt-6-sol", "openai/gpt-6-sol"),
        ("gemini/gemini-3.8-flash", "google/gemini-3.8-flash"),
        ("openrouter/anthropic/claude-opus-5", "openrouter/anthropic/claude-opus-5"),
        ("ollama/qwen3:8b", "ollama/qwen3:8b"),
        ("Opus", "anthropic/claude-opus-5-5"),
        ("haiku", "anthropic/claude-haiku-5-5"),
    ],
)
def test_names_and_aliases(name: str, full: str) -> None:
    keys = {key: "k" for provider in PROVIDERS.values() for key in provider.keys}
    assert place(name, **keys).name == full


async def test_offline_is_a_name_like_any_other() -> None:
    for name in ("offline", "offline/notebook", "notebook"):
        assert isinstance(await choose(name, NOTHING, {"ANTHROPIC_API_KEY": "k"}), NotebookModel)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("antropic/claude-opus-5", "anthropic/claude-opus-5"), ("opsu", "opus"), ("cloude-sonnet-5-5", "claude-sonnet-5-5")],
)
def test_an_unknown_name_is_told_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        find(name, NOTHING, {})
    assert any(nearest in one for one in caught.value.nearest)
    assert nearest in str(caught.value)
    assert "homebody models list" in caught.value.hint


def test_nothing_near_is_no_guess() -> None:
    with pytest.raises(UnknownModel) as caught:
        find("zzzzzzzz/qqq", NOTHING, {})
    assert caught.value.nearest == ()


def test_a_provider_that_there_is_not_is_named_with_the_command_that_adds_it() -> None:
    with pytest.raises(UnknownModel, match="there is no provider 'foo'") as caught:
        find("foo/bar", NOTHING, {})
    assert "homebody config set models.providers.foo.baseUrl" in caught.value.hint


def test_a_missing_key_is_told_with_the_command_that_sets_it() -> None:
    with pytest.raises(ModelNotConfigured, match="needs a key of Anthropic") as caught:
        find("anthropic/claude-opus-5", NOTHING, {})
    assert "export ANTHROPIC_API_KEY=" in caught.value.hint


@pytest.mark.parametrize("key", ["sk-\u201cquoted\u201d", "two words", "line\nbreak", "b\x00d"])
async def test_a_key_that_cannot_be_one_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ModelNotConfigured) as caught:
        await choose("anthropic/claude-opus-5", NOTHING, {"ANTHROPIC_API_KEY": key})
    assert key not in str(caught.value) + caught.value.hint


async def test_blanks_around_a_key_are_no_part_of_it() -> None:
    assert place("anthropic/claude-opus-5", ANTHROPIC_API_KEY=" k\n").keys[0].secret == "k"


def test_a_provider_of_ones_own_needs_an_address() -> None:
    with pytest.raises(ModelNotConfigured, match="has no address") as caught:
        find("nas/qwen3", settings(nas={}), {})
    assert "models.providers.nas.baseUrl" in caught.value.hint


def test_settings_go_before_the_environment() -> None:
    made = settings(anthropic={"apiKey": "own", "baseUrl": "http://proxy", "headers": {"x-team": "home"}})
    found = place("claude-opus-5", made, ANTHROPIC_API_KEY="other", ANTHROPIC_BASE_URL="http://elsewhere")
    assert (found.keys[0].secret, found.base_url, found.headers) == ("own", "http://proxy", {"x-team": "home"})


def test_a_place_never_shows_its_key() -> None:
    assert "secret" not in repr(place("claude-opus-5", ANTHROPIC_API_KEY="secret"))


def test_replaced_providers_are_the_only_ones() -> None:
    made = ModelsSettings.model_validate(
        {"mode": "replace", "providers": {"nas": {"baseUrl": "http://nas/v1", "models": [{"id": "m"}]}}}
    )
    assert known_names(made) == ("nas/m", "offline/notebook")
    with pytest.raises(UnknownModel):
        find("anthropic/claude-opus-5", made, {"ANTHROPIC_API_KEY": "k"})


def test_what_the_settings_say_of_a_model_goes_before_what_is_known() -> None:
    described = {
        "id": "claude-opus-5",
        "contextWindow": 64_000,
        "maxTokens": 9_000,
        "cost": {"input": 2, "output": 3},
        "input": ["text"],
    }
    facts = place("claude-opus-5", settings(anthropic={"apiKey": "k", "models": [described]})).facts
    assert (facts.window, facts.max_output, facts.images, facts.assumed) == (64_000, 9_000, False, False)
    assert facts.price is not None
    assert facts.price.output == 3


def test_a_server_in_anthropics_language_is_spoken_to_in_it() -> None:
    made = settings(proxy={"baseUrl": "http://127.0.0.1:9", "api": "anthropic-messages"})
    assert place("proxy/any", made).api == "anthropic-messages"
    assert place("other/any", settings(other={"baseUrl": "http://127.0.0.1:9"})).api == "openai-completions"


def test_openai_itself_is_asked_through_responses_and_others_as_others_speak() -> None:
    key = {"apiKey": "k"}
    assert place("gpt-6-sol", settings(openai=key)).api == "openai-responses"
    assert place("gpt-6-sol", settings(openai={**key, "baseUrl": "https://api.openai.com/v1/"})).api == "openai-responses"
    assert place("gpt-6-sol", settings(openai={**key, "baseUrl": "http://proxy/v1"})).api == "openai-completions"
    assert place("gpt-6-sol", settings(openai=key), OPENAI_BASE_URL="http://proxy/v1").api == "openai-completions"
    assert place("gpt-6-sol", settings(openai={**key, "api": "openai-completions"})).api == "openai-completions"
    assert place("ollama/qwen3").api == "openai-completions"


async def test_a_chosen_model_really_answers(anthropic_peer: AnthropicPeer, compatible_peer: CompatiblePeer) -> None:
    env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": anthropic_peer.url}
    made = settings(nas={"baseUrl": compatible_peer.url})
    for name in ("sonnet", "nas/qwen3"):
        model = await choose(name, made, env)
        _, answer = await hear(model, ask(user("hello")))
        assert answer.text == "Very well."
        await model.close()
    assert compatible_peer.headers[0]["authorization"] == "Bearer none"


async def test_a_model_that_the_server_does_not_know_is_told_when_asked(compatible_peer: CompatiblePeer) -> None:
    compatible_peer.answer(Refuse(404, {"message": "model 'nope' not found, try pulling it first", "type": "not_found_error"}))
    model = await choose("nas/nope", settings(nas={"baseUrl": compatible_peer.url}), {})
    _, answer = await hear(model, ask(user("hello")))
    assert answer.failure is not None
    assert answer.failure.kind == "unknown_model"
    assert "homebody models list" in answer.failure.hint
    await model.close()


def test_defaults_and_aliases_are_models_of_the_catalogue() -> None:
    for provider in BY_KEY:
        assert PROVIDERS[provider].default_model in MODELS[provider]
    for full in ALIASES.values():
        provider, _, model = full.partition("/")
        assert full == "offline/notebook" or model in MODELS[provider]


def test_no_default_is_a_model_that_the_sdk_calls_deprecated() -> None:
    from anthropic.resources.messages.messages import DEPRECATED_MODELS

    assert not {model for model in MODELS["anthropic"] if model in DEPRECATED_MODELS}


def test_the_catalogue_names_models_of_the_sdks_own_lists() -> None:
    from typing import get_args

    from anthropic.types.model_param import ModelParam
    from openai.types.shared.chat_model import ChatModel

    assert set(MODELS["anthropic"]) <= set(get_args(get_args(ModelParam)[0]))
    assert set(MODELS["openai"]) <= set(get_args(ChatModel))


def test_a_price_that_is_not_known_stays_unknown() -> None:
    assert facts_of("anthropic", "claude-opus-9").price is None
    assert facts_of("openai", "gpt-5.4-nano").price is None
    assert facts_of("custom", "anything").price is None
    assert facts_of("openai", "gpt-5-pro").price is None, "a namesake has a price of its own"
    for name in ("gpt-5", "gpt-5-2025-08-07", "gpt-5-latest"):
        price = facts_of("openai", name).price
        assert price is not None
        assert price.as_of == AS_OF


def test_what_the_owner_says_of_a_price_goes_before_ours_and_has_no_date() -> None:
    described = {"id": "claude-opus-4-5", "cost": {"input": 1, "output": 2}}
    price = place("claude-opus-4-5", settings(anthropic={"apiKey": "k", "models": [described]})).facts.price
    assert price is not None
    assert (price.input, price.output, price.as_of) == (1, 2, "")


def test_choosing_imports_no_sdk() -> None:
    code = (
        "import asyncio, sys\n"
        "from agent.models.adapter_factory import build_adapter\n"
        "from agent.models.catalog.model_selection import resolve_model\n"
        "from agent.settings import ModelsSettings\n"
        "model = build_adapter(asyncio.run(resolve_model(None, ModelsSettings(), {'ANTHROPIC_API_KEY': 'k'})))\n"
        "assert model.name.startswith('anthropic/')\n"
        "print(sorted({'anthropic', 'openai', 'httpx', 'httpx2', 'aiohttp', 'numpy'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("model", "told"),
    [("gpt-5.5", "24h"), ("gpt-5", "24h"), ("gpt-4.1", "24h"), ("o3", "24h"), ("gpt-5.6-sol", None), ("gpt-6.1-terra", None)],
)
def test_only_models_that_take_it_are_told_how_long_to_keep_prompts(model: str, told: str | None) -> None:
    made = settings(openai={"apiKey": "k", "promptCacheRetention": "24h"})
    assert place(f"openai/{model}", made).facts.cache_rule == told
    assert place(f"openai/{model}", settings(openai={"apiKey": "k"})).facts.cache_rule is None
