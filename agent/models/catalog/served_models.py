"""Asks a server with an address of its own which models it has."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from agent.models.catalog.discovery import fetch_json, names_of
from agent.models.catalog.known_models import PROVIDERS
from agent.models.catalog.provider_keys import NO_SECRET, Wallet, keys_of, no_profiles
from agent.settings import ModelsSettings

SECONDS = 1.5
"""How long a server is waited for."""


def own_addresses(settings: ModelsSettings, env: Mapping[str, str]) -> dict[str, str]:
    """Return the providers that are asked at another address than their public one, with that address, those of the settings first.

    Those that speak Anthropic's API are left out: their list has another form. So is what ``agent.models.catalog.discovery`` looks for.
    """
    found: dict[str, str] = {}
    for name in dict.fromkeys((*settings.providers, *(PROVIDERS if settings.mode == "merge" else ()))):
        own, known = settings.providers.get(name), PROVIDERS.get(name)
        address = (own.base_url if own else None) or (env.get(known.address, "").strip() if known and known.address else "")
        api = (own.api if own else None) or (known.api if known else "openai-completions")
        public = known.base_url if known else ""
        if address and api != "anthropic-messages" and not (known and known.local and not (own and own.base_url)):
            found |= {name: address.rstrip("/")} if address.rstrip("/") != public else {}
    return found


async def served(
    settings: ModelsSettings, env: Mapping[str, str], wallet: Wallet = no_profiles, only: str = ""
) -> dict[str, tuple[str, ...]]:
    """Ask the servers at addresses of their own which models they have; one that does not answer has none. ``only`` asks one of them."""
    places = {name: url for name, url in own_addresses(settings, env).items() if not only or name == only}

    async def ask(name: str, url: str) -> tuple[str, ...]:
        keys = keys_of(name, settings, env, wallet)
        own = settings.providers.get(name)
        headers = {title: value.get_secret_value() for title, value in own.headers.items()} if own else {}
        headers |= {"Authorization": f"Bearer {keys[0].secret if keys and keys[0].is_sendable else NO_SECRET}"}
        return tuple(names_of(await asyncio.to_thread(fetch_json, f"{url}/models", None, SECONDS, headers)))

    answers = await asyncio.gather(*(ask(name, url) for name, url in places.items()))
    return dict(zip(places, answers, strict=True))
