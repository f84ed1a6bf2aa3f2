"""What each field of the settings means: the string that stands behind it in the source.

Pydantic can read these while it builds a model, but that makes up half of the time it takes to start any command, and only the
page of settings shows them.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from functools import cache
from typing import TYPE_CHECKING

from pydantic import BaseModel

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


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
