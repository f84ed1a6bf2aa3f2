"""Resolves the names that people use for models: aliases, ids, or an unambiguous part of one.

Also which models may be chosen at all: where the owner lists some (``agents.defaults.models``), only those, and what the agent
is configured to use anyway.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from agent.errors import ModelNotConfigured, UnknownModel
from agent.models.catalog.model_selection import ALIASES, find, is_left_out, known_names
from agent.models.catalog.provider_keys import KeySource, no_profiles
from agent.models.notebook import NAME as OFFLINE
from agent.settings import AgentSettings, ModelChoice, ModelsSettings

_MOST = 8
"""How many names are listed where several fit."""


class ModelNames:
    """The names of one agent's models. ``ready`` are models that are there whatever the settings say."""

    def __init__(
        self,
        agent: AgentSettings,
        models: ModelsSettings,
        env: Mapping[str, str],
        ready: Collection[str] = (),
        key_source: KeySource = no_profiles,
    ) -> None:
        self._key_source = key_source
        self._ready = tuple(ready)
        self._agent = agent
        self._models = models
        self._env = env

    def full(self, name: str) -> str:
        """Return the model behind one of the owner's short names; any other name as it is. Nothing is checked."""
        wanted = name.strip()
        own = {entry.alias.casefold(): ref for ref, entry in self._agent.models.items() if entry.alias}
        return own.get(wanted.casefold(), wanted)

    def alias(self, ref: str) -> str:
        """Return the short name of a model, the owner's first; an empty text where it has none."""
        entry = self._agent.models.get(ref)
        if entry is not None and entry.alias:
            return entry.alias
        return next((name for name, full in ALIASES.items() if full == ref), "")

    def resolve(self, wanted: str) -> str:
        """Return the ``provider/model`` that a person means.

        Raises:
            UnknownModel: nothing answers to the name, or several models do; the message lists them.
            ModelNotConfigured: the model may not be chosen, or lacks a key or an address.
        """
        ref = self._resolved(self.full(wanted))
        if any(letter.isspace() for letter in ref):
            raise UnknownModel(f"No model answers to {wanted!r}.", hint="Say its name alone. /models lists them all.")
        full = ref if ref in self._ready else self._found(ref)
        if not self.may_choose(full):
            raise ModelNotConfigured(
                f"{full} is not among the models that may be chosen here.",
                hint=f"There is: {', '.join(self.offered()[:_MOST])}. More: homebody config set 'agents.defaults.models' ...",
            )
        return full

    def _found(self, ref: str) -> str:
        place = find(ref, self._models, self._env, self._key_source)
        return OFFLINE if place is None else place.name

    def is_left_out(self, ref: str) -> bool:
        """Whether the settings list a provider's models without this one, a full name."""
        return ref not in self._ready and ref not in self._own() and is_left_out(ref, self._models)

    def may_choose(self, ref: str) -> bool:
        """Whether the owner lets people choose a model."""
        allowed = self._agent.models
        return not allowed or ref in self._own() or any(fnmatchcase(ref, pattern) for pattern in allowed)

    def offered(self) -> tuple[str, ...]:
        """Return the names worth offering, those of the agent's own settings first."""
        listed = (
            *self._own(),
            *self._ready,
            *(ref for ref in self._agent.models if "*" not in ref),
            *known_names(self._models),
        )
        return tuple(ref for ref in dict.fromkeys(listed) if self.may_choose(ref))

    def _own(self) -> tuple[str, ...]:
        """What the agent is configured to use."""
        model = self._agent.model
        if model is None:
            return ()
        names = (model.primary, *model.fallbacks) if isinstance(model, ModelChoice) else (model,)
        return tuple(ALIASES.get((full := self.full(name)).casefold(), full) for name in names)

    def _resolved(self, wanted: str) -> str:
        """Find the one model whose name holds what is wanted. What none holds is taken as it is: ids that we never heard of exist."""
        offered = self.offered()
        folded = _folded(wanted)
        exact = next((ref for ref in offered if ref.casefold() == wanted.casefold()), None)
        if exact is not None or wanted.casefold() in ALIASES or not folded:
            return exact or wanted
        bare = [ref for ref in offered if _folded(ref.partition("/")[2]) == folded]
        near = bare or [ref for ref in offered if folded in _folded(ref) or folded in _folded(self.alias(ref))]
        if len(near) > 1:
            raise UnknownModel(
                f"Several models answer to {wanted!r}: {', '.join(near[:_MOST])}{' …' if len(near) > _MOST else ''}.",
                hint="Say a little more of the name. /models lists them all.",
                nearest=tuple(near),
            )
        return near[0] if near else wanted


def _folded(name: str) -> str:
    """A name without what people leave out: capitals, blanks, dots, dashes, slashes."""
    return re.sub(r"[^a-z0-9:]+", "", name.casefold())
