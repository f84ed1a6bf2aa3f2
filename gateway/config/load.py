"""Reading the settings: from a file on disk to a checked ``Settings``, with everything that is wrong told at once."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from gateway.config.complaint import problems_of
from gateway.config.document import Tree, read_document, read_text
from gateway.config.fitting import Fitting
from gateway.config.problem import Problem
from gateway.config.settings import AgentDefaults, Settings
from gateway.config.substitution import substitute
from gateway.errors import SettingsWrong

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gateway.config.key import KeyPath
    from gateway.paths import Paths


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings that may be used. ``source`` is the file they came from, or None when there is none and all is default.

    ``given`` is what the file says, as plain values before variables and secrets are filled in.
    """

    settings: Settings
    warnings: tuple[Problem, ...]
    source: Path | None
    given: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Checked:
    """What a text came to. ``settings`` is None when one of ``problems`` made it unusable."""

    settings: Settings | None
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    given: Mapping[str, Any]


def load(paths: Paths, env: Mapping[str, str], *, only_look: bool = False) -> Loaded:
    """Read the settings of a house. Raises SettingsWrong with every problem of the file; unknown keys are warnings.

    ``only_look`` is for showing settings: what the environment lacks (variables, files of secrets) is then a warning too.
    """
    source = paths.config_file()
    try:
        text = read_text(source)
    except FileNotFoundError as error:
        if paths.chosen_config:
            mend = "Check --config and HOMEBODY_CONFIG, or make the file with: homebody config set KEY VALUE"
            raise SettingsWrong([Problem("there is no such file", file=str(source), mend=mend)]) from error
        return Loaded(Settings().of_profile(paths.profile), (), None, {})
    checked = check(text, source, env)
    lacking = tuple(problem for problem in checked.problems if only_look and problem.environment)
    if len(checked.problems) > len(lacking) or checked.settings is None:
        raise SettingsWrong(checked.problems, where=str(source))
    return Loaded(checked.settings.of_profile(paths.profile), (*lacking, *checked.warnings), source, checked.given)


def check(text: str, source: Path, env: Mapping[str, str]) -> Checked:
    """Check the text of a settings file. Never raises: what makes it unreadable is among the problems."""
    try:
        tree = Tree(read_document(text, str(source)))
    except SettingsWrong as unreadable:
        return Checked(None, unreadable.problems, (), {})
    return _checked(tree, source, env)


def _checked(tree: Tree, source: Path, env: Mapping[str, str]) -> Checked:
    fitting = Fitting(tree, Settings, env, source.parent)
    fitted = fitting.fit(substitute(tree, env))
    settings: Settings | None = None
    try:
        settings = Settings.model_validate(fitted)
    except ValidationError as error:
        told = {problem.path for problem in tree.problems}
        tree.problems.extend(problem for problem in problems_of(error, tree, Settings) if problem.path not in told)
    else:
        tree.problems.extend(_agents_problems(settings, tree))
    warnings = list(fitting.warnings)
    if settings is not None and not tree.problems:
        warnings += [*_shared_workspaces(settings, tree), *_idle_rules(settings, tree)]
    if fitting.inline_secrets:
        warnings += _open_to_others(source)
    return Checked(settings, _in_order(tree.problems), _in_order(warnings), tree.values)


def _agents_problems(settings: Settings, tree: Tree) -> list[Problem]:
    problems: list[Problem] = []
    entries = settings.agents.list
    for index, entry in enumerate(entries):
        earlier = entries[:index]
        place: KeyPath = ("agents", "list", index)
        if any(other.id == entry.id for other in earlier):
            problems.append(tree.problem((*place, "id"), f"the agent {entry.id!r} is there twice", "Give each its own id."))
        elif entry.default and any(other.default for other in earlier):
            problems.append(tree.problem((*place, "default"), "another agent is the default already", "Keep one of them."))
        else:
            problems += _profile_problems(settings, entry.id, place, tree)
    return problems or ([] if entries else _profile_problems(settings, settings.default_agent, ("agents", "defaults"), tree))


def _profile_problems(settings: Settings, agent_id: str, place: KeyPath, tree: Tree) -> list[Problem]:
    """Check an entry and the defaults together: each may be right and both together wrong."""

    def written(path: KeyPath) -> KeyPath:
        own = (*place, *path)
        return own if tree.at(own) is not None else ("agents", "defaults", *path)

    try:
        settings.agent(agent_id)
    except ValidationError as error:
        return problems_of(error, tree, AgentDefaults, written)
    return []


def _shared_workspaces(settings: Settings, tree: Tree) -> list[Problem]:
    seen: dict[Path, str] = {}
    warnings: list[Problem] = []
    for index, agent_id in enumerate(settings.agent_ids):
        workspace = settings.agent(agent_id).workspace
        if workspace in seen:
            message = f"the agents {seen[workspace]!r} and {agent_id!r} share the workspace {workspace}, and so their memory"
            path: KeyPath = ("agents", "list", index, "workspace")
            warnings.append(tree.problem(path, message, "Give each its own, unless that is meant."))
        seen.setdefault(workspace, agent_id)
    return warnings


def _idle_rules(settings: Settings, tree: Tree) -> list[Problem]:
    """Say which rules lead to an agent that is not there: they are passed over, and another agent answers."""
    there = ", ".join(settings.agent_ids)
    return [
        tree.problem(
            ("bindings", index, "agentId"),
            f"there is no agent {rule.agent_id!r}: the rule is passed over",
            f"There is: {there}.",
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
    return [Problem("holds a secret and can be read by other users", file=str(source), mend=f"Run: chmod 600 {source}")]


def _in_order(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.line))
