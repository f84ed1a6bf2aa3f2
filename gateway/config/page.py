"""The page ``docs/configuration.md``: every key with its type, default and meaning, made from the settings themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr

from gateway.config.effective import reload_mode
from gateway.config.field_docs import field_doc
from gateway.config.field_types import FieldType, fields
from gateway.settings.root import AgentDefaults, AgentEntry, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def page() -> str:
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
