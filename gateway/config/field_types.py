"""Introspection of the settings models: which keys exist below a path, and which types their values may have."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr

from gateway.config.key import KeyPath

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_LISTS = (list, tuple, set, frozenset)


@dataclass(frozen=True, slots=True)
class FieldType:
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
