"""The built-in catalogue of providers and models: addresses, context windows, longest answers.

As of 2026-11-20. Model ids are those of the type hints of the anthropic 2.11 and openai 3.52 SDKs and of google-genai 3.4's
documentation. The SDKs hold no windows and no prices: windows here are cautious lower bounds by family, which the provider's
own answer replaces where it gives one (see ``agent.models.catalog.server_limits``). Prices are in ``agent.models.catalog.prices``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from agent.models.catalog.prices import FREE, Price, PriceList
from agent.settings import Api, CacheRule, ModelSettings

if TYPE_CHECKING:
    from agent.models.thinking import Style


class ModelFacts(Struct, frozen=True, kw_only=True):
    """What one model can take and give. ``window`` is what it can be shown, in tokens; ``images`` whether it sees pictures.

    ``assumed`` says that window and longest answer are a guess by family, worth asking the provider about. ``thinks`` says how
    its thinking is governed (see ``agent.models.thinking``). ``cache_rule`` is how long the provider is told to keep its prompts.
    """

    window: int
    max_output: int
    price: Price | None = None
    images: bool = True
    assumed: bool = True
    thinks: Style = ""
    cache_rule: CacheRule | None = None

    def with_settings(self, settings: ModelSettings | None) -> ModelFacts:
        """Let the owner's settings of a model speak first."""
        if settings is None:
            return self
        return replace(
            self,
            window=settings.context_window or self.window,
            max_output=settings.max_tokens or self.max_output,
            price=Price.of(settings.cost) if settings.cost else self.price,
            images="image" in settings.input,
            assumed=self.assumed and settings.context_window is None,
            thinks=_thinks(self.thinks, settings),
        )


def _thinks(known: Style, settings: ModelSettings) -> Style:
    """What the owner says of a model's reasoning counts; how it is governed is known best by its family."""
    if "reasoning" not in settings.model_fields_set:
        return known
    return (known or "effort") if settings.reasoning else ""


class Provider(Struct, frozen=True, kw_only=True):
    """A service that is known without settings. ``keys`` and ``address`` are environment variables, first one wins."""

    id: str
    label: str
    api: Api
    base_url: str
    keys: tuple[str, ...] = ()
    address: str = ""
    default_model: str = ""
    local: bool = False


PROVIDERS: dict[str, Provider] = {
    provider.id: provider
    for provider in (
        Provider(
            id="anthropic",
            label="Anthropic",
            api="anthropic-messages",
            base_url="https://api.anthropic.com",
            keys=("ANTHROPIC_API_KEY",),
            address="ANTHROPIC_BASE_URL",
            default_model="claude-sonnet-5-5",
        ),
        Provider(
            id="openai",
            label="OpenAI",
            api="openai-responses",
            base_url="https://api.openai.com/v1",
            keys=("OPENAI_API_KEY",),
            address="OPENAI_BASE_URL",
            default_model="gpt-6.1-terra",
        ),
        Provider(
            id="google",
            label="Google Gemini",
            api="openai-completions",
            base_url="https://generativelanguage.googleapis.com/v1beta/openai",
            keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            address="GEMINI_BASE_URL",
            default_model="gemini-3.8-flash",
        ),
        Provider(
            id="openrouter",
            label="OpenRouter",
            api="openai-completions",
            base_url="https://openrouter.ai/api/v1",
            keys=("OPENROUTER_API_KEY",),
            address="OPENROUTER_BASE_URL",
            default_model="openrouter/auto",
        ),
        Provider(
            id="ollama",
            label="Ollama",
            api="openai-completions",
            base_url="http://127.0.0.1:11434/v1",
            address="OLLAMA_HOST",
            local=True,
        ),
        Provider(id="lmstudio", label="LM Studio", api="openai-completions", base_url="http://127.0.0.1:1234/v1", local=True),
        Provider(
            id="llamacpp",
            label="llama.cpp or LocalAI",
            api="openai-completions",
            base_url="http://127.0.0.1:8080/v1",
            local=True,
        ),
        Provider(id="vllm", label="vLLM", api="openai-completions", base_url="http://127.0.0.1:8000/v1", local=True),
    )
}
SAME_PROVIDER = {
    "gemini": "google",
    "claude": "anthropic",
    "lm-studio": "lmstudio",
    "llama.cpp": "llamacpp",
    "localai": "llamacpp",
}
"""Other names that people give a provider."""

MODELS: dict[str, tuple[str, ...]] = {
    "anthropic": (
        "claude-fable-5-2",
        "claude-mythos-5-2",
        "claude-haiku-5-5",
        "claude-sonnet-5-5",
        "claude-fable-5-1",
        "claude-opus-5-5",
        "claude-mythos-5-1",
        "claude-sonnet-5",
        "claude-fable-5",
        "claude-mythos-5",
        "claude-opus-5",
        "claude-opus-4-8",
        "claude-opus-4-7",
        "claude-opus-4-6",
        "claude-sonnet-4-6",
        "claude-haiku-4-5",
        "claude-opus-4-5",
    ),
    "openai": (
        "gpt-6-astra",
        "gpt-6.1-sol",
        "gpt-6.1-terra",
        "gpt-6-sol",
        "gpt-6-luna",
        "gpt-5.6-sol",
        "gpt-5.6-terra",
        "gpt-5.6-luna",
        "gpt-5.5",
        "gpt-5.4",
        "gpt-5.4-mini",
        "gpt-5.2",
        "gpt-5",
        "gpt-5-mini",
        "gpt-4.1",
        "gpt-4.1-mini",
    ),
    "google": ("gemini-3.8-flash",),
    "openrouter": ("openrouter/auto",),
}
"""Models worth naming when someone asks what there is, newest first. Any other id is sent as it is."""


_FAMILIES: tuple[tuple[str, ModelFacts], ...] = (
    ("claude-haiku-4-5", ModelFacts(window=200_000, max_output=64_000, thinks="budget")),
    ("claude-opus-4-5", ModelFacts(window=200_000, max_output=64_000, thinks="budget")),
    ("claude-", ModelFacts(window=200_000, max_output=64_000, thinks="adaptive")),
    ("gpt-4.1", ModelFacts(window=1_000_000, max_output=32_768)),
    ("gpt-4o", ModelFacts(window=128_000, max_output=16_384)),
    ("gpt-5", ModelFacts(window=272_000, max_output=128_000, thinks="effort")),
    ("gpt-6", ModelFacts(window=272_000, max_output=128_000, thinks="effort")),
    ("o3", ModelFacts(window=200_000, max_output=100_000, thinks="effort")),
    ("o4", ModelFacts(window=200_000, max_output=100_000, thinks="effort")),
    ("gemini-", ModelFacts(window=1_000_000, max_output=65_536, thinks="effort")),
)
_UNKNOWN = ModelFacts(window=128_000, max_output=8_192)
_UNKNOWN_LOCAL = ModelFacts(window=32_768, max_output=8_192, price=FREE, images=False)
_PUBLISHED = PriceList()


_GPT = re.compile(r"gpt-(\d+)(?:\.(\d+))?\b")
_NO_CACHE_RULE = (5, 6)
"""From this GPT on, prompts are kept for 30 minutes at least, which is the only value of the option that came after."""


def takes_cache_rule(model: str) -> bool:
    """Whether a model of OpenAI's may be told how long to keep its prompts (prompt_cache_retention)."""
    found = _GPT.match(model.rpartition("/")[2])
    return found is None or (int(found[1]), int(found[2] or 0)) < _NO_CACHE_RULE


def facts_of(provider: str, model: str) -> ModelFacts:
    """Return what is known of a model, or cautious guesses. The first family whose name it begins with counts; prices are exact."""
    known = PROVIDERS.get(provider)
    if known is not None and known.local:
        return _UNKNOWN_LOCAL
    bare = model.rpartition("/")[2]
    facts = next((facts for start, facts in _FAMILIES if bare.startswith(start)), _UNKNOWN)
    return replace(facts, price=_PUBLISHED.find(provider, model))
