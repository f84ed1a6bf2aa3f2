"""Finds model servers on this machine, and asks servers with an address of their own which models they have.

Plain HTTP in threads: no SDK, no proxy, a fraction of a second in all.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from agent.models.catalog.known_models import PROVIDERS, ModelFacts, facts_of
from agent.models.catalog.provider_keys import NO_SECRET, KeySource, keys_of, no_profiles
from agent.models.catalog.server_limits import ask_limits, of_list
from agent.settings import ModelsSettings

BUDGET_SECONDS = 0.3
_NOT_FOR_TALK = ("embed", "rerank", "whisper", "bge-", "minilm")
_LOOKED_AT = 6
"""How many of Ollama's models are asked whether they can use tools, newest first."""


class Found(Struct, frozen=True, kw_only=True):
    """A server that answered, and the model to use of it."""

    provider: str
    model: str
    base_url: str
    facts: ModelFacts


def ollama_url(env: Mapping[str, str]) -> str:
    """Return the address of Ollama's compatible endpoint, as its own variable OLLAMA_HOST gives it in many forms."""
    host = env.get("OLLAMA_HOST", "").strip().rstrip("/")
    try:
        return _spelt_out(host) if host else PROVIDERS["ollama"].base_url
    except ValueError:  # what stands there is no address
        return PROVIDERS["ollama"].base_url


def _spelt_out(host: str) -> str:
    parts = urlsplit(host if "://" in host else f"http://{host}")
    name = "127.0.0.1" if parts.hostname in {None, "0.0.0.0", "::"} else parts.hostname  # noqa: S104  (what a server binds to, read here)
    shown = f"[{name}]" if ":" in str(name) else name
    port = parts.port or (11434 if "://" not in host else {"https": 443}.get(parts.scheme, 80))
    return f"{parts.scheme}://{shown}:{port}{parts.path.removesuffix('/v1')}/v1"


def local_servers(env: Mapping[str, str]) -> dict[str, str]:
    """Return where the servers would be that are looked for, by provider, in the order of preference."""
    return {"ollama": ollama_url(env)} | {name: PROVIDERS[name].base_url for name in ("lmstudio", "llamacpp", "vllm")}


async def find_local(
    env: Mapping[str, str], *, budget: float = BUDGET_SECONDS, servers: Mapping[str, str] | None = None
) -> Found | None:
    """Return the first server that answers within the budget (in seconds, for all together) and has a model to talk to."""
    urls = local_servers(env) if servers is None else servers
    probes = {name: asyncio.create_task(_probe(name, url, budget)) for name, url in urls.items()}
    try:
        await asyncio.wait(probes.values(), timeout=budget)
        done = [probe.result() for probe in probes.values() if probe.done()]
    finally:
        for probe in probes.values():
            probe.cancel()
        await asyncio.gather(*probes.values(), return_exceptions=True)
    return next((found for found in done if found is not None), None)


async def _probe(provider: str, base_url: str, budget: float) -> Found | None:
    async def fetch(url: str, post: Mapping[str, Any] | None = None) -> Any:
        return await asyncio.to_thread(fetch_json, url, post, budget)

    if provider == "ollama":
        root = base_url.removesuffix("/v1")
        listed = _names(await fetch(f"{root}/api/tags"), "models", "name")
        return await _with_tools(listed, base_url, fetch)
    listed = _names(await fetch(f"{base_url}/models"), "data", "id")
    if not listed:
        return None
    guess = facts_of(provider, listed[0])
    if provider == "llamacpp":
        facts = await ask_limits(fetch, provider, base_url, listed[0], guess)
    else:
        facts = of_list(guess, await fetch(f"{base_url}/models"), listed[0])
    return Found(provider=provider, model=listed[0], base_url=base_url, facts=facts)


async def _with_tools(listed: list[str], base_url: str, fetch: Any) -> Found | None:
    """Return the newest Ollama model that can use tools; an agent cannot work with one that cannot."""
    root = base_url.removesuffix("/v1")
    shown = await asyncio.gather(*(fetch(f"{root}/api/show", {"model": name}) for name in listed[:_LOOKED_AT]))
    for name, answer in zip(listed, shown, strict=False):
        capabilities = answer.get("capabilities") if isinstance(answer, dict) else None
        if capabilities is None or "tools" in capabilities:
            facts = await ask_limits(fetch, "ollama", base_url, name, facts_of("ollama", name))
            return Found(provider="ollama", model=name, base_url=base_url, facts=facts)
    return None


def _names(answer: Any, name: str, key: str) -> list[str]:
    listed = answer.get(name) if isinstance(answer, dict) else None
    names = [str(item[key]) for item in listed if isinstance(item, dict) and item.get(key)] if isinstance(listed, list) else []
    return [name for name in names if not any(word in name.lower() for word in _NOT_FOR_TALK)]


def names_of(answer: Any) -> list[str]:
    """Return the models to talk to in a list of models as OpenAI gives it, the server's first one first."""
    return _names(answer, "data", "id")


def fetch_json(url: str, post: Mapping[str, Any] | None, seconds: float, headers: Mapping[str, str] | None = None) -> Any:
    """Fetch JSON; None for anything that goes wrong, since whatever else listens there is no model server. Blocks."""
    import http.client

    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "127.0.0.1", parts.port, timeout=seconds)
        try:
            body = None if post is None else json.dumps(dict(post))
            connection.request(
                "GET" if post is None else "POST", parts.path, body, {"Content-Type": "application/json", **(headers or {})}
            )
            answer = connection.getresponse()
            return json.loads(answer.read(4_000_000)) if answer.status == http.HTTPStatus.OK else None
        finally:
            connection.close()
    except (OSError, ssl.SSLError, http.client.HTTPException, ValueError, RecursionError):
        return None


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
    settings: ModelsSettings, env: Mapping[str, str], key_source: KeySource = no_profiles, only: str = ""
) -> dict[str, tuple[str, ...]]:
    """Ask the servers at addresses of their own which models they have; one that does not answer has none. ``only`` asks one of them."""
    places = {name: url for name, url in own_addresses(settings, env).items() if not only or name == only}

    async def ask(name: str, url: str) -> tuple[str, ...]:
        keys = keys_of(name, settings, env, key_source)
        own = settings.providers.get(name)
        headers = {title: value.get_secret_value() for title, value in own.headers.items()} if own else {}
        headers |= {"Authorization": f"Bearer {keys[0].secret if keys and keys[0].is_sendable else NO_SECRET}"}
        return tuple(names_of(await asyncio.to_thread(fetch_json, f"{url}/models", None, SECONDS, headers)))

    answers = await asyncio.gather(*(ask(name, url) for name, url in places.items()))
    return dict(zip(places, answers, strict=True))
