"""The settings as a form: for each section its keys with meaning, type, default and written value. Secrets are never part of it.

Made of the same models, and with the same words, as the JSON Schema and ``docs/configuration.md``. Names that the owner chooses (accounts,
providers) are those that the file has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias, get_args, get_origin

from pydantic import BaseModel, SecretStr

from gateway.config.edit import bracketed
from gateway.config.effective import reload_mode, takes_null
from gateway.config.normalize import FieldType, fields
from gateway.config.reference import default_words, field_doc, first_line, type_words
from gateway.config.secrets import MASK, NAMES, mask_passwords
from gateway.config.syntax_tree import KeyPath, dotted_key
from gateway.settings.root import AgentDefaults, AgentEntry, Settings

Kind: TypeAlias = Literal["switch", "choice", "whole", "number", "text", "secret", "values"]
"""How a key is entered. "values": lists and tables, as on the command line (``[a, b]``, ``{a: 1}``)."""
TOP = "general"
"""The name of the section of keys that stand in no section."""


def sections() -> list[dict[str, str]]:
    """Return the sections at the top of the file, with what each is about."""
    found: list[dict[str, str]] = []
    for key, types in fields(Settings).items():
        if _is_section(types):
            doc = field_doc(Settings, types.field) if types.field else ""
            found.append({"name": key, "doc": _plain(doc) or _plain(first_line(types.models[0]))})
        elif _inner(types):
            found.append({"name": key, "doc": _plain(field_doc(Settings, types.field) if types.field else "")})
    return [*found, {"name": TOP, "doc": ""}]


def groups(section: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the groups of keys of one section. ``given`` are the values of the file, with ``agent`` folded into ``agents.defaults``."""
    if section == TOP:
        rows = [row for row in _rows(Settings, (), given) if row is not None]
        return [{"path": "", "doc": "", "entry": False, "fields": rows, "adds": None}]
    types = fields(Settings).get(section)
    if types is None:
        return []
    if not _is_section(types):
        return list(_tables((section,), types, given.get(section)))
    return [group for model in types.models for group in _groups(model, (section,), given.get(section))]


def _groups(model: type[BaseModel], path: KeyPath, given: Any, *, entry: bool = False) -> Iterator[dict[str, Any]]:
    values = given if isinstance(given, Mapping) else {}
    rows = [row for row in _rows(model, path, values) if row is not None]
    if rows or entry:
        yield {"path": dotted_key(path), "doc": _plain(first_line(model)), "entry": entry, "fields": rows, "adds": None}
    for key, types in fields(model).items():
        inherited = model is AgentEntry and key in fields(AgentDefaults) and key not in values
        if inherited:
            continue
        if _is_section(types):
            for child in types.models:
                yield from _groups(child, (*path, key), values.get(key))
        else:
            yield from _tables((*path, key), types, values.get(key))


def _tables(path: KeyPath, types: FieldType, given: Any) -> Iterator[dict[str, Any]]:
    """Yield the groups of a table or list of sections: one for each entry of the file, and one that adds an entry."""
    inner = _inner(types)
    if inner is None:
        return
    kind, model = inner
    doc = _doc_at(path, types)
    yield {
        "path": dotted_key(path),
        "doc": doc or _plain(first_line(model)),
        "entry": False,
        "fields": [],
        "adds": kind,
        "count": _size(given),
    }
    entries: list[tuple[str | int, Any]] = []
    if kind == "table" and isinstance(given, Mapping):
        entries = list(given.items())
    elif kind == "list" and isinstance(given, list):
        entries = list(enumerate(given))
    for step, value in entries:
        yield from _groups(model, (*path, step), value, entry=True)


def _doc_at(path: KeyPath, types: FieldType) -> str:
    above = FieldType((Settings,)).at(path[:-1])
    models = above.models if above else []
    return next((_plain(doc) for model in models if types.field and (doc := field_doc(model, types.field))), "")


def _rows(model: type[BaseModel], path: KeyPath, given: Mapping[str, Any]) -> Iterator[dict[str, Any] | None]:
    for key, types in fields(model).items():
        inherited = model is AgentEntry and key in fields(AgentDefaults) and key not in given
        if inherited or _is_section(types) or _inner(types) is not None:
            continue
        yield _row(
            model,
            (*path, key),
            types,
            "null" if key in given and given[key] is None and takes_null(types) else given.get(key),
        )


def _row(model: type[BaseModel], path: KeyPath, types: FieldType, written: Any) -> dict[str, Any]:
    kind = kind_of(types)
    shown, hidden = shown_value(written, secret=holds_secret(types))
    return {
        "key": dotted_key(path),
        "name": str(path[-1]),
        "kind": kind,
        "choices": _choices(types),
        "type": _unmarked(type_words(types)),
        "default": _unmarked(default_words(types)),
        "doc": _plain(field_doc(model, types.field) if types.field else ""),
        "reload": reload_mode(path),
        "set": written is not None,
        "value": shown,
        "hidden": hidden,
    }


def kind_of(types: FieldType) -> Kind:
    """Return how a key is entered."""
    kinds = [kind for kind in types.kinds if kind is not type(None)]
    if types.secret:
        return "secret"
    if _choices(types):
        return "choice"
    if kinds == [bool]:
        return "switch"
    if kinds == [int]:
        return "whole"
    if kinds and set(kinds) <= {int, float}:
        return "number"
    return "text" if types.only_text else "values"


def shown_value(written: Any, *, secret: bool) -> tuple[str | None, bool]:
    """Return the text by which a value of the file is shown and entered again, and whether something of it is not shown.

    A reference to a secret (``env:NAME``, ``file:PATH``, ``${NAME}``) is none itself, and is shown.
    """
    if written is None:
        return None, False
    if secret and not (isinstance(written, str) and is_reference(written)):
        return None, True
    masked = mask_passwords(_without_secrets(written))
    text = masked if isinstance(masked, str) else bracketed(masked)
    return text, MASK in text


def is_reference(text: str) -> bool:
    """Whether a text only says where a secret is."""
    return text.startswith(("env:", "file:")) or (text.startswith("${") and text.endswith("}") and text.count("$") == 1)


def _without_secrets(value: Any) -> Any:
    """Return values in which texts below keys with names of secrets are masked."""
    if isinstance(value, Mapping):
        return {
            key: MASK if isinstance(one, str) and NAMES.search(str(key)) and not is_reference(one) else _without_secrets(one)
            for key, one in value.items()
        }
    return [_without_secrets(one) for one in value] if isinstance(value, list) else value


def _is_section(types: FieldType) -> bool:
    return bool(types.models) and {*types.kinds} - {type(None)} <= {*types.models}


def _inner(types: FieldType) -> tuple[Literal["table", "list"], type[BaseModel]] | None:
    """Return the model of the entries, for a table or a list of sections."""
    for kind in types.kinds:
        origin, arguments = get_origin(kind), get_args(kind)
        of_models = [one for one in arguments if isinstance(one, type) and issubclass(one, BaseModel)]
        if of_models and isinstance(origin, type):
            return ("table" if issubclass(origin, Mapping) else "list"), of_models[0]
    return None


def _choices(types: FieldType) -> list[str]:
    kinds = [kind for kind in types.kinds if kind is not type(None)]
    if not kinds or any(get_origin(kind) is not Literal for kind in kinds):
        return []
    found = [one for kind in kinds for one in get_args(kind)]
    return [str(one) for one in found] if all(isinstance(one, str) for one in found) else []


def holds_secret(types: FieldType) -> bool:
    """Whether a secret may stand in a value, at whatever depth."""
    return any(_is_or_holds_secret(kind) for kind in types.kinds)


def _is_or_holds_secret(kind: Any) -> bool:
    if kind is SecretStr:
        return True
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return any(holds_secret(types) for types in fields(kind).values())
    inner = () if get_origin(kind) is Literal else get_args(kind)
    return any(holds_secret(FieldType.of(one)) for one in inner if one is not Ellipsis)


def _unmarked(markdown: str) -> str:
    return markdown.replace("\\|", "|").replace("`", "")


def _size(given: Any) -> int:
    return len(given) if isinstance(given, Mapping | list) else 0


def _plain(doc: str) -> str:
    return " ".join(doc.split()).replace("`", "")
