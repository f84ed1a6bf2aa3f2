"""Registry of language models: resolves names, builds models once, and closes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from agent.errors import AgentError
from agent.models.catalog.prices import ESTIMATE, FREE, Price, PriceList, read_prices
from agent.models.catalog.provider_keys import NO_SECRET, Key, KeySource, keys_of, no_profiles
from agent.models.middleware.key_health import KeyHealth
from agent.models.notebook import NAME as NOTEBOOK
from agent.models.protocol import Model
from agent.settings import AgentSettings, ModelChoice, ModelsSettings
from agent.timing import Clock
from gateway.base.paths import Paths
from gateway.budget.budget_guard import BudgetGuard
from gateway.budget.budgeted_calls import within_budget
from gateway.models.facts_cache import FILE_NAME as LEARNT_FILE
from gateway.models.facts_cache import KEY_HEALTH_NAME as HEALTH_FILE
from gateway.models.facts_cache import KeyHealthFile, ModelFactsCache
from gateway.models.key_profiles import Profiles
from gateway.settings.auth_settings import AuthSettings
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from agent.models.catalog.model_listing import ListedModel
    from agent.models.catalog.model_names import ModelNames
    from agent.models.catalog.model_selection import ResolvedModel
    from gateway.models.model_stack import StackParts

log = logging.getLogger(__name__)

_ANY_KEY = Key("any key", "none needed", NO_SECRET)
"""Placeholder where no key is sent."""
LOOK_AGAIN_SECONDS = 30.0
"""Seconds between searches for a local server while no model is configured."""


class _WithFallbacks(Struct, frozen=True):
    """A first choice with its fallbacks, and the keys that there were when it was built."""

    model: Model
    keys: object


class ModelRegistry:
    """Finds models by name.

    ``profiles``: saved keys. ``health``: cooldowns of keys. ``learnt``: limits learned from calls.
    """

    def __init__(
        self,
        settings: ModelsSettings,
        env: Mapping[str, str],
        *,
        clock: Clock,
        random: Random,
        profiles: Profiles | None = None,
        health: KeyHealth | None = None,
        learnt: ModelFactsCache | None = None,
    ) -> None:
        self.learnt = learnt or ModelFactsCache()
        self._settings = settings
        self._env = env
        self._clock = clock
        self._random = random
        self._profiles = profiles
        self.health = health or KeyHealth(clock)
        self._models: dict[tuple[str, str], Model] = {}
        self._put: dict[str, Model] = {}
        self._retired: list[Model] = []
        self._list = price_list(settings)
        self._prices: dict[str, Price] = {}
        self._with_failover: dict[tuple[str, ModelChoice], _WithFallbacks] = {}
        self._by_default: dict[str, tuple[Model, float]] = {}
        self._chosen: dict[tuple[str, str, str | None], tuple[AgentSettings, Model]] = {}
        """What was found lately, by the owner of its keys, agent and name, and the agent's settings then."""

    @property
    def profiles(self) -> Profiles | None:
        """The saved keys."""
        return self._profiles

    def of(self, agent: str) -> AgentModels:
        """Return the models with one agent's keys."""
        return AgentModels(self, agent)

    async def get(
        self,
        name: str | None,
        agent: AgentSettings,
        agent_id: str = "",
        *,
        budget: tuple[BudgetGuard, str] | None = None,
    ) -> Model:
        """Return the model of that name, or without one the agent's own with its fallbacks, or what the environment offers.

        ``budget`` is a budget guard and the key of the session that the model is for.

        Raises:
            AgentError: no model answers to the name, or it lacks a key or an address.
        """
        owner = self._owner(agent_id)
        wanted = (owner, agent_id, name)
        known = self._chosen.get(wanted)
        model = known[1] if known is not None and known[0] is agent else await self._choose(name, agent, wanted)
        return within_budget(model, budget)

    async def _choose(self, name: str | None, agent: AgentSettings, wanted: tuple[str, str, str | None]) -> Model:
        """Find a model by its name, or the agent's own; one that is named stays the same until settings or keys change."""
        owner, agent_id, _ = wanted
        names = self.names(agent, agent_id)
        if name is None and isinstance(agent.model, ModelChoice):
            fallbacks = tuple(names.full(one) for one in agent.model.fallbacks)
            return self._with_fallbacks(ModelChoice(primary=names.full(agent.model.primary), fallbacks=fallbacks), owner)
        named = name if name is not None else agent.model
        if not isinstance(named, str):
            return await self._default(owner)
        model = self._named(names.full(named), owner)
        self._chosen[wanted] = agent, model
        return model

    def public_key(self, provider: str, agent_id: str = "") -> str | None:
        """Return an agent's first key for a provider that is asked at its public address; None without one, or for another address."""
        from agent.models.catalog.known_models import PROVIDERS

        own, known = self._settings.providers.get(provider), PROVIDERS[provider]
        if (own is not None and own.base_url is not None) or self._env.get(known.address):
            return None
        keys = keys_of(provider, self._settings, self._env, self.key_source(self._owner(agent_id)))
        return next((key.secret for key in keys if key.is_sendable), None)

    def names(self, agent: AgentSettings, agent_id: str = "") -> ModelNames:
        """Return the accepted names of models."""
        from agent.models.catalog.model_names import ModelNames

        return ModelNames(agent, self._settings, self._env, self._put, self.key_source(self._owner(agent_id)))

    async def offers(self, also: Sequence[str] = (), agent_id: str = "") -> tuple[ListedModel, ...]:
        """Return the models worth naming and ``also`` others, with what is known of each; servers on this machine are looked for."""
        from agent.models.catalog.discovery import find_local, served
        from agent.models.catalog.model_listing import offers

        key_source = self.key_source(self._owner(agent_id))
        here, own = await asyncio.gather(find_local(self._env), served(self._settings, self._env, key_source))
        named = [f"{provider}/{name}" for provider, names in own.items() for name in names]
        return offers(
            self._settings, self._env, here, key_source, (*also, *named), prices=self._list, learnt=self.learnt.limits
        )

    @property
    def prices(self) -> PriceList:
        """The published prices, with those of the owner's file."""
        return self._list

    def price(self, name: str) -> Price:
        """Return a model's price: the owner's settings first, then what is published, then an estimate."""
        if name not in self._prices:
            self._prices[name] = self._price_of(name)
        return self._prices[name]

    def _price_of(self, name: str) -> Price:
        from agent.models.catalog.model_selection import find

        try:
            place = find(name, self._settings, self._env, lambda _provider: (_ANY_KEY,))
        except AgentError:
            return FREE if name in self._put else ESTIMATE
        if place is None:
            return FREE
        return self._priced(place).facts.price or self._list.estimate(place.provider, place.base_url)

    def _priced(self, place: ResolvedModel) -> ResolvedModel:
        """Put the price of the owner's file to a place of which the settings say none."""
        from agent.models.catalog.model_selection import priced

        return priced(place, self._settings, self._list)

    def adopt(self, settings: ModelsSettings, auth: AuthSettings | None = None) -> None:
        """Use new settings. Models in use are kept until the registry is closed."""
        self._settings = settings
        if self._profiles is not None and auth is not None:
            self._profiles.settings = auth
        self._retired += [*self._models.values(), *(model for model, _ in self._by_default.values())]
        self._models.clear()
        self._list = price_list(settings)
        self._prices.clear()
        self._with_failover.clear()
        self._by_default.clear()
        self._chosen.clear()

    def put(self, name: str, model: Model) -> None:
        """Register a model under a name (for tests)."""
        self._put[name] = model
        self._chosen.clear()

    async def close(self) -> None:
        """Release every model's connections."""
        for model in (
            *self._put.values(),
            *self._models.values(),
            *self._retired,
            *(one for one, _ in self._by_default.values()),
        ):
            await model.close()

    def _named(self, name: str, owner: str) -> Model:
        from agent.models.catalog.model_selection import find

        if name in self._put:
            return self._put[name]
        if (owner, name) not in self._models:
            place = find(name, self._settings, self._env, self.key_source(owner))
            self._models[owner, name] = _notebook(chosen=True) if place is None else self._made(place, owner)
        return self._models[owner, name]

    def _with_fallbacks(self, choice: ModelChoice, owner: str) -> Model:
        """Put the fallbacks behind the first choice; one that cannot be used as configured is left out, with a line in the log.

        The list is built anew when keys were added or removed: a model that was left out for want of a key is tried again then.
        """
        from gateway.models.model_stack import build_model

        keys = self._profiles.stamp(owner) if self._profiles else None
        built = self._with_failover.get((owner, choice))
        if built is None or built.keys != keys:
            models = [self._named(choice.primary, owner)]
            for name in choice.fallbacks:
                try:
                    models.append(self._named(name, owner))
                except AgentError as error:
                    log.warning("the fallback %s is not used: %s %s", name, error, error.hint)
            built = _WithFallbacks(build_model(models, self._parts(owner), fails_over=True), keys)
            self._with_failover[owner, choice] = built
        return built.model

    async def _default(self, owner: str) -> Model:
        from agent.models.catalog.discovery import find_local
        from agent.models.catalog.model_selection import resolve_model

        now = self._clock.monotonic()
        if owner in self._by_default:
            model, since = self._by_default[owner]
            if model.name != NOTEBOOK or now - since < LOOK_AGAIN_SECONDS:
                return model
        place = await resolve_model(None, self._settings, self._env, discover=find_local, key_source=self.key_source(owner))
        self._by_default[owner] = (_notebook() if place is None else self._made(place, owner), now)
        return self._by_default[owner][0]

    def _made(self, place: ResolvedModel, owner: str) -> Model:
        from agent.models.catalog.model_listing import limits_of
        from gateway.models.model_stack import build_model

        place = self._priced(place)
        window, max_output = limits_of(place, self.learnt.limits)
        place = replace(place, facts=replace(place.facts, window=window, max_output=max_output))
        return build_model((place,), self._parts(owner))

    def _parts(self, owner: str) -> StackParts:
        from gateway.models.model_stack import StackParts

        def keys(place: ResolvedModel) -> tuple[Key, ...]:
            found = keys_of(place.provider, self._settings, self._env, self.key_source(owner)) or place.keys
            return tuple(key for key in found if key.is_sendable) or found

        async def answered(place: ResolvedModel, model: Model) -> None:
            if place.facts.assumed:
                await self.learnt.record(place.name, model.window, model.max_output)

        return StackParts(
            clock=self._clock,
            random=self._random,
            health=self.health,
            keys=keys,
            keeps_order=lambda provider: self._profiles is None or self._profiles.ordered(provider),
            answered=answered,
        )

    def key_source(self, owner: str) -> KeySource:
        """Return what finds an agent's own keys of a provider, in the files as they are now."""
        return no_profiles if self._profiles is None else self._profiles.key_source(owner)

    def _owner(self, agent_id: str) -> str:
        """Agents without keys of their own share models and connections."""
        own = self._profiles is not None and bool(agent_id) and self._profiles.file(agent_id).profiles()
        return agent_id if own else ""


def price_list(settings: ModelsSettings) -> PriceList:
    """The prices of the owner's file, then the built-in ones. An invalid file is logged and ignored."""
    if settings.prices_file is None:
        return PriceList()
    try:
        found = read_prices(Path(settings.prices_file).expanduser())
    except AgentError as error:
        log.warning("models.pricesFile is ignored: %s %s", error, error.hint)
        return PriceList()
    if found.unread:
        log.warning("no price can be read in %s of: %s", settings.prices_file, ", ".join(found.unread[:20]))
    return found


def open_registry(
    settings: Settings,
    paths: Paths,
    env: Mapping[str, str],
    *,
    clock: Clock,
    random: Random,
    learn: Callable[[Iterable[str]], None] = lambda _: None,
) -> ModelRegistry:
    """Return the registry with saved keys and their cooldowns.

    ``learn`` is called with every saved key before it is used.
    """
    profiles = Profiles(paths, settings.auth, learn=learn)
    health = KeyHealth(clock, KeyHealthFile(paths.state / HEALTH_FILE), rests=lambda: profiles.settings.cooldowns.rests)
    learnt = ModelFactsCache(paths.state / LEARNT_FILE)
    return ModelRegistry(settings.models, env, clock=clock, random=random, profiles=profiles, health=health, learnt=learnt)


class AgentModels:
    """The registry for one agent, whose own keys come first."""

    def __init__(self, model_registry: ModelRegistry, agent_id: str) -> None:
        self._shelf = model_registry
        self._agent_id = agent_id
        self.learnt = model_registry.learnt
        """Limits learned from calls."""
        self.get = partial(model_registry.get, agent_id=agent_id)
        """See ``ModelRegistry.get``."""

    def names(self, agent: AgentSettings) -> ModelNames:
        """See ``ModelRegistry.names``."""
        return self._shelf.names(agent, self._agent_id)

    async def offers(self, also: Sequence[str] = ()) -> tuple[ListedModel, ...]:
        """See ``ModelRegistry.offers``."""
        return await self._shelf.offers(also, self._agent_id)


def _notebook(*, chosen: bool = False) -> Model:
    """Return the notebook, whose many patterns are loaded only where it is the model."""
    from agent.models.notebook.notebook_model import NotebookModel

    return NotebookModel(chosen=chosen)
