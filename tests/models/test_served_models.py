"""A server at an address of its own is asked which models it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.messages import Failure
from agent.models.adapters.openai_chat import OpenAIChatModel
from agent.models.adapters.openai_responses import OpenAIResponsesModel
from agent.models.catalog.discovery import own_addresses, served
from agent.models.catalog.known_models import ModelFacts
from agent.models.catalog.model_selection import resolve_model
from agent.models.catalog.provider_keys import Key
from agent.models.middleware.key_health import KeyHealth
from agent.models.middleware.key_rotation import KeyRotationMiddleware
from agent.models.notebook.notebook_model import NotebookModel
from agent.models.scripted import ScriptedModel
from agent.settings import ModelsSettings
from gateway.base.clock import ManualClock
from tests.models.conversation import NOON, ask, choose, hear, user
from tests.peers.compatible import Refuse

if TYPE_CHECKING:
    from agent.models.adapters.openai_model import OpenAIModel
    from tests.peers.compatible import CompatiblePeer

LIST = {"object": "list", "data": [{"id": "nomic-embed-text"}, {"id": "qwen3:8b"}, {"id": "fake-1"}]}


async def nobody(_: Any) -> None:
    return None


async def test_an_openai_address_of_ones_own_is_asked_for_its_models(compatible_peer: CompatiblePeer) -> None:
    compatible_peer.pages["/v1/models"] = LIST
    env = {"OPENAI_API_KEY": "anything", "OPENAI_BASE_URL": compatible_peer.url}
    place = await resolve_model(None, ModelsSettings(), env, discover=nobody)
    assert place is not None
    assert (place.name, place.base_url) == ("openai/qwen3:8b", compatible_peer.url)
    named = await resolve_model("openai/other", ModelsSettings(), env, discover=nobody)
    assert named is not None
    assert named.model == "other", "who says which is taken at their word"


async def test_a_provider_with_nothing_but_an_address_is_found(compatible_peer: CompatiblePeer) -> None:
    compatible_peer.pages["/v1/models"] = LIST
    settings = ModelsSettings.model_validate({"providers": {"box": {"baseUrl": compatible_peer.url}}})
    place = await resolve_model(None, settings, {}, discover=nobody)
    assert place is not None
    assert place.name == "box/qwen3:8b"
    assert await served(settings, {}) == {"box": ("qwen3:8b", "fake-1")}


async def test_a_server_that_does_not_answer_changes_nothing() -> None:
    env = {"OPENAI_API_KEY": "anything", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    place = await resolve_model(None, ModelsSettings(), env, discover=nobody)
    assert place is not None
    assert place.name == "openai/gpt-6.1-terra"


def test_public_addresses_are_not_asked() -> None:
    assert own_addresses(ModelsSettings(), {"OPENAI_API_KEY": "k", "OLLAMA_HOST": "127.0.0.1"}) == {}
    described = ModelsSettings.model_validate({"providers": {"openai": {"baseUrl": "https://api.openai.com/v1/"}}})
    assert own_addresses(described, {}) == {}


@pytest.mark.parametrize("kind", [OpenAIChatModel, OpenAIResponsesModel])
async def test_a_model_that_is_not_there_names_those_that_are(compatible_peer: CompatiblePeer, kind: type[OpenAIModel]) -> None:
    compatible_peer.pages["/v1/models"] = LIST
    facts = ModelFacts(window=100_000, max_output=4_000, assumed=False)
    model = kind("fake-0", key="k", facts=facts, base_url=compatible_peer.url, provider="custom", label="Custom")
    compatible_peer.answer(Refuse(404, {"message": "no such model", "code": "model_not_found"}))
    _, answer = await hear(model, ask(user("a")))
    await model.close()
    assert answer.failure is not None
    assert answer.failure.hint == (
        "There is: qwen3:8b, fake-1. Choose one: homebody config set agents.defaults.model custom/qwen3:8b"
    )


@pytest.mark.parametrize("chosen", [True, False])
async def test_the_notebook_speaks_of_a_missing_model_only_where_one_is_missing(chosen: bool) -> None:
    _, answer = await hear(NotebookModel(chosen=chosen), ask(user("hello")))
    assert ("No language model is configured" in answer.text) == (not chosen)


async def test_without_any_server_there_is_the_notebook() -> None:
    assert isinstance(await choose(None, ModelsSettings(), {}, discover=nobody), NotebookModel)


async def test_a_provider_that_repeats_the_key_is_not_quoted_with_it() -> None:
    key = Key("OPENAI_API_KEY", "environment", "sk-verysecret")
    within = ScriptedModel(lambda _: Failure(kind="bad_request", message="Incorrect key sk-verysecret.", hint="Mend it."))
    model = KeyRotationMiddleware(lambda: [key], lambda _: within, KeyHealth(ManualClock(NOON)))
    _, answer = await hear(model, ask(user("a")))
    assert answer.failure is not None
    assert answer.failure.message == "Incorrect key [secret]."
