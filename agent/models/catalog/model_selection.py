"""Selects the model: the one named, else one with a key, else a server on this machine, else the notebook."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agent.errors import ModelNotConfigured, UnknownModel
from agent.models.catalog.discovery import Found, ollama_url, served
from agent.models.catalog.known_models import (
    MODELS,
    PROVIDERS,
    SAME_PROVIDER,
    ModelFacts,
    Provider,
    facts_of,
    takes_cache_rule,
)
from agent.models.catalog.prices import PriceList
from agent.models.catalog.provider_keys import NO_SECRET, Key, KeySource, keys_of, no_profiles
from agent.models.notebook import NAME as OFFLINE
from agent.settings import Api, ModelSettings, ModelsSettings, ProviderSettings

Discover: TypeAlias = Callable[[Mapping[str, str]], Awaitable[Found | None]]

ALIASES = {
    "offline": OFFLINE,
    "notebook": OFFLINE,
    "opus": "anthropic/claude-opus-5-5",
    "sonnet": "anthropic/claude-sonnet-5-5",
    "haiku": "anthropic/claude-haiku-5-5",
    "gpt": "openai/gpt-6.1-terra",
    "gemini": "google/gemini-3.8-flash",
}
"""Short names that need no settings."""

BY_KEY = ("anthropic", "openai", "google", "openrouter")
"""Providers whose key in the environment makes a model without settings, first one wins."""

_NO_KEY = Key("no key", "none needed", NO_SECRET)
_BARE = (("claude-", "anthropic"), ("gpt-", "openai"), ("o3", "openai"), ("o4", "openai"), ("gemini-", "google"))


class ResolvedModel(Struct, frozen=True, kw_only=True):
    """Everything that ``agent.models.adapter_factory`` needs to make a model. ``repr`` shows no secret.

    ``keys`` has one key at least, in the order in which they are tried.
    """

    provider: str
    model: str
    label: str
    api: Api
    base_url: str
    facts: ModelFacts
    keys: tuple[Key, ...] = (_NO_KEY,)
    headers: Mapping[str, str] | None = None

    @property
    def name(self) -> str:
        """``provider/model``."""
        return f"{self.provider}/{self.model}"

    def __repr__(self) -> str:
        return f"Place({self.name} at {self.base_url})"


async def resolve_model(
    name: str | None,
    settings: ModelsSettings,
    env: Mapping[str, str],
    *,
    discover: Discover | None = None,
    key_source: KeySource = no_profiles,
) -> ResolvedModel | None:
    """Return where the model to use is; None for the notebook.

    ``name`` is ``provider/model``, a bare model id, or an alias; None leaves it to keys in auth profiles (``key_source``), the settings
    and the environment, then to ``discover`` (``agent.models.catalog.discovery.find_local``; None does not look), then to the notebook.
    Raises UnknownModel for a name that nothing answers to, ModelNotConfigured where a key or an address is missing.
    """
    if name is not None and name.strip():
        return find(name.strip(), settings, env, key_source)
    place = by_key(settings, env, key_source)
    if discover is not None:
        place = await _as_served(place, settings, env, key_source)
    if place is None and discover is not None and settings.mode == "merge" and (found := await discover(env)) is not None:
        place = _discovered(found)
    return place


async def _as_served(
    place: ResolvedModel | None, settings: ModelsSettings, env: Mapping[str, str], key_source: KeySource
) -> ResolvedModel | None:
    """Put a model that is there in the place of a guess, where a server of the owner's own says which it has.

    What the owner described (``models.providers.NAME.models``) is no guess.
    """
    if place is not None and described(settings, place.provider, place.model) is not None:
        return place
    found = await served(settings, env, key_source, only=place.provider if place else "")
    for provider, names in found.items():
        if names and not (place is not None and place.model in names):
            return _place(provider, names[0], settings, env, key_source)
    return place


def described(settings: ModelsSettings, provider: str, model: str) -> ModelSettings | None:
    """Return what the owner's settings say of a model; None where they do not name it."""
    return next((one for one in settings.providers.get(provider, ProviderSettings()).models if one.id == model), None)


def priced(place: ResolvedModel, settings: ModelsSettings, prices: PriceList) -> ResolvedModel:
    """Put a listed price to a model of which the settings give none."""
    own = described(settings, place.provider, place.model)
    listed = None if own is not None and own.cost is not None else prices.find(place.provider, place.model)
    return place if listed is None else replace(place, facts=replace(place.facts, price=listed))


def find(
    name: str, settings: ModelsSettings, env: Mapping[str, str], key_source: KeySource = no_profiles
) -> ResolvedModel | None:
    """Return where a named model is; None for the notebook. Raises UnknownModel and ModelNotConfigured."""
    full = ALIASES.get(name.lower(), name)
    if full.lower() == OFFLINE:
        return None
    provider, slash, model = full.partition("/")
    provider = _same(provider, settings) if slash else ""
    if not slash or not model or not _is_known(provider, settings):
        provider, model = _guess(full, settings)
    return _place(provider, model, settings, env, key_source)


def provider_that_is_missing(name: str, settings: ModelsSettings) -> str:
    """Return the provider of a name as ``provider/model`` that is not known, "" where there is none and for other names."""
    full = ALIASES.get(name.lower(), name)
    provider, slash, model = full.partition("/")
    if not slash or not model or _is_known(_same(provider, settings), settings):
        return ""
    return "" if any(full == one.id for own in settings.providers.values() for one in own.models) else provider


def how_to_add(provider: str) -> str:
    """Return the sentence that says how a provider is put into the settings."""
    return f"Add it: homebody config set models.providers.{provider}.baseUrl http://HOST:PORT/v1"


def by_key(settings: ModelsSettings, env: Mapping[str, str], key_source: KeySource = no_profiles) -> ResolvedModel | None:
    """Return the default model of the first provider that has a key, in a profile, the settings or the environment."""
    for name in BY_KEY:
        if _is_known(name, settings) and keys_of(name, settings, env, key_source):
            return _place(name, PROVIDERS[name].default_model, settings, env, key_source)
    described = (
        (name, provider)
        for name, provider in settings.providers.items()
        if provider.models and (provider.base_url or name in PROVIDERS)
    )
    first = next(described, None)
    return None if first is None else _place(first[0], first[1].models[0].id, settings, env, key_source)


def known_names(settings: ModelsSettings) -> tuple[str, ...]:
    """Return the names worth offering: those of the settings first, then those of the catalogue."""
    own = [f"{name}/{model.id}" for name, provider in settings.providers.items() for model in provider.models]
    listed = [f"{name}/{model}" for name, models in MODELS.items() if _is_known(name, settings) for model in models]
    return tuple(dict.fromkeys((*own, *listed, OFFLINE)))


def is_left_out(name: str, settings: ModelsSettings) -> bool:
    """Whether a full name is of a provider that only the settings describe, and is not among the models that they list for it."""
    provider, _, model = name.partition("/")
    own = settings.providers.get(provider)
    return own is not None and bool(own.models) and provider not in PROVIDERS and all(one.id != model for one in own.models)


def is_doubtful(name: str, settings: ModelsSettings) -> bool:
    """Whether a full name is of a provider whose models are known here, and none of them. It may be newer than this version."""
    provider = name.partition("/")[0]
    return provider in MODELS and name not in known_names(settings)


def key_origin(
    provider: str, settings: ModelsSettings, env: Mapping[str, str], key_source: KeySource = no_profiles
) -> Literal["profile", "settings", "environment", "none needed", "missing"]:
    """Tell where a provider's first key comes from."""
    own, known = settings.providers.get(provider), PROVIDERS.get(provider)
    if keys := keys_of(provider, settings, env, key_source):
        return keys[0].origin
    return "none needed" if known is None or known.local or (own is not None and own.base_url) else "missing"


def _same(provider: str, settings: ModelsSettings) -> str:
    return provider if provider in settings.providers else SAME_PROVIDER.get(provider.lower(), provider.lower())


def _is_known(provider: str, settings: ModelsSettings) -> bool:
    return provider in settings.providers or (settings.mode == "merge" and provider in PROVIDERS)


def _guess(name: str, settings: ModelsSettings) -> tuple[str, str]:
    """Find the provider of a bare model id, in the settings or by the maker's way of naming."""
    for provider, own in settings.providers.items():
        if any(name == model.id for model in own.models):
            return provider, name
    maker = next((provider for start, provider in _BARE if name.lower().startswith(start)), None)
    if maker is not None and "/" not in name and _is_known(maker, settings):
        return maker, name
    import difflib

    nearest = tuple(difflib.get_close_matches(name, [*known_names(settings), *ALIASES], n=3, cutoff=0.5))
    hint = f" Did you mean {' or '.join(nearest)}?" if nearest else ""
    if provider := provider_that_is_missing(name, settings):
        raise UnknownModel(
            f"No model answers to {name!r}: there is no provider {provider!r}.{hint}",
            hint=f"{how_to_add(provider)}; see: homebody models list",
            nearest=nearest,
        )
    raise UnknownModel(
        f"No model answers to {name!r}.{hint}",
        hint="Write it as provider/model, such as anthropic/claude-sonnet-5-5 or ollama/qwen3; see: homebody models list",
        nearest=nearest,
    )


def _place(provider: str, model: str, settings: ModelsSettings, env: Mapping[str, str], key_source: KeySource) -> ResolvedModel:
    own = settings.providers.get(provider, ProviderSettings())
    known = PROVIDERS.get(provider)
    address = _address(provider, own, known, env)
    rule = own.prompt_cache_retention if takes_cache_rule(model) else None
    api = _api(provider, own, known, address)
    facts = facts_of(provider, model).with_settings(described(settings, provider, model))
    price = facts.price.with_anthropic_writes() if facts.price and api == "anthropic-messages" else facts.price
    return ResolvedModel(
        provider=provider,
        model=model,
        label=known.label if known else provider,
        api=api,
        base_url=address,
        facts=replace(facts, price=price, cache_rule=rule),
        keys=keys_of(provider, settings, env, key_source) or (_missing(provider, model, own, known),),
        headers={name: value.get_secret_value() for name, value in own.headers.items()},
    )


def _api(provider: str, own: ProviderSettings, known: Provider | None, address: str) -> Api:
    """Only OpenAI itself is sure to speak the Responses API: what answers at another address is spoken to as others speak."""
    if own.api:
        return own.api
    if known is None:
        return "anthropic-messages" if "anthropic" in provider else "openai-completions"
    elsewhere = known.api == "openai-responses" and address.rstrip("/") != known.base_url
    return "openai-completions" if elsewhere else known.api


def _address(provider: str, own: ProviderSettings, known: Provider | None, env: Mapping[str, str]) -> str:
    if own.base_url:
        return own.base_url
    if provider == "ollama":
        return ollama_url(env)
    if known is not None:
        return env.get(known.address, "").strip() or known.base_url
    raise ModelNotConfigured(
        f"The provider {provider!r} has no address.",
        hint=f"homebody config set models.providers.{provider}.baseUrl http://HOST:PORT/v1",
    )


def _missing(provider: str, model: str, own: ProviderSettings, known: Provider | None) -> Key:
    """A server of one's own may want no key; a public one always does."""
    if known is None or known.local or own.base_url:
        return _NO_KEY
    raise ModelNotConfigured(
        f"{provider}/{model} needs a key of {known.label}, and there is none.",
        hint=f"export {known.keys[0]}=...   (or: homebody models auth add {provider})",
    )


def _discovered(found: Found) -> ResolvedModel:
    return ResolvedModel(
        provider=found.provider,
        model=found.model,
        label=PROVIDERS[found.provider].label,
        api=PROVIDERS[found.provider].api,
        base_url=found.base_url,
        facts=found.facts,
    )
