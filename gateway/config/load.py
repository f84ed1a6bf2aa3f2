"""Load and validate the settings file, reporting all of its problems at once."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pydantic import ValidationError

import gateway.base.lean_pydantic  # noqa: F401
from channels.messages import CLIENT_CHANNELS, ChatAddress
from gateway.base.errors import Problem, SettingsError
from gateway.base.paths import Paths
from gateway.config.document import Tree, read_document, read_text
from gateway.config.normalize import FieldType, Normalizer, substitute
from gateway.config.secrets import secrets_of
from gateway.config.syntax_tree import KeyPath
from gateway.config.workspace_location import free_folder, location_error, nested_workspaces
from gateway.settings.root import AgentDefaults, Settings

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails


class Loaded(Struct, frozen=True):
    """Valid settings. ``source`` is the file they came from; None if there is no file and every default applies.

    ``given`` are the plain values of the file, before variables and secrets are filled in.
    """

    settings: Settings
    warnings: tuple[Problem, ...]
    source: Path | None
    given: Mapping[str, Any]


class Checked(Struct, frozen=True):
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
        tree.problems.extend([*_agents_problems(settings, tree), *_token_used_twice(settings, tree)])
        if not tree.problems:
            found = paths or Paths.find(env)
            tree.problems.extend(_misplaced(settings.of_profile(found.profile), tree, source, found.home))
    warnings = list(normalizer.warnings)
    if settings is not None and not tree.problems:
        warnings += [
            *_shared_workspaces(settings, tree),
            *_bindings_without_agent(settings, tree),
            *_heartbeats_to_nowhere(settings, tree),
        ]
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
        profile = settings.agent(agent_id)
    except ValidationError as error:
        return validation_problems(error, tree, AgentDefaults, written)
    if profile.store.type == "git" and not profile.store.remote:
        key = f"agents.{'defaults' if place[1] == 'defaults' else f'list.{place[2]}'}.workspaceStore.remote"
        hint = f"Set it first: homebody config set {key} https://HOST/PATH.git"
        return [tree.problem(written(("workspaceStore", "type")), "git needs the address of a repository, in remote", hint)]
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
            free = free_folder(agent_id, state, source)
            hint = f"Give it a folder of its own, such as {free}: homebody config set agents.defaults.workspace {free}"
            if place == own:
                hint = f"Give it a folder of its own, such as {free}, in its entry of agents.list."
            problems.append(
                tree.problem(place, f"the workspace {workspaces[agent_id]} of the agent {agent_id!r} {reason}", hint)
            )
    return problems


def _token_used_twice(settings: Settings, tree: Tree) -> list[Problem]:
    """The gateway's token may be no other secret: whoever has to know that one, such as a chat platform, would have both."""
    token = settings.gateway.auth.token
    if token is None or list(secrets_of(settings)).count(token.get_secret_value()) == 1:
        return []
    hint = "Give it one of its own (openssl rand -hex 32), or leave it out: then one is made."
    return [tree.problem(("gateway", "auth", "token"), "the same secret is used elsewhere in these settings", hint)]


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


def _heartbeats_to_nowhere(settings: Settings, tree: Tree) -> list[Problem]:
    """Return a warning for each target of heartbeats on an account that is not configured: there are no heartbeats then."""
    warnings = []
    for index, agent_id in enumerate(settings.agent_ids):
        target = settings.agent(agent_id).heartbeat.target
        if target in {"last", "none"}:
            continue
        own: KeyPath = ("agents", "list", index, "heartbeat", "target")
        path = own if tree.at(own) is not None else ("agents", "defaults", "heartbeat", "target")
        place = ChatAddress.parse(target)
        section = settings.channels.section(place.channel)
        if place.channel not in CLIENT_CHANNELS and (section is None or place.account not in section.names()):
            message = f"there is no account {place.channel}:{place.account}, so that no heartbeat is made"
            key = ".".join(map(str, path))
            hint = f"homebody config set {key} last (or the address of a chat: homebody channels chats)"
            warnings.append(tree.problem(path, message, hint))
    return warnings


def _open_to_others(source: Path) -> list[Problem]:
    try:
        mode = stat.S_IMODE(source.stat().st_mode)
    except OSError:
        return []
    if not mode & 0o077:
        return []
    return [Problem(READABLE, file=str(source), hint=f"Run: chmod 600 {source}")]


def _in_order(problems: list[Problem]) -> tuple[Problem, ...]:
    return tuple(sorted(dict.fromkeys(problems), key=lambda problem: problem.line))


READABLE = "holds a secret and can be read by other users"
"""What is wrong with the mode of a file, which writing it mends."""
_LONGEST_SHOWN = 60
_MOST_KEYS = 12
_TRUTH, _WHOLE, _NUMBER, _TEXT, _LIST, _SECTION = (
    "true or false",
    "a whole number",
    "a number",
    "text",
    "a list",
    "a section of keys",
)
_KINDS = {
    "bool_type": _TRUTH,
    "bool_parsing": _TRUTH,
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "a finite number",
    "string_type": _TEXT,
    "path_type": "a path",
    "list_type": _LIST,
    "tuple_type": _LIST,
    "set_type": _LIST,
    "frozen_set_type": _LIST,
    "dict_type": _SECTION,
    "mapping_type": _SECTION,
    "model_type": _SECTION,
    "model_attributes_type": _SECTION,
}
_BOUNDS: dict[str, tuple[str, str]] = {
    "greater_than": ("gt", "more than {}"),
    "greater_than_equal": ("ge", "at least {}"),
    "less_than": ("lt", "less than {}"),
    "less_than_equal": ("le", "at most {}"),
    "multiple_of": ("multiple_of", "a multiple of {}"),
    "string_too_short": ("min_length", "text of at least {} characters"),
    "string_too_long": ("max_length", "text of at most {} characters"),
    "too_short": ("min_length", "at least {} of them"),
    "too_long": ("max_length", "at most {} of them"),
    "string_pattern_mismatch": ("pattern", "text that matches {}"),
}


def validation_problems(
    error: ValidationError, tree: Tree, model: type[BaseModel], place: Callable[[KeyPath], KeyPath] | None = None
) -> list[Problem]:
    """Return one problem per invalid key.

    ``place`` maps a path of the validated value to a path in the tree, where the two differ.
    """
    by_path: dict[KeyPath, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        path = _tree_path(detail, tree, place or (lambda given: given))
        by_path.setdefault(path, []).append(detail)
    deepest = [path for path in by_path if not any(other[: len(path)] == path and other != path for other in by_path)]
    return [_problem(path, by_path[path], tree, FieldType((model,))) for path in deepest]


def _tree_path(detail: ErrorDetails, tree: Tree, place: Callable[[KeyPath], KeyPath]) -> KeyPath:
    """Return pydantic's location as a path in the tree, without the names that it adds for members of a union."""
    path: KeyPath = ()
    for step in detail["loc"]:
        here = tree.at(place(path))
        known = (isinstance(here, dict) and step in here) or (
            isinstance(here, list) and isinstance(step, int) and step < len(here)
        )
        missing = detail["type"] == "missing" and step == detail["loc"][-1]
        if known or missing:
            path = (*path, step)
    return place(path)


def _problem(path: KeyPath, details: Sequence[ErrorDetails], tree: Tree, types: FieldType) -> Problem:
    if all(detail["type"] == "missing" for detail in details):
        return tree.problem(path, "is missing", "Add this key, or remove the section it belongs to.")
    here = types.at(path)
    secret = bool(here and here.secret)
    found = tree.at(path)
    custom = [_custom(detail) for detail in details if detail["type"] in {"value_error", "assertion_error"}]
    if custom and not secret:
        return tree.problem(path, "; ".join(dict.fromkeys(custom)))
    if custom and not any(str(found) in one for one in custom):  # the message does not contain the secret
        return tree.problem(path, f"{_shown(found, secret=True)} {'; '.join(dict.fromkeys(custom))}")
    allowed = list(dict.fromkeys(_allowed(detail) for detail in details))
    hint = _hint(found, details)
    if not hint and here is not None and allowed == [_SECTION] and (keys := list(here.keys())):
        hint = f"Its keys: {', '.join(keys[:_MOST_KEYS])}{' …' if len(keys) > _MOST_KEYS else ''}."
    return tree.problem(path, f"{_shown(found, secret=secret)} is not allowed here; allowed: {' or '.join(allowed)}", hint)


def _allowed(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx") or {}
    if kind in _KINDS:
        return _KINDS[kind]
    if kind in _BOUNDS:
        name, sentence = _BOUNDS[kind]
        return sentence.format(context.get(name))
    if "expected" in context:
        return str(context["expected"])
    return detail["msg"].removeprefix("Input should be ")


def _custom(detail: ErrorDetails) -> str:
    return detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")


def _hint(found: Any, details: Sequence[ErrorDetails]) -> str:
    from difflib import get_close_matches

    words = [word for detail in details for word in str((detail.get("ctx") or {}).get("expected", "")).split("'")[1::2]]
    close = get_close_matches(str(found), words, n=1) if isinstance(found, str) else []
    return f"Did you mean {close[0]}?" if close else ""


def _shown(value: Any, *, secret: bool) -> str:
    if secret:
        return "this value (not shown)"
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
