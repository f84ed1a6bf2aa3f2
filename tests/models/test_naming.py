"""What people call models, and which they may choose."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ModelNotConfigured, UnknownModel
from agent.models.catalog.known_models import PROVIDERS
from agent.models.catalog.model_names import ModelNames
from agent.settings import AgentSettings, ModelsSettings

KEYS = {key: "k" for provider in PROVIDERS.values() for key in provider.keys}


def names(providers: dict[str, Any] | None = None, **agent: Any) -> ModelNames:
    made = ModelsSettings.model_validate({"providers": providers or {}})
    return ModelNames(AgentSettings.model_validate(agent), made, KEYS)


@pytest.mark.parametrize(
    ("wanted", "ref"),
    [
        ("opus", "anthropic/claude-opus-5-5"),
        ("Opus 4.8", "anthropic/claude-opus-4-8"),
        ("haiku 4 5", "anthropic/claude-haiku-4-5"),
        ("astra", "openai/gpt-6-astra"),
        ("claude-opus-5", "anthropic/claude-opus-5"),
        ("gpt-5.4", "openai/gpt-5.4"),
        ("ANTHROPIC/claude-opus-5", "anthropic/claude-opus-5"),
        ("flash", "google/gemini-3.8-flash"),
        ("openai gpt-6 astra", "openai/gpt-6-astra"),
        ("notebook", "offline/notebook"),
        ("anthropic/claude-next-9", "anthropic/claude-next-9"),
        ("ollama/qwen3:8b", "ollama/qwen3:8b"),
    ],
)
def test_a_part_that_only_one_has_is_enough(wanted: str, ref: str) -> None:
    assert names().resolve(wanted) == ref


def test_a_name_with_more_words_behind_it_is_none() -> None:
    made = names(providers={"nas": {"baseUrl": "http://nas/v1"}})
    assert made.resolve("nas/any") == "nas/any"
    with pytest.raises(UnknownModel, match="nas/any and good morning"):
        made.resolve("nas/any and good morning")


def test_of_several_all_are_named() -> None:
    with pytest.raises(UnknownModel, match=r"claude-opus-4-8, .*claude-opus-4-7, .*claude-opus-4-6") as caught:
        names().resolve("opus-4")
    assert len(caught.value.nearest) == 4
    assert "/models" in caught.value.hint


def test_the_owners_short_names_go_before_ours() -> None:
    made = names(models={"openai/gpt-6-sol": {"alias": "Opus"}, "nas/qwen3": {"alias": "local"}, "anthropic/*": {}}, providers={
        "nas": {"baseUrl": "http://nas/v1"}
    })  # fmt: skip
    assert (made.resolve("opus"), made.resolve("LOCAL"), made.full("local")) == ("openai/gpt-6-sol", "nas/qwen3", "nas/qwen3")
    assert (made.alias("nas/qwen3"), made.alias("anthropic/claude-haiku-5-5"), made.alias("nas/other")) == (
        "local",
        "haiku",
        "",
    )


def test_where_models_are_listed_no_other_may_be_chosen_but_what_is_configured() -> None:
    made = names(models={"anthropic/*": {}}, model={"primary": "gpt", "fallbacks": ["ollama/qwen3"]})
    assert made.resolve("haiku") == "anthropic/claude-haiku-5-5"
    assert (made.resolve("gpt"), made.resolve("qwen3")) == ("openai/gpt-6.1-terra", "ollama/qwen3")
    with pytest.raises(ModelNotConfigured, match="openai/gpt-6-sol is not among") as caught:
        made.resolve("openai/gpt-6-sol")
    assert "anthropic/" in caught.value.hint


def test_nothing_near_is_told_as_unknown() -> None:
    with pytest.raises(UnknownModel, match="No model answers"):
        names().resolve("zzzqqq")


@given(st.text(max_size=30))
def test_whatever_is_wanted_is_one_model_or_told(wanted: str) -> None:
    made = names(models={"anthropic/*": {}})
    try:
        ref = made.resolve(wanted)
    except (UnknownModel, ModelNotConfigured):
        return
    assert made.may_choose(ref)
    assert made.resolve(ref) == ref, "a full name means itself"
