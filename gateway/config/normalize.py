"""Prepares the values of a file for validation by what its models allow: variables, secrets, empty values, unknown keys.

``${NAME}`` in a text is replaced by the environment variable; ``$${`` stands for ``${`` itself.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from msgspec import Struct
from pydantic import BaseModel, BeforeValidator, SecretStr

from gateway.base.errors import Problem
from gateway.config.document import Tree
from gateway.config.secrets import NAMES, SecretMissing, resolve
from gateway.config.syntax_tree import KeyPath, dotted_key

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

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
        hint = (
            f"Did you mean {near}?"
            if near
            else f"Known here: {', '.join(sorted(known))}. `homebody config page` describes each."
        )
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
            hint = f"Set it where the gateway starts (export {name}=...), or write the value into the file."
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
    from difflib import get_close_matches

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


_LISTS = (list, tuple, set, frozenset)


class FieldType(Struct, frozen=True):
    """The types allowed at one path: the members of a union in ``kinds``. ``field``: its pydantic field, if it has one."""

    kinds: tuple[Any, ...]
    field: FieldInfo | None = None

    @classmethod
    def of(cls, annotation: Any, field: FieldInfo | None = None) -> FieldType:
        """Make it from an annotation, which may be a union, an alias or Annotated."""
        return cls(tuple(_kinds(annotation)), field)

    @property
    def models(self) -> list[type[BaseModel]]:
        """The models among the allowed types."""
        return [kind for kind in self.kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]

    @property
    def secret(self) -> bool:
        """Whether a secret is allowed."""
        return SecretStr in self.kinds

    @property
    def nullable(self) -> bool:
        """Whether null is a value; otherwise null means that the key is not set."""
        return type(None) in self.kinds or not self.kinds or Any in self.kinds

    @property
    def text(self) -> bool:
        """Whether text is allowed (a path is text)."""
        return self.secret or str in self.kinds or Path in self.kinds

    @property
    def only_text(self) -> bool:
        """Whether only text is allowed."""
        others = set(self.kinds) - {str, SecretStr, Path, type(None)}
        return self.text and not others

    @property
    def only_number(self) -> bool:
        """Whether only numbers are allowed, and no text is read as one, as ``30m`` is for a time."""
        kinds = set(self.kinds) - {type(None)}
        marks = [*self.field.metadata, *_marks(self.field.annotation)] if self.field else []
        return bool(kinds) and kinds <= {int, float} and not any(isinstance(mark, BeforeValidator) for mark in marks)

    def keys(self) -> dict[str, FieldType]:
        """Return the keys of the section, as they are written in a file."""
        return {name: field_type for model in self.models for name, field_type in fields(model).items()}

    def under(self, step: str | int) -> FieldType | None:
        """Return the types of one key or list item, or None if there is no such key."""
        known = self.keys().get(str(step)) if self.models else None
        if known is not None:
            return known
        for kind in self.kinds:
            origin, arguments = get_origin(kind), get_args(kind)
            if arguments and isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(step, str):
                return FieldType.of(arguments[1])
            if arguments and origin in _LISTS and isinstance(step, int):
                return FieldType.of(arguments[0])
        return None

    @property
    def open(self) -> bool:
        """Whether any key is allowed: a table with names that the owner chooses, or free-form settings."""
        free = any(kind in {Any, dict, object} for kind in self.kinds)
        return free or any(isinstance(o := get_origin(kind), type) and issubclass(o, Mapping) for kind in self.kinds)

    def at(self, path: KeyPath) -> FieldType | None:
        """Return the types at a path below, or None."""
        here: FieldType | None = self
        for step in path:
            here = here.under(step) if here else None
        return here


def fields(model: type[BaseModel]) -> dict[str, FieldType]:
    """Return the fields of a model by their key in a file (the alias)."""
    return {info.alias or name: FieldType.of(info.annotation, info) for name, info in model.model_fields.items()}


def accepted_names(model: type[BaseModel]) -> dict[str, str]:
    """Return the key in a file for every accepted name: the field's name and its alias."""
    names: dict[str, str] = {}
    for name, info in model.model_fields.items():
        names |= {name: info.alias or name, info.alias or name: info.alias or name}
    return names


def all_keys(model: type[BaseModel], under: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the path of every key with a fixed name, each section before its keys."""
    for name, field_type in fields(model).items():
        path = (*under, name)
        yield path
        for section in field_type.models:
            yield from all_keys(section, path)


def _marks(annotation: Any) -> Iterator[Any]:
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        yield from arguments[1:]
    for part in arguments:
        yield from _marks(part)


def _kinds(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _kinds(part)
    elif hasattr(annotation, "__value__"):  # a named alias
        yield from _kinds(annotation.__value__)
    else:
        yield annotation
