"""The language models in use: each made once, and closed with the house."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.models.choice import choose
from agent.models.discovery import find_local
from agent.models.offline import OfflineModel
from agent.models.patience import Patient
from agent.settings import ModelChoice

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from agent.clock import Clock
    from agent.models.protocol import Model
    from agent.models.settings import ModelsSettings
    from agent.settings import AgentSettings

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
        self._by_default: tuple[Model, float] | None = None

    async def get(self, name: str | None, agent: AgentSettings) -> Model:
        """Return the model of that name, or without one the agent's own, or the one that the environment offers.

        Raises:
            AgentError: no model answers to the name, or it lacks a key or an address.
        """
        configured = agent.model.primary if isinstance(agent.model, ModelChoice) else agent.model
        wanted = name or configured
        if wanted is None:
            return await self._default()
        if wanted not in self._models:
            self._models[wanted] = self._patient(await choose(wanted, self._settings, self._env))
        return self._models[wanted]

    def put(self, name: str, model: Model) -> None:
        """Put a model there under a name (for tests and for trying the house out)."""
        self._models[name] = model

    async def close(self) -> None:
        """Release every model's connections."""
        models = [*self._models.values(), *([self._by_default[0]] if self._by_default else [])]
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
