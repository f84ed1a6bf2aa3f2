"""Models in the settings whose provider does not exist: they are written, and nothing answers to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.settings import ModelChoice
from gateway.base.errors import Problem

if TYPE_CHECKING:
    from gateway.settings.root import Settings


def missing_providers(settings: Settings) -> list[Problem]:
    """Return a warning for each model of an agent whose provider is neither built in nor in the settings."""
    from difflib import get_close_matches

    from agent.models.catalog.known_models import PROVIDERS
    from agent.models.catalog.model_selection import how_to_add, provider_that_is_missing

    names = dict.fromkeys(name for agent in settings.agent_ids for name in _named(settings, agent))
    found = []
    for name in names:
        provider = provider_that_is_missing(name, settings.models)
        if not provider:
            continue
        near = get_close_matches(provider, [*settings.models.providers, *PROVIDERS], n=1)
        add = how_to_add(provider)
        hint = f"Did you mean {near[0]}/{name.partition('/')[2]}? {add}" if near else add
        found.append(Problem(f"there is no provider {provider!r}, so nothing answers to the model {name!r}", hint=hint))
    return found


def _named(settings: Settings, agent: str) -> Iterator[str]:
    own = settings.agent(agent).settings
    for model in (own.model, own.image_model):
        if isinstance(model, ModelChoice):
            yield from (model.primary, *model.fallbacks)
        elif model is not None:
            yield model
