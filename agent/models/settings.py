"""The `models` section of the settings: where models are found beyond those that are known without it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from agent.settings import Section

Api = Literal["anthropic-messages", "openai-completions", "openai-responses"]


class CostSettings(Section):
    """What a model costs, in dollars for a million tokens."""

    input: float = Field(default=0.0, ge=0)
    """Dollars for a million input tokens that no cache held."""
    output: float = Field(default=0.0, ge=0)
    """Dollars for a million output tokens."""
    cache_read: float | None = Field(default=None, ge=0)
    """Dollars for a million input tokens read from the provider's cache; as `input` when not set."""
    cache_write: float | None = Field(default=None, ge=0)
    """Dollars for a million input tokens written to the provider's cache; as `input` when not set."""


class ModelSettings(Section):
    """One model of a provider."""

    id: str = Field(min_length=1)
    """The provider's own name of the model, as it is sent."""
    name: str = ""
    """A name for people; the id when empty."""
    context_window: int | None = Field(default=None, gt=0)
    """How many tokens the model can be shown in all; asked of the provider or assumed when not set."""
    max_tokens: int | None = Field(default=None, gt=0)
    """How many tokens one answer may have."""
    cost: CostSettings | None = None
    """What it costs; from the built-in list or `models.pricesFile` when not set, else a high estimate (docs/cost.md)."""
    input: tuple[Literal["text", "image"], ...] = ("text",)
    """What it can be shown: text, or text and images."""
    reasoning: bool = False
    """Whether it thinks before it answers."""


class ProviderSettings(Section):
    """One provider: an address, a key and the models behind it."""

    base_url: str | None = None
    """The address of the API, such as `http://127.0.0.1:8000/v1`; the provider's public one when not set."""
    api_key: SecretStr | tuple[SecretStr, ...] | None = None
    """The key that is sent, or a list of keys that are tried in turn; the provider's environment variable is used when not set."""
    api_keys: tuple[SecretStr, ...] = ()
    """Further keys: when one is refused or used up for now, the next one is tried."""
    api: Api | None = None
    """The language the server speaks: anthropic-messages, openai-completions or openai-responses."""
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    """Further HTTP headers sent with every call; they may hold secrets and are masked like keys."""
    models: tuple[ModelSettings, ...] = ()
    """The models it offers, where they need describing."""

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Every key that is said here, as it is sent, behind the name of its place (``apiKey``, ``apiKeys[1]``)."""
        listed = () if self.api_key is None or isinstance(self.api_key, SecretStr) else self.api_key
        placed = [("apiKey", self.api_key)] if isinstance(self.api_key, SecretStr) else []
        placed += [(f"apiKey[{number}]", secret) for number, secret in enumerate(listed)]
        placed += [(f"apiKeys[{number}]", secret) for number, secret in enumerate(self.api_keys)]
        return tuple((place, text) for place, secret in placed if (text := secret.get_secret_value().strip()))


class ModelsSettings(Section):
    """Providers and their models."""

    mode: Literal["merge", "replace"] = "merge"
    """Whether the providers here are added to the built-in ones (merge) or are the only ones (replace)."""
    prices_file: str | None = None
    """A JSON or YAML file with newer prices than the built-in list has; read at the start and when settings change (docs/cost.md)."""
    providers: dict[str, ProviderSettings] = Field(default_factory=dict)
    """Providers by their id, the part before the slash in `provider/model`."""
