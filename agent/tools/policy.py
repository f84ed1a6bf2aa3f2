"""Tool policy: layers of allow and deny rules, each of which can only narrow the ones before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from agent.tool_settings import GROUPS, OTHER_NAMES, PROFILES, GlobalToolsSettings, ToolRules


class ToolPolicy(Struct, frozen=True):
    """The layers in force: global, defaults, agent, and conversation. Without any, everything is allowed."""

    layers: tuple[ToolRules, ...] = ()

    def allows(self, name: str) -> bool:
        """Say whether a tool may be used: every layer must leave it."""
        return all(_leaves(layer, name) for layer in self.layers)

    def narrowed(self, *further: ToolRules) -> ToolPolicy:
        """Return this policy with further layers."""
        return ToolPolicy((*self.layers, *further)) if further else self

    def under(self, model: str) -> ToolPolicy:
        """Return this policy with what its layers say of a model, given as ``provider/model``."""
        special = [
            rules
            for layer in self.layers
            if isinstance(layer, GlobalToolsSettings)
            for wanted, rules in layer.by_provider.items()
            if _is_meant(wanted, model)
        ]
        return self.narrowed(*special)


def named(name: str, patterns: Iterable[str]) -> bool:
    """Say whether patterns name a tool: itself, by ``*``, or by a group that it is in. Capitals do not matter."""
    return any(fnmatchcase(name.casefold(), one) for pattern in patterns for one in _spelled_out(pattern.casefold()))


def _leaves(rules: ToolRules, name: str) -> bool:
    in_profile = rules.profile is None or named(name, PROFILES[rules.profile])
    return in_profile and named(name, rules.allow) and not named(name, rules.deny)


def _spelled_out(pattern: str) -> Sequence[str]:
    return GROUPS.get(pattern, (OTHER_NAMES.get(pattern, pattern),))


def _is_meant(wanted: str, model: str) -> bool:
    provider = model.partition("/")[0]
    return fnmatchcase(model.casefold() if "/" in wanted else provider.casefold(), wanted.casefold())
