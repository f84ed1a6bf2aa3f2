"""Load and validate the settings file, reporting all of its problems at once."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gateway.base.errors import Problem, SettingsError
from gateway.base.paths import Paths
from gateway.config.document import Tree, read_document, read_text
from gateway.config.key import KeyPath
from gateway.config.normalize import Normalizer, substitute
from gateway.config.validation_errors import validation_problems
from gateway.config.workspace_location import location_error, nested_workspaces
from gateway.settings.root import AgentDefaults, Settings


@dataclass(frozen=True, slots=True)
class Loaded:
    """Valid settings. ``source`` is the file they came from; None if there is no file and every default applies.

    ``given`` are the plain values of the file, before variables and secrets are filled in.
    """

    settings: Settings
    warnings: tuple[Problem, ...]
    source: Path | None
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check. ``settings`` is None if they are not valid; then ``problems`` says why."""

    settings: Settings | None
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    given: Mapping[str, Any]


def load(paths: Paths, env: Mapping[str, str], *, only_look: bool = False) -> Loaded:
    """Load the settings. Raises SettingsError with every problem of the file; unknown keys are warnings.

    ``only_look`` is for showing settings: a missing variable or secret file is then a warning too.
    """
    source = paths.config_file()
    try:
        text = read_text(source)
    except FileNotFoundError as error:
        if paths.chosen_config:
            hint = "Check --config and HOMEBODY_CONFIG, or create the file with: homebody config set KEY VALUE"
            raise SettingsError([Problem("this file does not exist", file=str(source), hint=hint)]) from error
        settings = Settings().of_profile(paths.profile)
        if problems := _misplaced(settings, Tree(read_document("", str(source))), source, paths.home):
            raise SettingsError(problems, where=str(source)) from None
        return Loaded(settings, (), None, {})
    checked = check(text, source, env, paths)
    lacking = tuple(problem for problem in checked.problems if only_look and problem.environment)
    if len(checked.problems) > len(lacking) or checked.settings is None:
        raise SettingsError(checked.problems, where=str(source))
    return Loaded(checked.settings.of_profile(paths.profile), (*lacking, *checked.warnings), source, checked.given)


def check(text: str, source: Path, env: Mapping[str, str], paths: Paths | None = None) -> Checked:
    """Check the text of a settings file. Never raises: syntax errors are among the problems.

    ``paths`` are those of the gateway that the file is for; by default those that the environment names.
    """
    try:
        tree = Tree(read_document(text, str(source)))
    except SettingsError as unreadable:
        return Checked(None, unreadable.problems, (), {})
    return _checked(tree, source, env, paths)


def _checked(tree: Tree, source: Path, env: Mapping[str, str], paths: Paths | None) -> Checked:
    normalizer = Normalizer(tree, Settings, env, source.parent)
    normalized = normalizer.normalize(substitute(tree, env))
    settings: Settings | None = None
    try:
        settings = Settings.model_validate(normalized)
    except ValidationError as error:
        reported = {problem.path for problem in tree.problems}
        tree.problems.extend(problem for problem in validation_problems(error, tree, Settings) if problem.path not in reported)
    else:
        tree.problems.extend(_agents_problems(settings, tree))
        if not tree.problems:
            found = paths or Paths.find(env)
            tree.problems.extend(_misplaced(settings.of_profile(found.profile), tree, source, found.home))
    warnings = list(normalizer.warnings)
    if settings is not None and not tree.problems:
        warnings += [*_shared_workspaces(settings, tree), *_bindings_without_agent(settings, tree)]
    if normalizer.inline_secrets:
        warnings += _open_to_others(source)
    return Checked(settings, _in_order(tree.problems), _in_order(warnings), tree.values)


def _agents_problems(settings: Settings, tree: Tree) -> list[Problem]:
    problems: list[Problem] = []
    entries = settings.agents.list
    for index, entry in enumerate(entries):
        earlier = entries[:index]
        place: KeyPath = ("agents", "list", index)
        if any(other.id == entry.id for other in earlier):
            problems.append(tree.problem((*place, "id"), f"the agent {entry.id!r} is listed twice", "Give each its own id."))
        elif entry.default and any(other.default for other in earlier):
            problems.append(tree.problem((*place, "default"), "another agent is already the default", "Keep one of them."))
        else:
            problems += _profile_problems(settings, entry.id, place, tree)
    return problems or ([] if entries else _profile_problems(settings, settings.default_agent, ("agents", "defaults"), tree))


def _profile_problems(settings: Settings, agent_id: str, place: KeyPath, tree: Tree) -> list[Problem]:
    """Validate an agent's entry merged with the defaults: each can be valid alone and invalid together."""

    def written(path: KeyPath) -> KeyPath:
        own = (*place, *path)
        return own if tree.at(own) is not None else ("agents", "defaults", *path)

    try:
        settings.agent(agent_id)
    except ValidationError as error:
        return validation_problems(error, tree, AgentDefaults, written)
    return []


def _misplaced(settings: Settings, tree: Tree, source: Path, state: Path) -> list[Problem]:
    """Return a problem for each workspace that contains the state folder, keys, the home folder, or another agent's files."""
    workspaces = {agent_id: settings.agent(agent_id).workspace for agent_id in settings.agent_ids}
    reasons = {agent_id: location_error(workspace, state, source) for agent_id, workspace in workspaces.items()}
    for inner, outer in nested_workspaces(workspaces):
        reasons[inner] = reasons[inner] or f"is inside {workspaces[outer]}, the workspace of the agent {outer!r}"
    problems = []
    for index, (agent_id, reason) in enumerate(reasons.items()):
        if reason is not None:
            own: KeyPath = ("agents", "list", index, "workspace")
            place = own if tree.at(own) is not None else ("agents", "defaults", "workspace")
            hint = "Give it a folder of its own, such as ~/homebody: homebody config set agents.defaults.workspace ~/homebody"
            if place == own:
                hint = f"Give it a folder of its own, such as ~/homebody-{agent_id}, in its entry of agents.list."
            problems.append(
                tree.problem(place, f"the workspace {workspaces[agent_id]} of the agent {agent_id!r} {reason}", hint)
            )
    return problems


def _shared_workspaces(settings: Settings, tree: Tree) -> list[Problem]:
    seen: dict[Path, str] = {}
    warnings: list[Problem] = []
    for index, agent_id in enumerate(settings.agent_ids):
        workspace = settings.agent(agent_id).workspace
        if workspace in seen:
            message = f"the agents {seen[workspace]!r} and {agent_id!r} share the workspace {workspace}, and so their memory"
            path: KeyPath = ("agents", "list", index, "workspace")
            warnings.append(tree.problem(path, message, "Give each its own, unless you want that."))
        seen.setdefault(workspace, agent_id)
    return warnings


def _bindings_without_agent(settings: Settings, tree: Tree) -> list[Problem]:
    """Return a warning for each binding whose agent does not exist: it is ignored, and another agent answers."""
    there = ", ".join(settings.agent_ids)
    return [
        tree.problem(
            ("bindings", index, "agentId"),
            f"there is no agent {rule.agent_id!r}: the rule is ignored",
            f"Known agents: {there}.",
        )
        for index, rule in enumerate(settings.bindings)
        if rule.agent_id.lower() not in settings.agent_ids
    ]


def _open_to_others(source: Path) -> list[Problem]:
    try:
        mode = stat.S_IMODE(source.stat().st_mode)
    except OSError:
        return []
    if not mode & 0o077:
        return []
    return [Problem("holds a secret and can be read by other users", file=str(source), hint=f"Run: chmod 600 {source}")]


def _in_order(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.line))
