"""Reference documentation made from the models: what each field means, the JSON Schema, and ``docs/configuration.md``.

A field's meaning is the string below it in the source. Pydantic can read these strings while it builds a model, but that takes half of
the start-up time of every command, and only this module shows them.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.json_schema import GenerateJsonSchema

from gateway.config.effective import reload_mode
from gateway.config.field_types import FieldType, fields
from gateway.settings.root import AgentDefaults, AgentEntry, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema

    from gateway.config.key import KeyPath

HEAD = """\
# Configuration

Settings are in `~/.homebody/homebody.yaml`, or in `homebody.json`, which is read as JSON5. Everything has a default: an empty file is a
good one. `homebody config set KEY VALUE` changes a key and keeps your comments, `homebody config get KEY` shows what is in force,
`homebody config validate` tells every error at once with its line.

`${NAME}` in a value stands for an environment variable; a secret may also be given as `env:NAME` or `file:PATH`. `agent:` at the top is
read as `agents.defaults:`. A key that this version does not know is kept and passed over, with a warning.

The last column says what a change takes: a running gateway takes `hot` keys over at once, for turns that begin from then on; the
others wait for a `restart`, and `homebody status` names them. An account of a chat platform whose settings changed is connected anew;
an agent that is to have another workspace, time zone or memory is made anew between two turns; one that is taken out of `agents.list`
answers what waits for it and goes.

This page is made by `homebody config page`; a test holds it to the settings.
"""
_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    SecretStr: "secret",
    Path: "path",
    Any: "anything",
    object: "anything",
}


def field_doc(model: type[BaseModel], field: FieldInfo) -> str:
    """Return what a field of ``model`` means, or an empty string where nothing stands behind it."""
    name = next((name for name, info in model.model_fields.items() if info is field), "")
    return field.description or _meanings(model).get(name, "")


@cache
def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """The strings behind the fields of a class and of those it is made from, by the fields' names."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if issubclass(one, BaseModel) and one is not BaseModel and one.__module__ in sys.modules:
            found |= _written_behind(one)
    return found


def _written_behind(model: type[BaseModel]) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def json_schema() -> dict[str, Any]:
    """Return it, as JSON values."""
    made = Settings.model_json_schema(by_alias=True, schema_generator=_Explained)
    return {"$schema": GenerateJsonSchema.schema_dialect, **made}


class _Explained(GenerateJsonSchema):
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Add to each key of a section what stands behind it in the source."""
        made = super().model_schema(schema)
        model = schema["cls"]
        for name, field in model.model_fields.items():
            key = made.get("properties", {}).get(field.alias or name)
            if key is not None and (told := field_doc(model, field)):
                key.setdefault("description", told)
        return made


def markdown_page() -> str:
    """Return the page as Markdown."""
    parts = [HEAD]
    for path, model in _sections(Settings, ()):
        rows = list(_rows(path, model))
        if rows:
            title = ".".join(map(str, path)) or "at the top"
            parts.append(
                f"## {title}\n\n{_first_line(model)}\n\n| key | value | default | meaning | change |\n|---|---|---|---|---|"
            )
            parts[-1] += "\n" + "\n".join(rows) + "\n"
    return "\n".join(parts)


def _sections(model: type[BaseModel], path: KeyPath) -> Iterator[tuple[KeyPath, type[BaseModel]]]:
    """Yield every section with its path, tables of the owner's own names as ``<name>`` and lists as ``[]``."""
    yield path, model
    for key, shape in fields(model).items():
        if model is AgentEntry and key in fields(AgentDefaults):
            continue
        for child in shape.models:
            yield from _sections(child, (*path, key))
        for kind in shape.kinds:
            step = "<name>" if get_origin(kind) is dict else "[]"
            inner = [part for part in get_args(kind) if isinstance(part, type) and issubclass(part, BaseModel)]
            for child in inner:
                yield from _sections(child, (*path, f"{key}[]") if step == "[]" else (*path, key, step))


def _rows(path: KeyPath, model: type[BaseModel]) -> Iterator[str]:
    for key, shape in fields(model).items():
        inherited = model is AgentEntry and key in fields(AgentDefaults)
        if inherited or (shape.models and set(shape.kinds) == set(shape.models)):
            continue
        field = shape.field
        told = " ".join((field_doc(model, field) if field else "").split()).replace("``", "`").replace("|", "\\|")
        cells = [f"`{key}`", _type(shape), _default(shape), told, reload_mode(_place((*path, key)))]
        yield f"| {' | '.join(cells)} |"


def _place(path: KeyPath) -> KeyPath:
    """Return where a key would stand in a file: ``list[]`` is the first of the list."""
    return tuple(step for part in path for step in ((str(part)[:-2], 0) if str(part).endswith("[]") else (part,)))


def _type(shape: FieldType) -> str:
    return " or ".join(dict.fromkeys(_word(kind) for kind in shape.kinds if kind is not type(None)))


def _word(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " \\| ".join(f"`{value}`" for value in get_args(kind))
    if get_origin(kind) in {list, tuple, frozenset, set}:
        return "list of " + " or ".join(dict.fromkeys(map(_word, (part for part in get_args(kind) if part is not Ellipsis))))
    if get_origin(kind) is dict:
        return "table"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "section"
    return _WORDS.get(kind) or _type(FieldType.of(kind)) if kind in _WORDS or get_origin(kind) else "text"


def _default(shape: FieldType) -> str:
    field = shape.field
    if field is None or field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return ""
    plain = value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else value
    text = json.dumps(plain, ensure_ascii=False, default=lambda odd: sorted(odd) if isinstance(odd, frozenset) else str(odd))
    return f"`{text}`".replace("|", "\\|")


def _first_line(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").strip().split("\n\n")[0].split()).replace("``", "`")
