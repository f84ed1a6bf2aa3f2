"""Converts pydantic's validation errors into problems: the key, its line, the value found, and what is allowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from gateway.base.errors import Problem
from gateway.config.document import Tree
from gateway.config.field_types import FieldType
from gateway.config.key import KeyPath

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

_LONGEST_SHOWN = 60
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
    "finite_number": _NUMBER,
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
    return tree.problem(
        path, f"{_shown(found, secret=secret)} is not allowed here; allowed: {' or '.join(allowed)}", _hint(found, details)
    )


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
