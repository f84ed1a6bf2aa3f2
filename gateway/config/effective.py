"""What the command line asks of the settings: what a key's name means, what is in force there, and what a typed value means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.base.errors import SettingsError, UsageError
from gateway.config.document import AGENT_SHORTHAND
from gateway.config.field_types import FieldType
from gateway.config.key import KeyPath, dotted_key, parse_key
from gateway.config.normalize import suggest_key
from gateway.config.secrets import masked
from gateway.config.yaml_format import read_yaml
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from gateway.config.load import Loaded
    from gateway.config.syntax_tree import Node

ROOT = FieldType((Settings,))
_DEFAULTS: KeyPath = ("agents", "defaults")
_LIST: KeyPath = ("agents", "list")


@dataclass(frozen=True, slots=True)
class EffectiveValue:
    """One setting as it is in force. ``origin`` is "file", "agents.defaults" (taken over from there) or "default"."""

    path: KeyPath
    value: Any
    origin: str
    reload: str

    def as_json(self) -> dict[str, Any]:
        """The same, for programs."""
        return {"path": dotted_key(self.path), "value": self.value, "origin": self.origin, "reload": self.reload}


def resolve_key(text: str) -> tuple[KeyPath, str]:
    """Return the path that a typed name means, and a complaint when no such key exists (or an empty string).

    ``agent.x`` means ``agents.defaults.x`` and ``list.0`` means ``list[0]``. Raises UsageError for what is no name at all.
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
            step = int(step)  # noqa: PLW2901 -- what was typed as a name is an index here
        if here is not None and (below := here.under(step)) is None and here.models and not here.open:
            near = suggest_key(str(step), path, list(here.keys()), Settings)
            known = f"Known here: {', '.join(sorted(here.keys()))}."
            return (*path, *typed[len(path) :]), f"Did you mean {near}?" if near else known
        here = below if here is not None else None
        path = (*path, step)
    return path, ""


def path_in_file(written: Mapping[str, Any], path: KeyPath) -> KeyPath:
    """Return the path under which a file says (or should say) a setting: under ``agent`` where it uses that shorthand."""
    short = written.get(AGENT_SHORTHAND)
    if path[:2] != _DEFAULTS or not isinstance(short, Mapping) or len(path) == len(_DEFAULTS):
        return path
    agents = written.get("agents")
    spelled_out = isinstance(agents, Mapping) and isinstance(agents.get("defaults"), Mapping)
    return path if spelled_out and path[2] not in short else (AGENT_SHORTHAND, *path[2:])


def effective_values(loaded: Loaded, path: KeyPath = ()) -> Iterator[EffectiveValue]:
    """Yield what is in force at ``path`` and below, secrets masked. Nothing at all: the key is known and not set."""
    here: Any = effective_settings(loaded.settings)
    for step in path:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return
    for leaf, value in _leaves(path, here):
        yield EffectiveValue(leaf, value, _origin(loaded.given, leaf), reload_mode(leaf))


def effective_settings(settings: Settings) -> dict[str, Any]:
    """Return all settings as plain values, secrets masked, each agent's entry laid over the defaults."""
    values: dict[str, Any] = masked(settings)
    values["agents"]["list"] = [
        {"id": entry.id, "name": entry.name, "default": entry.default} | masked(settings.agent(entry.id).settings)
        for entry in settings.agents.list
    ]
    return values


def reload_mode(path: KeyPath) -> str:
    """Return "hot" or "restart": what a change of this key takes, as declared by the key or the nearest section above."""
    here: FieldType | None = ROOT
    found = "restart"
    for step in path:
        here = here.under(step) if here else None
        found = (declared_reload_mode(here.field) if here and here.field else None) or found
    return found


def declared_reload_mode(field: FieldInfo) -> str | None:
    """Return what a key declares of itself: "hot", "restart" or nothing."""
    extra = field.json_schema_extra
    return str(extra["reload"]) if isinstance(extra, dict) and extra.get("reload") in {"hot", "restart"} else None


def parse_value(text: str, path: KeyPath) -> Any:
    """Return the value that was typed for a key: as it stands where text is wanted, else read as YAML."""
    shape = ROOT.at(path) or FieldType(())
    if shape.only_text:
        return text
    try:
        node = read_yaml(text, "")
    except SettingsError:
        return text
    return None if node is None and not shape.text else text if node is None else _meant(node, shape, text)


def _meant(node: Node, shape: FieldType, text: str) -> Any:
    if isinstance(node.value, dict):
        return {key: _meant(child, shape.under(key) or FieldType(()), text) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [_meant(child, shape.under(index) or FieldType(()), text) for index, child in enumerate(node.value)]
    return text[node.start : node.end] if shape.text and not isinstance(node.value, str) else node.value


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
    return here is not None
