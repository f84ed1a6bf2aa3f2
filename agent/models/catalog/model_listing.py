"""Lists the models and providers that could be used (``/models``, ``homebody models list``). Keys are never shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict

from agent.errors import ModelNotConfigured, UnknownModel
from agent.models.catalog.discovery import Found, ollama_url
from agent.models.catalog.known_models import PROVIDERS
from agent.models.catalog.model_selection import ResolvedModel, described, find, key_origin, known_names, priced
from agent.models.catalog.prices import PriceList
from agent.models.catalog.provider_keys import KeySource, no_profiles
from agent.models.notebook import NAME as OFFLINE
from agent.settings import ModelsSettings

Origin = Literal["profile", "settings", "environment", "none needed", "missing"]


Limits: TypeAlias = Callable[[str], tuple[int, int] | None]
"""The window and the longest answer that a provider told of a model before; None where it has not."""


class ListedModel(Struct, frozen=True, kw_only=True):
    """A model that could be chosen. ``usable`` says that a key is there; window and price are what is known without asking.

    ``priced`` is the day of the price, where it comes from a list; ``thinks`` whether it thinks before it answers, as far as is known.
    """

    name: str
    title: str = ""
    usable: bool
    window: int
    max_output: int
    input_price: float | None
    output_price: float | None
    priced: str = ""
    images: bool = False
    thinks: bool = False

    def as_json(self) -> dict[str, Any]:
        """The same, for programs."""
        return {
            "name": self.name,
            "title": self.title or None,
            "usable": self.usable,
            "window": self.window,
            "maxOutput": self.max_output,
            "images": self.images,
            "thinks": self.thinks,
            "price": None
            if self.input_price is None
            else {"input": self.input_price, "output": self.output_price, "asOf": self.priced or None},
        }


class ProviderStatus(Struct, frozen=True, kw_only=True):
    """A provider, and whether there is a key for it. ``variable`` is the environment variable that would hold one."""

    provider: str
    label: str
    address: str
    key: Origin
    variable: str

    def as_json(self) -> dict[str, Any]:
        """The same, for programs."""
        return asdict(self)


def _nothing(_model: str) -> None:
    return None


def limits_of(place: ResolvedModel, learnt: Limits) -> tuple[int, int]:
    """Return the window and the longest answer of a model: what its provider told before goes before a guess."""
    known = learnt(place.name) if place.facts.assumed else None
    return known or (place.facts.window, place.facts.max_output)


def offers(
    settings: ModelsSettings,
    env: Mapping[str, str],
    here: Found | None = None,
    key_source: KeySource = no_profiles,
    also: Sequence[str] = (),
    *,
    prices: PriceList | None = None,
    learnt: Limits = _nothing,
) -> tuple[ListedModel, ...]:
    """Return the models worth naming: what runs on this machine, those of the settings, of the catalogue, and the notebook.

    ``prices`` count where the settings give a model none, and ``learnt`` where its window is a guess.
    """
    local = () if here is None else (_local(here),)
    named = dict.fromkeys((*also, *known_names(settings)))
    found = (
        _offered(name, settings, env, key_source, prices=prices, learnt=learnt)
        for name in named
        if not local or name != local[0].name
    )
    return local + tuple(offer for offer in found if offer is not None)


def standings(
    settings: ModelsSettings, env: Mapping[str, str], key_source: KeySource = no_profiles
) -> tuple[ProviderStatus, ...]:
    """Return every provider of the settings and, unless they replace them, of the catalogue."""
    known = tuple(PROVIDERS) if settings.mode == "merge" else ()
    return tuple(_standing(provider, settings, env, key_source) for provider in dict.fromkeys((*settings.providers, *known)))


def _local(here: Found) -> ListedModel:
    return ListedModel(
        name=f"{here.provider}/{here.model}",
        usable=True,
        window=here.facts.window,
        max_output=here.facts.max_output,
        input_price=0.0,
        output_price=0.0,
        images=here.facts.images,
    )


def _offered(
    name: str,
    settings: ModelsSettings,
    env: Mapping[str, str],
    key_source: KeySource,
    *,
    prices: PriceList | None,
    learnt: Limits,
) -> ListedModel | None:
    """What the owner's own settings name may be no model at all, or be of a provider without an address: its standing says so."""
    try:
        return _offer(name, settings, env, key_source, prices=prices, learnt=learnt)
    except (UnknownModel, ModelNotConfigured):
        return None


def _offer(
    name: str,
    settings: ModelsSettings,
    env: Mapping[str, str],
    key_source: KeySource,
    *,
    prices: PriceList | None,
    learnt: Limits,
) -> ListedModel:
    if name == OFFLINE:
        from agent.models.notebook.notebook_model import NotebookModel

        return ListedModel(
            name=name,
            usable=True,
            window=NotebookModel.window,
            max_output=NotebookModel.max_output,
            input_price=0.0,
            output_price=0.0,
        )
    usable = True
    try:
        place = find(name, settings, env, key_source)
    except ModelNotConfigured:
        usable = False
        place = find(name, settings, {**env, **{key: "-" for provider in PROVIDERS.values() for key in provider.keys}})
    assert place is not None
    price = (place if prices is None else priced(place, settings, prices)).facts.price
    own = described(settings, place.provider, place.model)
    window, max_output = limits_of(place, learnt)
    return ListedModel(
        name=name,
        title=own.name if own else "",
        usable=usable,
        window=window,
        max_output=max_output,
        input_price=price.input if price else None,
        output_price=price.output if price else None,
        priced=price.as_of if price else "",
        images=place.facts.images,
        thinks=bool(place.facts.thinks),
    )


def _standing(provider: str, settings: ModelsSettings, env: Mapping[str, str], key_source: KeySource) -> ProviderStatus:
    own, known = settings.providers.get(provider), PROVIDERS.get(provider)
    public = known.base_url if known else ""
    if provider == "ollama":
        public = ollama_url(env)
    return ProviderStatus(
        provider=provider,
        label=known.label if known else provider,
        address=(own.base_url if own else None) or (env.get(known.address, "") if known and not known.local else "") or public,
        key=key_origin(provider, settings, env, key_source),
        variable=known.keys[0] if known and known.keys else "",
    )
