"""Prepares the values of a file for validation: fills in variables and secrets, drops empty values, warns of unknown keys.

``${NAME}`` in a text is replaced by the environment variable; ``$${`` stands for ``${`` itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.base.errors import Problem
from gateway.config.document import Tree
from gateway.config.field_types import FieldType, accepted_names, all_keys
from gateway.config.key import KeyPath, dotted_key
from gateway.config.secrets import NAMES, SecretMissing, resolve

if TYPE_CHECKING:
    from pydantic import BaseModel

_ABSENT = object()
_VARIABLE = re.compile(r"(\$?)\$\{([^}]*)(\}?)")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass
class Normalizer:
    """Normalises one file. Unknown keys go to ``warnings``, missing secrets to ``tree.problems``.

    ``beside`` is the folder of the file, for relative paths; ``inline_secrets`` tells that the file contains a secret itself.
    """

    tree: Tree
    model: type[BaseModel]
    env: Mapping[str, str]
    beside: Path
    warnings: list[Problem] = field(default_factory=list)
    inline_secrets: bool = False

    def normalize(self, values: Any) -> Any:
        """Return the values, ready for validation."""
        return self._value(values, FieldType((self.model,)), ())

    def _value(self, value: Any, types: FieldType, path: KeyPath) -> Any:
        if isinstance(value, dict):
            return self._section(value, types, path)
        if isinstance(value, list):
            normalized = [
                self._value(child, types.under(index) or FieldType(()), (*path, index)) for index, child in enumerate(value)
            ]
            return [child for child in normalized if child is not _ABSENT]
        if value is None and not types.nullable:
            return _ABSENT
        if isinstance(value, str) and types.secret:
            return self._secret(value, path)
        return value

    def _section(self, value: dict[str, Any], types: FieldType, path: KeyPath) -> dict[str, Any]:
        names = {name: written for model in types.models for name, written in accepted_names(model).items()}
        normalized: dict[str, Any] = {}
        for key, child in value.items():
            under = types.under(names.get(key, key))
            if under is None and types.models and not types.open:
                self.warnings.append(self._unknown(key, path, list(types.keys())))
                continue
            if isinstance(child, str) and (under is None or Any in under.kinds) and NAMES.search(key):
                value_below = self._secret(child, (*path, key))
            else:
                value_below = self._value(child, under or FieldType(()), (*path, key))
            if value_below is not _ABSENT:
                normalized[names.get(key, key)] = value_below
        return normalized

    def _secret(self, value: str, path: KeyPath) -> Any:
        self.inline_secrets = self.inline_secrets or not value.startswith(("env:", "file:"))
        try:
            return resolve(value, self.env, self.beside)
        except SecretMissing as missing:
            self.tree.problems.append(self.tree.problem(path, str(missing), missing.hint, environment=True))
            return _ABSENT

    def _unknown(self, key: str, path: KeyPath, known: list[str]) -> Problem:
        near = suggest_key(key, path, known, self.model)
        hint = f"Did you mean {near}?" if near else f"Known here: {', '.join(sorted(known)[:12])}."
        return self.tree.problem((*path, key), "is not a key of this version; it is kept in the file and ignored", hint)


def substitute(tree: Tree, env: Mapping[str, str]) -> Any:
    """Return the values of ``tree`` with every variable replaced; missing variables go to ``tree.problems``."""
    return _filled(tree.values, (), tree, env)


def _filled(value: Any, path: KeyPath, tree: Tree, env: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        _check_keys(value, path, tree)
        return {key: _filled(child, (*path, key), tree, env) for key, child in value.items()}
    if isinstance(value, list):
        return [_filled(child, (*path, index), tree, env) for index, child in enumerate(value)]
    if not isinstance(value, str):
        return value
    if not _is_text(value):
        tree.problems.append(tree.problem(path, "holds half of a character (a lone surrogate)", "Write the character itself."))
        return None
    return _fill(value, path, tree, env) if "${" in value else value


def _fill(text: str, path: KeyPath, tree: Tree, env: Mapping[str, str]) -> str | None:
    wrong = False

    def variable(match: re.Match[str]) -> str:
        nonlocal wrong
        escaped, name, closed = match.groups()
        if escaped:
            return match[0][1:]
        if not closed or not _VARIABLE_NAME.fullmatch(name):
            wrong = True
            hint = "Write ${NAME} with the name of an environment variable, or $${ for the characters themselves."
            tree.problems.append(tree.problem(path, f"{match[0]!r} names no variable", hint))
            return ""
        if name not in env:
            wrong = True
            hint = f"Set it where homebody starts (export {name}=...), or write the value into the file."
            message = f"the environment variable {name} is not set"
            tree.problems.append(tree.problem(path, message, hint, environment=True))
            return ""
        return env[name]

    filled = _VARIABLE.sub(variable, text)
    return None if wrong else filled


def _check_keys(section: dict[str, Any], path: KeyPath, tree: Tree) -> None:
    if not all(map(_is_text, section)):
        tree.problems.append(
            tree.problem(path, "has a key with half of a character (a lone surrogate)", "Write the key as text.")
        )


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def suggest_key(key: str, path: KeyPath, known: list[str], model: type[BaseModel]) -> str:
    """Return the key that was probably meant: a similar one in the same section, otherwise the same name nearest to it."""
    by_folded = {_folded(name): name for name in known}
    close = get_close_matches(_folded(key), list(by_folded), n=1, cutoff=0.75)
    if close:
        return dotted_key((*path, by_folded[close[0]]))
    elsewhere = _by_name(model).get(_folded(key), [])
    ranks = {other: (-_shared(other, path), len(other)) for other in elsewhere}
    return " or ".join(dotted_key(other) for other in elsewhere if ranks[other] == min(ranks.values()))


@cache
def _by_name(model: type[BaseModel]) -> dict[str, list[KeyPath]]:
    """Return the paths of all keys by their folded name."""
    places: dict[str, list[KeyPath]] = {}
    for place in all_keys(model):
        places.setdefault(_folded(str(place[-1])), []).append(place)
    return places


def _shared(one: KeyPath, other: KeyPath) -> int:
    """Return how many leading steps two paths have in common."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _folded(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
