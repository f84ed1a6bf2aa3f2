"""What a change of the settings comes to: which keys may hold at once, which wait for a restart, and what is in force then."""

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
    """``settings`` are those that hold now: the wanted ones, but for keys that wait for a restart."""

    settings: Settings
    taken: tuple[str, ...]
    waiting: tuple[str, ...]


def compare(present: Settings, wanted: Settings) -> Difference:
    """Tell what of ``wanted`` a house that runs on ``present`` takes over. Agents are told apart by their ids."""
    comparing = _Comparing()
    settings = comparing.section(present, wanted, ())
    return Difference(settings.of_profile(present.profile), tuple(comparing.taken), tuple(comparing.waiting))


def alike(one: Any, two: Any) -> bool:
    """Say whether two values are the same, also in what was said and what is only default."""
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
        """Merge two sections: hot keys as wanted, others as they are. Whether a key was said goes with its value.

        ``above`` is what the nearest section above declares, for keys that declare nothing themselves.
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
        """Merge the lists of agents. Which agents there are, and in which order, holds at once."""
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
