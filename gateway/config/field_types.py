"""What the settings may look like, asked of the pydantic models: which keys there are, of which kind, under which path."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from gateway.config.key import KeyPath

_LISTS = (list, tuple, set, frozenset)


@dataclass(frozen=True, slots=True)
class FieldType:
    """What may stand at one place: any of ``kinds``. ``field`` is the pydantic field it belongs to, where there is one."""

    kinds: tuple[Any, ...]
    field: FieldInfo | None = None

    @classmethod
    def of(cls, annotation: Any, field: FieldInfo | None = None) -> FieldType:
        """Take an annotation apart into the kinds it allows."""
        return cls(tuple(_kinds(annotation)), field)

    @property
    def models(self) -> list[type[BaseModel]]:
        """The sections that may stand here."""
        return [kind for kind in self.kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]

    @property
    def secret(self) -> bool:
        """Whether a secret may stand here."""
        return SecretStr in self.kinds

    @property
    def nullable(self) -> bool:
        """Whether nothing at all is a value of its own here."""
        return type(None) in self.kinds or not self.kinds or Any in self.kinds

    @property
    def text(self) -> bool:
        """Whether text may stand here (a path is text)."""
        return self.secret or str in self.kinds or Path in self.kinds

    @property
    def only_text(self) -> bool:
        """Whether nothing but text may stand here."""
        others = set(self.kinds) - {str, SecretStr, Path, type(None)}
        return self.text and not others

    def keys(self) -> dict[str, FieldType]:
        """Return the keys that a section here may have, as they are written."""
        return {name: shape for model in self.models for name, shape in fields(model).items()}

    def under(self, step: str | int) -> FieldType | None:
        """Return the shape of one key or item, or None when there is no such thing."""
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
        """Whether any key at all is allowed here (a table with names of the owner's choosing, or something free)."""
        free = any(kind in {Any, dict, object} for kind in self.kinds)
        return free or any(isinstance(o := get_origin(kind), type) and issubclass(o, Mapping) for kind in self.kinds)

    def at(self, path: KeyPath) -> FieldType | None:
        """Return the shape of a place further down, or None."""
        here: FieldType | None = self
        for step in path:
            here = here.under(step) if here else None
        return here


def fields(model: type[BaseModel]) -> dict[str, FieldType]:
    """Return the fields of a section by the key that is written for each."""
    return {info.alias or name: FieldType.of(info.annotation, info) for name, info in model.model_fields.items()}


def accepted_names(model: type[BaseModel]) -> dict[str, str]:
    """Return every name under which a field is understood, and the one that is written for it."""
    names: dict[str, str] = {}
    for name, info in model.model_fields.items():
        names |= {name: info.alias or name, info.alias or name: info.alias or name}
    return names


def all_keys(model: type[BaseModel], under: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the path of every key with a fixed name, sections before what is in them."""
    for name, shape in fields(model).items():
        path = (*under, name)
        yield path
        for section in shape.models:
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
