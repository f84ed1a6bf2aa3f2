"""Checks the language models: each key with one short request, and the model that each agent uses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from agent.errors import AgentError
from agent.models.catalog.discovery import served
from agent.models.catalog.known_models import PROVIDERS
from agent.models.catalog.model_listing import standings
from agent.models.catalog.model_selection import ResolvedModel, find
from agent.models.catalog.provider_keys import Key, KeySource
from gateway.base.errors import HomebodyError
from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok
from gateway.models import model_probe
from gateway.models.key_profiles import Profiles

_NOTEBOOK = "no language model is configured, so the built-in notebook answers"
_ADD = "export ANTHROPIC_API_KEY=..., or: homebody models auth add anthropic"
_CANNOT = "Agents that use it cannot answer."


async def _examine(installation: Installation) -> list[Finding]:
    settings = installation.settings
    profiles = Profiles(installation.paths, settings.auth)
    found: list[Finding] = []
    places: dict[tuple[str, str], ResolvedModel] = {}
    for agent in settings.agent_ids:
        try:
            place = await model_probe.placed(settings, model_probe.wanted_model(settings, agent), agent, profiles)
        except (AgentError, HomebodyError) as error:
            found.append(_error(f"the agent {agent} has no model: {error}", error.hint))
            continue
        if place is None:
            found.append(Finding(level="note", what=f"agent {agent}: {_NOTEBOOK}", mend=_ADD))
        else:
            places[place.provider, place.model] = place
    found += _ill_written(places.values())
    for place in await _others(installation, profiles.key_source(settings.default_agent), {name for name, _ in places}):
        places[place.provider, place.model] = place
    if installation.offline:
        return found or [
            ok(f"a model is set for each agent ({', '.join(_name(place) for place in places.values())}); not asked")
        ]
    tried = await asyncio.gather(*(_tried(place, key) for place in places.values() for key in place.keys if key.is_sendable))
    return [*found, *tried]


def _name(place: ResolvedModel) -> str:
    return place.name


async def _others(installation: Installation, key_source: KeySource, used: set[str]) -> list[ResolvedModel]:
    """Return a model of each provider that has a key and is used by no agent: fallbacks and `/model` rely on its key too."""
    settings = installation.settings
    found = []
    own = {} if installation.offline else await served(settings.models, installation.env, key_source)
    for standing in standings(settings.models, installation.env, key_source):
        if standing.provider in used or standing.key in {"missing", "none needed"}:
            continue
        described = settings.models.providers.get(standing.provider)
        named = [model.id for model in described.models] if described else []
        known = PROVIDERS.get(standing.provider)
        model = next(iter([*named, *own.get(standing.provider, ()), *([known.default_model] if known else [])]), "")
        try:
            place = find(f"{standing.provider}/{model}", settings.models, installation.env, key_source) if model else None
        except AgentError:
            continue
        found += [place] if place is not None else []
    return found


def _ill_written(places: object) -> Iterator[Finding]:
    for place in list(places):  # type: ignore[call-overload]  # the values of a dict
        for key in place.keys:
            if not key.is_sendable:
                what, mend = "holds a character that no key has", "Copy the key again, and nothing else, and set it anew."
                if key.is_quoted:
                    what, mend = "has quotes around it", "Set it again, without the quotes."
                yield _error(f"the key {key.label} of {place.provider} {what}", mend)


async def _tried(place: ResolvedModel, key: Key) -> Finding:
    facts, failure = await model_probe.ask(place, key)
    label = f"{key.label}: " if facts["key"] else ""
    if failure is None:
        return ok(f"{label}{facts['model']} answered in {facts['ms']:,} ms")
    error = model_probe.failed(place, key, failure)
    return replace(_error(f"{label}{error.message}", error.hint), where=f"{place.name} at {place.base_url}")


def _error(what: str, mend: str) -> Finding:
    return Finding(level="error", what=what, why=_CANNOT, mend=mend)


KEYS = Check(name="keys", examine=_examine, seconds=60.0)
