"""Effective settings: resolve a key, show its value and where that comes from, parse a typed value, compare two settings."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import Struct
from pydantic import BaseModel

from gateway.base.errors import SettingsError, UsageError
from gateway.config.document import AGENT_SHORTHAND
from gateway.config.load import Loaded
from gateway.config.normalize import FieldType, suggest_key
from gateway.config.secrets import masked
from gateway.config.syntax_tree import KeyPath, Node, dotted_key, parse_key
from gateway.settings.root import MAIN, AgentEntry, Settings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

ROOT = FieldType((Settings,))
_DEFAULTS: KeyPath = ("agents", "defaults")
_LIST: KeyPath = ("agents", "list")


class EffectiveValue(Struct, frozen=True):
    """The effective value of one setting.

    ``origin`` is "file", "agents.defaults" (an agent inherits it) or "default"; ``reload`` is "hot" or "restart".
    """

    path: KeyPath
    value: Any
    origin: str
    reload: str

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON value."""
        return {"path": dotted_key(self.path), "value": self.value, "origin": self.origin, "reload": self.reload}


def resolve_key(text: str) -> tuple[KeyPath, str]:
    """Return the path of a typed key, and a hint when there is no such key (otherwise an empty string).

    ``agent.x`` means ``agents.defaults.x`` and ``list.0`` means ``list[0]``. Raises UsageError for text that is not a key.
    """
    try:
        typed = parse_key(text)
    except ValueError as error:
        raise UsageError(str(error), hint="Write it like agents.defaults.model or agents.list[0].id.") from error
    if typed[0] == AGENT_SHORTHAND:
        typed = (*_DEFAULTS, *typed[1:])
    path: KeyPath = ()
    here: FieldType | None = ROOT
    for step in typed:
        if isinstance(step, str) and step.isdigit() and here and here.under(step) is None and here.under(int(step)):
            step = int(step)  # noqa: PLW2901 -- ``list.0``: digits are an index in a list
        if here is not None and (below := here.under(step)) is None and here.models and not here.open:
            near = suggest_key(str(step), path, list(here.keys()), Settings)
            known = f"Known here: {', '.join(sorted(here.keys()))}. `homebody config page` describes each."
            return (*path, *typed[len(path) :]), f"Did you mean {near}?" if near else known
        here = below if here is not None else None
        path = (*path, step)
    return path, ""


def path_in_file(written: Mapping[str, Any], path: KeyPath) -> KeyPath:
    """Return the path of a setting as the file writes it: below ``agent`` if the file uses that shorthand."""
    short = written.get(AGENT_SHORTHAND)
    if path[:2] != _DEFAULTS or not isinstance(short, Mapping) or len(path) == len(_DEFAULTS):
        return path
    agents = written.get("agents")
    spelled_out = isinstance(agents, Mapping) and isinstance(agents.get("defaults"), Mapping)
    return path if spelled_out and path[2] not in short else (AGENT_SHORTHAND, *path[2:])


def effective_values(loaded: Loaded, path: KeyPath = ()) -> Iterator[EffectiveValue]:
    """Yield the effective values at ``path`` and below, secrets masked; nothing for a known key without a value."""
    here: Any = effective_settings(loaded.settings)
    for step in path:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return
    for leaf, value in _leaves(path, here):
        yield EffectiveValue(leaf, value, _origin(loaded.given, leaf), reload_mode(leaf))


def effective_settings(settings: Settings) -> dict[str, Any]:
    """Return all settings as plain values, secrets masked, each agent's entry merged with the defaults."""
    values: dict[str, Any] = masked(settings)
    values["agents"]["list"] = [
        {"id": entry.id, "name": entry.name, "default": entry.default} | masked(settings.agent(entry.id).settings)
        for entry in settings.agents.list
    ]
    return values


def reload_mode(path: KeyPath) -> str:
    """Return "hot" or "restart", whichever a change of this key needs; declared on the key or the nearest section above."""
    here: FieldType | None = ROOT
    found = "restart"
    for step in path:
        here = here.under(step) if here else None
        found = (declared_reload_mode(here.field) if here and here.field else None) or found
    return found


def declared_reload_mode(field: FieldInfo) -> str | None:
    """Return the reload mode that a field declares itself: "hot", "restart" or None."""
    extra = field.json_schema_extra
    return str(extra["reload"]) if isinstance(extra, dict) and extra.get("reload") in {"hot", "restart"} else None


def parse_value(text: str, path: KeyPath) -> Any:
    """Return the value typed for a key: the text itself where only text is allowed, otherwise parsed as YAML.

    None is returned for ``null`` alone, and only where it is a value.

    Raises:
        UsageError: there is no value, or it is none where only numbers are allowed.
    """
    types = ROOT.at(path) or FieldType(())
    if types.only_text:
        return text
    from gateway.config.yaml_format import read_yaml  # not at the top: the gateway imports this module, and may need no YAML

    try:
        node = read_yaml(text, "")
    except SettingsError:
        return text
    if node is not None and node.value is not None:
        try:
            return _typed(node, types, text)
        except UsageError as wrong:
            hint = "A port is a number from 1 to 65535, such as 18790." if path[-1] == "port" else wrong.hint
            raise UsageError(wrong.message, where=dotted_key(path), hint=hint) from None
    if node is not None and takes_null(types):
        return None
    if types.text:
        return text
    raise UsageError(
        f"{dotted_key(path)} would have no value", hint=f"To use the default: homebody config unset {dotted_key(path)}"
    )


def takes_null(types: FieldType) -> bool:
    """Return whether ``null`` is written as a value: where it may stand and is no text, such as for a budget without a limit."""
    return type(None) in types.kinds and not types.text


_PLAIN: Final = {True: re.compile(r"-?[0-9]{1,18}"), False: re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")}
"""A number as it is written in a file: a whole one, and any."""


def _check_number(value: Any, types: FieldType, text: str) -> None:
    """Raise UsageError where only numbers are allowed and this is a text that would pass as one: ``true``, ``+3``, ``'7'``."""
    if not types.only_number or not isinstance(value, bool | str) or (isinstance(value, str) and "${" in value):
        return
    whole = float not in types.kinds
    meant = _PLAIN[whole].fullmatch(unicodedata.normalize("NFKC", text).replace("_", "").strip("+'\""))
    raise UsageError(
        f"{json.dumps(text, ensure_ascii=False)[:60]} is not allowed here; allowed: {'a whole number' if whole else 'a number'}",
        hint=f"Write it as {meant[0]}." if meant else "Write it as 5." if whole else "Write it as 5 or 0.5.",
    )


def _typed(node: Node, types: FieldType, text: str) -> Any:
    """Return the values of a node; a number or word becomes text, as typed, where text is allowed."""
    if isinstance(node.value, dict):
        return {key: _typed(child, types.under(key) or FieldType(()), text) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [_typed(child, types.under(index) or FieldType(()), text) for index, child in enumerate(node.value)]
    _check_number(node.value, types, text[node.start : node.end] or text)
    if types.only_number and float not in types.kinds and isinstance(node.value, float) and node.value.is_integer():
        return int(node.value)  # 1e3
    return text[node.start : node.end] if types.text and not isinstance(node.value, str) else node.value


def _leaves(path: KeyPath, value: Any) -> Iterator[tuple[KeyPath, Any]]:
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _leaves((*path, key), child)
    elif isinstance(value, list) and any(isinstance(child, dict | list) for child in value):
        for index, child in enumerate(value):
            yield from _leaves((*path, index), child)
    else:
        yield path, value


def _origin(given: Mapping[str, Any], path: KeyPath) -> str:
    if _says(given, path):
        return "file"
    inherited = path[: len(_LIST)] == _LIST and len(path) > len(_LIST) + 1 and _says(given, (*_DEFAULTS, *path[3:]))
    return "agents.defaults" if inherited else "default"


def _says(given: Any, path: KeyPath) -> bool:
    here = given
    for step in path:
        known = isinstance(here, Mapping) and step in here
        if not known and not (isinstance(here, list) and step in range(len(here))):
            return False
        here = here[step]
    return here is not None or takes_null(ROOT.at(path) or FieldType(()))


_AGENTS: KeyPath = ("agents", "list")
M = TypeVar("M", bound=BaseModel)


class Difference(Struct, frozen=True):
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
