"""What is on this machine already: keys in the environment, model servers, tokens of bots, a service manager, a gateway."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from typing import Any

from agent.models.catalog.discovery import fetch_json, find_local, local_servers, ollama_url, own_addresses, served
from agent.models.catalog.known_models import PROVIDERS
from agent.models.catalog.provider_keys import keys_of
from channels.built_in import BUILT_IN
from channels.common.shared_settings import DEFAULT
from channels.platform import Platform
from gateway.base.state_lock import describe
from gateway.service.service_selection import available, installed
from gateway.setup.draft import Draft

SEARCH_SECONDS = 1.5
"""More than the gateway gives its search for local servers: somebody is waiting for the answer."""
_TRIED_PORTS = 20


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model that can be used without typing anything.

    ``variable``: the environment variable that holds its key. ``address``: where its server is, if the environment says so.
    """

    name: str
    label: str
    variable: str = ""
    address: str = ""

    @property
    def provider(self) -> str:
        """The provider's id."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The findings.

    ``tokens``: environment variables that hold the tokens of a platform, by its name. ``free_port``: a free port where the gateway's is
    taken, 0 if none is. ``remarks``: what was found and cannot be used.
    """

    models: tuple[FoundModel, ...] = ()
    tokens: dict[str, tuple[str, ...]] = field(default_factory=dict)
    configured: tuple[str, ...] = ()
    embedders: tuple[str, ...] = ()
    service_manager: str = ""
    service: str | None = None
    running: bool = False
    free_port: int | None = None
    remarks: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the findings as JSON values; no secret is among them."""
        return {
            "models": [{"name": one.name, "label": one.label, "keyFrom": one.variable or None} for one in self.models],
            "tokens": {name: list(variables) for name, variables in self.tokens.items()},
            "channels": list(self.configured),
            "embedders": list(self.embedders),
            "serviceManager": self.service_manager or None,
            "service": self.service,
            "gatewayRuns": self.running,
            "portTaken": self.free_port is not None,
            "remarks": list(self.remarks),
        }


async def look_around(draft: Draft) -> Found:
    """Look for all of it, in a second or two."""
    with_keys, local, embedders = await asyncio.gather(
        _with_keys(draft), _local_models(draft), asyncio.to_thread(_ollama_embedders, draft)
    )
    channels = draft.settings.channels
    holder = describe(draft.paths.lock)
    service = installed(draft.paths, draft.env)
    return Found(
        models=(*with_keys, *local),
        tokens={
            platform.name: names
            for platform in BUILT_IN
            if (names := tuple(name for name in _variables(platform) if draft.env.get(name, "").strip()))
        },
        configured=tuple(platform.name for platform in BUILT_IN if _is_set_up(getattr(channels, platform.name), platform)),
        embedders=tuple(embedders),
        service_manager=available(),
        service=service.kind if service else None,
        running=holder is not None and bool(holder.socket),
        remarks=tuple(_unusable_keys(draft)),
        free_port=None if holder is not None else _other_port(draft.settings.gateway.port),
    )


def _is_set_up(section: Any, platform: Platform) -> bool:
    """Return whether a platform has an account whose secret is set: what the guide asks for as no secret is not enough."""
    plain = {key for key, _ in platform.guide.questions} if platform.guide else set()
    if section.names() != [DEFAULT]:
        return bool(section.names())
    return any(getattr(section, key) is not None for key in section.SECRETS if key not in plain)


def _variables(platform: Platform) -> list[str]:
    """Return the environment variables that may hold the secrets of a platform."""
    guide = platform.guide
    more = [guide.env[key] for key, _ in guide.secrets if key in guide.env] if guide else []
    return [*platform.env.values(), *more]


async def _with_keys(draft: Draft) -> list[FoundModel]:
    """Return a model of each provider that has a key: its default one, or the first of a server at an address of its own."""
    source, models = draft.profiles.key_source(draft.settings.default_agent), draft.settings.models
    own = await served(models, draft.env, source)
    addresses = own_addresses(models, draft.env)
    found = []
    for provider in PROVIDERS.values():
        keys = keys_of(provider.id, models, draft.env, source)
        key = next((one for one in keys if one.is_sendable), None)
        name = next(iter(own[provider.id]), "") if provider.id in own else provider.default_model
        if key is None or not name:
            continue
        variable = key.label if key.origin == "environment" else ""
        place = f"the key in {variable}" if variable else f"the saved key {key.label.removeprefix('profile ')}"
        address = addresses.get(provider.id, "")
        where = f" at {address}" if address else ""
        in_env = address if provider.address and draft.env.get(provider.address) else ""
        found.append(FoundModel(f"{provider.id}/{name}", f"{provider.label}{where}, with {place}", variable, in_env))
    return found


def _unusable_keys(draft: Draft) -> list[str]:
    """Return a sentence for each key in the environment that cannot be sent, since it would only be missed."""
    return [
        f"{key.label} is set, but with {'quotes' if key.is_quoted else 'a blank or a letter that no key has'} in it: set it again without."
        for provider in PROVIDERS
        for key in keys_of(provider, draft.settings.models, draft.env)
        if key.origin == "environment" and not key.is_sendable
    ]


async def _local_models(draft: Draft) -> list[FoundModel]:
    servers = local_servers(draft.env)
    answers = await asyncio.gather(
        *(find_local(draft.env, budget=SEARCH_SECONDS, servers={name: url}) for name, url in servers.items())
    )
    return [
        FoundModel(
            f"{one.provider}/{one.model}",
            f"{PROVIDERS[one.provider].label} at {one.base_url}: {one.model}",
            address="" if one.base_url == PROVIDERS[one.provider].base_url else one.base_url,
        )
        for one in answers
        if one is not None
    ]


def _ollama_embedders(draft: Draft) -> list[str]:
    """Return the embedding models of Ollama."""
    answer = fetch_json(f"{ollama_url(draft.env).removesuffix('/v1')}/api/tags", None, SEARCH_SECONDS)
    listed = answer.get("models") if isinstance(answer, dict) else None
    names = [str(one.get("name", "")) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return [name for name in names if "embed" in name or "bge-" in name or "minilm" in name]


def _other_port(port: int) -> int | None:
    """Return a free port near one that another program uses; None if it is free."""
    if not port or _is_free(port):
        return None
    return next((other for other in range(port + 1, port + _TRIED_PORTS) if _is_free(other)), 0)


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
