"""Makes the adapter for a model, by the API that its server speaks."""

from __future__ import annotations

from collections.abc import Callable

from agent.errors import ModelNotConfigured
from agent.models.catalog.model_selection import ResolvedModel
from agent.models.catalog.provider_keys import Key
from agent.models.protocol import Model
from agent.settings import Api


def build_adapter(place: ResolvedModel, key: Key | None = None) -> Model:
    """Return the adapter for a model, with one of its keys (default: the first). Nothing is imported or connected before its first call.

    Raises:
        ModelNotConfigured: the key cannot be one.
    """
    return _adapter(place.api)(
        place.model,
        key=_usable_secret(place, key or place.keys[0]),
        facts=place.facts,
        base_url=place.base_url,
        provider=place.provider,
        label=place.label,
        headers=place.headers,
    )


def _adapter(api: Api) -> Callable[..., Model]:
    """Return the adapter's class; only those of the models in use are loaded."""
    if api == "anthropic-messages":
        from agent.models.adapters.anthropic import AnthropicModel

        return AnthropicModel
    if api == "openai-completions":
        from agent.models.adapters.openai_chat import OpenAIChatModel

        return OpenAIChatModel
    from agent.models.adapters.openai_responses import OpenAIResponsesModel

    return OpenAIResponsesModel


def _usable_secret(place: ResolvedModel, key: Key) -> str:
    """Return the secret to send, or raise ModelNotConfigured for a key that cannot be one."""
    if key.is_sendable:
        return key.secret
    if key.is_quoted:
        raise ModelNotConfigured(
            f"The key for {place.provider} ({key.label}) is in quotation marks, which are not part of it.",
            hint=f"Write it without them: homebody models auth add {place.provider}   (or correct it where it is stored)",
        )
    raise ModelNotConfigured(
        f"The key for {place.provider} ({key.label}) holds a character that no key has (a blank, a line break or a letter "
        "beyond ASCII).",
        hint=f"Copy it again: homebody models auth add {place.provider}   (or replace it where it is stored)",
    )
