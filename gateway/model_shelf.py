"""The language models in use: each made once, and closed with the house."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from agent.errors import AgentError
from agent.models.choice import choose, find
from agent.models.discovery import find_local
from agent.models.offline import OfflineModel
from agent.models.patience import Patient
from agent.models.standby import Standby
from agent.settings import ModelChoice

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from agent.clock import Clock
    from agent.models.catalog import Price
    from agent.models.protocol import Model
    from agent.models.settings import ModelsSettings
    from agent.settings import AgentSettings

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS = 30.0
"""While no model is configured, a local server that was started meanwhile is found this soon."""


class ModelShelf:
    """Finds models by name."""

    def __init__(self, settings: ModelsSettings, env: Mapping[str, str], *, clock: Clock, random: Random) -> None:
        self._settings = settings
        self._env = env
        self._clock = clock
        self._random = random
        self._models: dict[str, Model] = {}
        self._put: set[str] = set()
        self._retired: list[Model] = []
        self._standby: dict[ModelChoice, Model] = {}
        self._by_default: tuple[Model, float] | None = None

    async def get(self, name: str | None, agent: AgentSettings) -> Model:
        """Return the model of that name, or without one the agent's own with those that stand by, or what the environment offers.

        Raises:
            AgentError: no model answers to the name, or it lacks a key or an address.
        """
        if name is not None:
            return await self._named(name)
        if isinstance(agent.model, ModelChoice):
            return await self._with_fallbacks(agent.model)
        return await self._default() if agent.model is None else await self._named(agent.model)

    async def _named(self, name: str) -> Model:
        if name not in self._models:
            self._models[name] = self._patient(await choose(name, self._settings, self._env))
        return self._models[name]

    async def _with_fallbacks(self, choice: ModelChoice) -> Model:
        """Put the fallbacks behind the first choice; one that cannot be used as configured is left out and told in the log."""
        if choice not in self._standby:
            models = [await self._named(choice.primary)]
            for name in choice.fallbacks:
                try:
                    models.append(await self._named(name))
                except AgentError as error:
                    log.warning("the fallback %s is left out: %s %s", name, error, error.mend)
            self._standby[choice] = Standby(models, clock=self._clock)
        return self._standby[choice]

    def price(self, name: str) -> Price | None:
        """Return what is known of a model's price, the owner's settings first."""
        try:
            place = find(name, self._settings, self._env)
        except AgentError:
            return None
        return None if place is None else place.facts.price

    def adopt(self, settings: ModelsSettings) -> None:
        """Find models by other settings from now on. Those in use go on until the house closes."""
        self._settings = settings
        self._retired += [model for name, model in self._models.items() if name not in self._put]
        self._models = {name: model for name, model in self._models.items() if name in self._put}
        self._standby.clear()
        if self._by_default is not None:
            self._retired.append(self._by_default[0])
            self._by_default = None

    def put(self, name: str, model: Model) -> None:
        """Put a model there under a name (for tests and for trying the house out)."""
        self._models[name] = model
        self._put.add(name)

    async def close(self) -> None:
        """Release every model's connections."""
        models = [*self._models.values(), *self._retired, *([self._by_default[0]] if self._by_default else [])]
        for model in models:
            await model.close()

    async def _default(self) -> Model:
        now = self._clock.monotonic()
        if self._by_default is not None:
            model, since = self._by_default
            if not isinstance(model, OfflineModel) or now - since < LOOK_AGAIN_SECONDS:
                return model
        found = await choose(None, self._settings, self._env, discover=find_local)
        self._by_default = (self._patient(found), now)
        return self._by_default[0]

    def _patient(self, model: Model) -> Model:
        return model if isinstance(model, OfflineModel) else Patient(model, clock=self._clock, random=self._random)
