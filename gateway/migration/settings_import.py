"""Makes Homebody's settings of another program's: most keys are the same, the others are named."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final

import yaml

from gateway.base.errors import Problem, SettingsError
from gateway.base.paths import Paths
from gateway.config.load import check
from gateway.config.syntax_tree import KeyPath, dotted_key
from gateway.migration.foreign_state import ForeignState, agent_id, read_json, section
from gateway.migration.migration_report import Report
from gateway.migration.openclaw_database import reported

KIND: Final = "settings"
_ROUNDS: Final = 50
"""How often keys that are not allowed are taken out before the rest counts as unusable; each round takes out all that it finds."""
_OWN: Final[Mapping[KeyPath, str]] = {
    ("gateway",): "the address and the token of the gateway are Homebody's own",
    ("meta",): "",
    ("wizard",): "",
    ("plugins",): "plugins of the other program do not run here",
    ("skills", "entries"): "",
    ("env",): "",
    ("auth",): "keys are taken over by themselves",
    ("commands", "ownerAllowFrom"): "the owner is the first in allowFrom",
}
"""Keys that are left out, and why; with no reason nothing is said."""
_PLATFORMS: Final = ("telegram", "discord", "slack")


def import_settings(state: ForeignState, paths: Paths, report: Report, workspaces: Mapping[str, Path]) -> str:
    """Return the text of the settings file for what the other program's settings say, and report each key.

    ``workspaces`` are the new folders by agent.
    """
    values = _filled(copy.deepcopy(dict(state.config)), state)
    for path, reason in _OWN.items():
        if _without(values, path) and reason:
            report.add(KIND, dotted_key(path), "left out", reason)
    values = _without_empty(values)
    _move_search(values, report)
    _spell_agents(values, report)
    _move_workspaces(values, state, report, workspaces)
    for channel in values.get("channels") or {}:
        if channel not in _PLATFORMS and isinstance(values["channels"][channel], dict):
            report.add(KIND, f"channels.{channel}", "left out", "Homebody does not speak to this platform yet")
    if isinstance(values.get("channels"), dict):
        values["channels"] = {name: found for name, found in values["channels"].items() if name in _PLATFORMS}
        _let_in(values["channels"], state, report)
    _take_out_unusable(values, paths, report, state.config_file)
    for channel, platform in (values.get("channels") or {}).items():
        if "*" in (platform.get("allowFrom") or ()) and platform.get("dmPolicy") == "open":
            report.add(
                KIND,
                f"channels.{channel}.dmPolicy",
                "problem",
                f"everybody may write to the bot, as before: homebody config set channels.{channel}.dmPolicy pairing ends that",
            )
    for path in sorted(_leaves(values), key=dotted_key):
        report.add(KIND, dotted_key(path), "taken")
    return _text(values, state)


def _move_search(values: MutableMapping[str, Any], report: Report) -> None:
    """Take OpenClaw's ``memory.search`` for ``agents.defaults.memorySearch``, where it was before and is here."""
    search = section(section(values, "memory"), "search")
    agents = values.setdefault("agents", {}) if search else None
    defaults = agents.setdefault("defaults", {}) if isinstance(agents, dict) else None
    if not isinstance(defaults, dict) or "memorySearch" in defaults:
        return
    own = "openai" if search.get("provider") == "openai-compatible" else search.get("provider")
    defaults["memorySearch"] = {**search, **({"provider": own} if own else {})}
    _without(values, ("memory", "search"))
    report.add(KIND, "memory.search", "changed", "it is agents.defaults.memorySearch here")


def _spell_agents(values: MutableMapping[str, Any], report: Report) -> None:
    """Spell the ids of agents as they have to be here, and leave out those that are listed twice or have none."""
    agents = values.get("agents")
    listed = agents.get("list") if isinstance(agents, dict) else None
    if not isinstance(agents, dict) or not isinstance(listed, list):
        return
    kept: dict[str, dict[str, Any]] = {}
    for entry in listed:
        given = str(entry.get("id", "")) if isinstance(entry, dict) else ""
        here = agent_id(given)
        if not here or here in kept:
            why = "it is listed twice" if here else "it has no id that can be used"
            report.add(KIND, f"the agent {given or '(none)'}", "left out", why)
            continue
        if here != given:
            report.add(KIND, f"the agent {given}", "changed", f"its id is {here}")
        kept[here] = {**entry, "id": here}
    agents["list"] = list(kept.values())
    for rule in values.get("bindings") or ():
        if isinstance(rule, dict) and rule.get("agentId"):
            rule["agentId"] = agent_id(str(rule["agentId"]))


def _move_workspaces(
    values: MutableMapping[str, Any], state: ForeignState, report: Report, workspaces: Mapping[str, Path]
) -> None:
    agents = values.get("agents")
    if not isinstance(agents, dict):
        return
    if isinstance(agents.get("defaults"), dict) and agents["defaults"].pop("workspace", None) is not None:
        report.add(KIND, "agents.defaults.workspace", "changed", f"{workspaces[state.agents[0]]}, a copy")
    for entry in agents.get("list") or ():
        if isinstance(entry, dict) and entry.get("id") in workspaces:
            entry["workspace"] = str(workspaces[entry["id"]])
            entry.pop("agentDir", None)


def _let_in(channels: MutableMapping[str, Any], state: ForeignState, report: Report) -> None:
    """Add the people who were paired to ``allowFrom``: the first of them is the owner, who is first here, too, if OpenClaw knows one."""
    owners = [str(one) for one in section(state.config, "commands").get("ownerAllowFrom") or ()]
    stored: dict[str, list[str]] = {}
    with reported(report, "people", state.shared_database) as database:
        stored = {channel: database.people(channel) for channel in _PLATFORMS} if database else {}
    for channel in _PLATFORMS:
        file = state.folder / "credentials" / f"{channel}-allowFrom.json"
        try:
            raw = read_json(file)
        except (OSError, ValueError) as error:
            report.add("people", channel, "problem", f"{file} {error}")
            continue
        listed = [*stored.get(channel, ()), *((raw.get("allowFrom") or ()) if isinstance(raw, dict) else ())]
        people = [one for one in dict.fromkeys(map(str, listed)) if one != "*"]
        people.sort(key=lambda one: f"{channel}:{one}" not in owners)
        if not people:
            continue
        found = channels.setdefault(channel, {})
        given = [str(one) for one in found.get("allowFrom") or ()]
        found["allowFrom"] = list(dict.fromkeys([*given, *people]))
        owner = found["allowFrom"][0]
        for one in people:
            report.add("people", f"{channel} {one}", "taken", "the owner" if one == owner else "a guest")


def _take_out_unusable(values: MutableMapping[str, Any], paths: Paths, report: Report, state_file: Path | None) -> None:
    """Take out what Homebody does not know or does not allow, until the rest is valid. Raises SettingsError if that cannot be reached."""
    source = paths.config_file()
    for _ in range(_ROUNDS):
        checked = check(yaml.safe_dump(dict(values), allow_unicode=True), source, {}, paths)
        unknown = [one for one in checked.warnings if one.message.startswith("is not a key")]
        wrong = [one for one in checked.problems if one.path]
        if not unknown and not wrong:
            return
        before = repr(values)
        _take_out(values, ((one, "is not a setting of Homebody") for one in unknown), report)
        _take_out(values, ((one, one.message) for one in wrong), report)
        if repr(values) == before:
            raise SettingsError(
                wrong or unknown, where=str(state_file), hint="Nothing was written. Mend it there, then try again."
            )


def _take_out(values: MutableMapping[str, Any], found: Iterable[tuple[Problem, str]], report: Report) -> None:
    for problem, reason in found:
        path = _path_of(problem.path, values)
        if path is None:  # something is missing there: the section cannot be used
            dotted, _, _ = problem.path.rpartition(".")
            path = _path_of(dotted, values)
        if path and _without(values, path):
            report.add(KIND, dotted_key(path), "left out", reason)


def _path_of(dotted: str, values: Any) -> KeyPath | None:
    """Return the steps of a key as problems write it, by walking the values: keys may hold dots."""
    if not dotted:
        return ()
    if isinstance(values, dict):
        for key in sorted(values, key=lambda key: -len(str(key))):
            written = dotted_key((key,))
            if dotted == written:
                return (key,)
            rest = dotted[len(written) :]
            if dotted.startswith(written) and rest[:1] in {".", "["}:
                below = _path_of(rest.removeprefix("."), values[key])
                if below is not None:
                    return (key, *below)
    if isinstance(values, list) and dotted.startswith("["):
        number, _, rest = dotted[1:].partition("]")
        if number.isdecimal() and int(number) < len(values):
            below = _path_of(rest.removeprefix("."), values[int(number)]) if rest else ()
            return None if below is None else (int(number), *below)
    return None


def _without(values: Any, path: KeyPath) -> bool:
    """Remove the value at a path; return whether it was there."""
    here = values
    for step in path[:-1]:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return False
    try:
        del here[path[-1]]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _leaves(values: Any, path: KeyPath = ()) -> Iterable[KeyPath]:
    if isinstance(values, dict) and values:
        for key, value in values.items():
            yield from _leaves(value, (*path, key))
    elif path and values not in ({}, None):
        yield path


def _filled(value: Any, state: ForeignState) -> Any:
    """Fill in the variables of the other program's ``.env``, which a gateway of Homebody would not have."""
    if isinstance(value, dict):
        return {key: _filled(one, state) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, state) for one in value]
    return state.filled(value) if isinstance(value, str) else value


def _text(values: Mapping[str, Any], state: ForeignState) -> str:
    head = f"# Taken over from {state.program}. `homebody config page` describes every key.\n"
    kept = _without_empty(dict(values))
    return head + (yaml.safe_dump(kept, allow_unicode=True, sort_keys=False) if kept else "")


def _without_empty(value: Any) -> Any:
    """Leave out sections that nothing is left of."""
    if not isinstance(value, dict):
        return value
    pairs = ((key, _without_empty(one)) for key, one in value.items())
    return {key: one for key, one in pairs if one not in ({}, None)}
