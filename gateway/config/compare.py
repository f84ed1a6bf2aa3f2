"""Compare running and new settings: which changed keys apply immediately and which need a restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from gateway.config.effective import declared_reload_mode
from gateway.config.key import KeyPath, dotted_key
from gateway.settings.root import MAIN, AgentEntry, Settings

_AGENTS: KeyPath = ("agents", "list")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Difference:
    """``settings``: the new ones, except for keys that need a restart. ``taken``, ``waiting``: changed keys, applied and pending."""

    settings: Settings
    taken: tuple[str, ...]
    waiting: tuple[str, ...]


def compare(present: Settings, wanted: Settings) -> Difference:
    """Return the difference between running and new settings. Agents are matched by id."""
    comparing = _Comparing()
    settings = comparing.section(present, wanted, ())
    return Difference(settings.of_profile(present.profile), tuple(comparing.taken), tuple(comparing.waiting))


def alike(one: Any, two: Any) -> bool:
    """Whether two values are equal, including which fields were set and which are defaults."""
    if isinstance(one, BaseModel) and type(one) is type(two):
        names = type(one).model_fields
        same_said = one.model_fields_set == two.model_fields_set
        return same_said and all(alike(getattr(one, name), getattr(two, name)) for name in names)
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return one.keys() == two.keys() and all(alike(value, two[key]) for key, value in one.items())
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(alike, one, two))
    return bool(one == two)


@dataclass
class _Comparing:
    taken: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)

    def section(self, present: M, wanted: M, path: KeyPath, above: str = "restart") -> M:
        """Merge two sections: hot keys from ``wanted``, others from ``present``, together with whether the key was set.

        ``above`` is the reload mode of the enclosing section, for keys that declare none.
        """
        values: dict[str, Any] = {}
        said: set[str] = set()
        for name, info in type(wanted).model_fields.items():
            here = (*path, info.alias or name)
            before, after = getattr(present, name), getattr(wanted, name)
            holds: tuple[M, ...] = (wanted, present)
            declared = declared_reload_mode(info) or above
            if here == _AGENTS:
                values[name] = self.agents(before, after, declared)
            elif isinstance(before, BaseModel) and type(before) is type(after):
                values[name] = self.section(before, after, here, declared)
            elif declared == "hot":
                values[name], holds = after, (wanted,)
                self._note(self.taken, before, after, here)
            else:
                values[name], holds = before, (present,)
                self._note(self.waiting, before, after, here)
            if any(name in model.model_fields_set for model in holds):
                said.add(name)
        return type(wanted).model_construct(_fields_set=said, **values)

    def agents(self, before: Sequence[AgentEntry], after: Sequence[AgentEntry], above: str) -> tuple[AgentEntry, ...]:
        """Merge the lists of agents. Added, removed and reordered agents apply immediately."""
        old, new = _by_id(before), _by_id(after)
        if list(old) != list(new):
            self.taken.append(dotted_key(_AGENTS))
        return tuple(
            self.section(old[agent], entry, (*_AGENTS, index), above) if agent in old else entry
            for index, (agent, entry) in enumerate(new.items())
        )

    def _note(self, where: list[str], before: Any, after: Any, path: KeyPath) -> None:
        if before != after:
            where.append(dotted_key(path))


def _by_id(entries: Sequence[AgentEntry]) -> dict[str, AgentEntry]:
    return {entry.id: entry for entry in entries or (AgentEntry(id=MAIN),)}
