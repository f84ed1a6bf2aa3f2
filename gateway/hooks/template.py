"""Templates of hooks that send a text without a model: ``{title}`` and ``{alert.labels.name}`` stand for values of the body."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from agent.taint import neutralised

if TYPE_CHECKING:
    from gateway.hooks.payload import Payload

LONGEST_VALUE: Final = 300
"""Characters of one value."""
LONGEST_TEXT: Final = 1500
"""Characters of a whole message: one of every platform."""
WHOLE: Final = "body"
"""The field that stands for the whole body, unless it has a field of that name."""
_FIELD: Final = re.compile(r"\{\{|\}\}|\{([^{}\n]{1,200})\}")
_PYTHON: Final = re.compile(r"![rsa]$|:[<>=^]?\d+[a-z]?$")
"""What Python's templates have behind a name and these do not."""
_MARKUP: Final = re.compile(r"([\\`*_~|<>\[\]@#])")
"""What platforms and Markdown read as more than a letter: links, mentions of people, formatting."""


def fields_of(template: str) -> list[str]:
    """Return the names of the fields in a template, each once."""
    return list(dict.fromkeys(found[1].strip() for found in _FIELD.finditer(template) if found[1] is not None))


def stray_brace(template: str) -> str:
    """Return what of a template has a brace that belongs to no field, or a field of nothing; "" if nothing has."""
    for found in _FIELD.finditer(template):
        if found[1] is not None and (not found[1].strip() or _PYTHON.search(found[1])):
            return found[0]
    left = _FIELD.sub("", template)
    return next((brace for brace in "{}" if brace in left), "")


def render(template: str, payload: Payload) -> str:
    """Return the template with its fields filled. Values are plain text of one line, cut to ``LONGEST_VALUE``; unknown fields are "?".

    ``{{`` and ``}}`` stand for braces.
    """

    def filled(found: re.Match[str]) -> str:
        return found[0][0] if found[1] is None else plain(_value(payload, found[1].strip()))

    text = _FIELD.sub(filled, template)
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1].rstrip() + "…"


def plain(value: str) -> str:
    """Return a value as one line in which nothing is a link, a mention, formatting, or a mark of ours."""
    line = " ".join("".join(one if one.isprintable() else " " for one in value).split())
    line = line if len(line) <= LONGEST_VALUE else line[: LONGEST_VALUE - 1].rstrip() + "…"
    return _MARKUP.sub(r"\\\1", neutralised(line))


def _value(payload: Payload, name: str) -> str:
    found = _value_at(payload.value, name)
    if found is None and name == WHOLE:
        return payload.text
    if isinstance(found, str):
        return found
    return "?" if found is None else json.dumps(found, ensure_ascii=False)


def _value_at(value: Any, name: str) -> Any:
    """Return the value at a path such as ``alert.labels.0``, or None. A field whose own name has dots is found too."""
    if isinstance(value, dict) and name in value:
        return value[name]
    for part in name.split("."):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and part.isascii():
            value = value[int(part)] if len(part) < 5 and int(part) < len(value) else None  # noqa: PLR2004 -- no list is longer
        else:
            return None
    return value
