"""Changes one setting in the text of a settings file and leaves every other character as it is: comments, order, spacing.

The place is found in the tree of nodes and only that stretch of text is exchanged. The result is read again and compared
with what was meant; where a file is written so unusually that the two differ (aliases, say), the edit is refused.
"""

from __future__ import annotations

import copy
import re
from typing import Any

from gateway.base.errors import HomebodyError, SettingsError
from gateway.config.document import Document, read_document
from gateway.config.key import KeyPath, dotted
from gateway.config.node import Node, child, plain
from gateway.config.splice import appended, bracket_appended, cut_block, cut_bracketed, replaced
from gateway.config.writing import yaml_lines


class EditRefused(HomebodyError):
    """Raised when a setting cannot be changed at its place; nothing was written."""


def with_value(document: Document, path: KeyPath, value: Any) -> str:
    """Return the text with ``path`` set to ``value``; sections on the way are made. Raises EditRefused."""
    root = document.root
    expected = _expected(plain(root) if root else {}, path, value)
    if root is None:
        return _verified(document, _begun(document, _nested(path, value)), expected, path)
    node, depth = root, 0
    while depth < len(path) and (below := child(node, path[depth])) is not None:
        node, depth = below, depth + 1
    block = _indented(root, path[:depth])
    if depth == len(path) or node.kind == "scalar":
        text = replaced(document.text, node, _nested(path[depth:], value), block=block)
    elif node.block:
        text = appended(document.text, node, path[depth], _nested(path[depth + 1 :], value))
    else:
        text = bracket_appended(document.text, node, path[depth], _nested(path[depth + 1 :], value))
    return _verified(document, text, expected, path)


def without(document: Document, path: KeyPath) -> str:
    """Return the text with ``path`` taken out. Raises EditRefused, also for a setting that is not there."""
    parent = document.root
    for step in path[:-1]:
        parent = child(parent, step) if parent else None
    index = next((i for i, c in enumerate(_steps(parent)) if c == path[-1]), None) if parent else None
    if parent is None or index is None or document.root is None:
        raise EditRefused(f"{dotted(path)} is not set in {document.file}", hint="`homebody config get` shows what is set.")
    expected = plain(document.root)
    section = expected
    for step in path[:-1]:
        section = section[step]
    del section[path[-1]]
    text = cut_block(document.text, parent, index) if parent.block else cut_bracketed(document.text, parent, index)
    return _verified(document, text, expected, path)


def _expected(values: Any, path: KeyPath, value: Any) -> Any:
    values = copy.deepcopy(values)
    here = values
    for depth, step in enumerate(path[:-1]):
        below = here.get(step) if isinstance(here, dict) else here[step] if _has(here, step) else None
        if below is None:
            _put(here, step, _nested(path[depth + 1 :], value), path)
            return values
        if not isinstance(below, dict | list):
            raise EditRefused(f"{dotted(path[: depth + 1])} is a single value, not a section", hint="Unset it first.")
        here = below
    _put(here, path[-1], value, path)
    return values


def _put(here: Any, step: str | int, value: Any, path: KeyPath) -> None:
    if (isinstance(here, dict) and isinstance(step, str)) or _has(here, step):
        here[step] = value
    elif isinstance(here, list) and step == len(here):
        here.append(value)
    else:
        kind = "a list takes [0], [1] ..., and [n] only where n - 1 is" if isinstance(here, list) else "a section takes names"
        raise EditRefused(f"{dotted(path)} does not fit: {kind}")


def _has(here: Any, step: str | int) -> bool:
    return isinstance(here, list) and isinstance(step, int) and step < len(here)


def _nested(path: KeyPath, value: Any) -> Any:
    for step in reversed(path):
        if isinstance(step, int) and step:
            raise EditRefused(f"a new list begins at [0], not at [{step}]")
        value = [value] if isinstance(step, int) else {step: value}
    return value


def _indented(root: Node, path: KeyPath) -> bool:
    """Whether the value at ``path`` stands in YAML's indented form, all the way down to it."""
    node: Node | None = root
    for step in path:
        if node is None or not node.block:
            return False
        node = child(node, step)
    return root.block


def _begun(document: Document, value: Any) -> str:
    head = document.text if not document.text or document.text.endswith("\n") else document.text + "\n"
    if document.file.endswith((".json", ".json5")):
        import json

        return head + json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return re.sub(r"^---[ \t]*\n|\A(?:null|~)\s*\Z", "", head, flags=re.MULTILINE) + "\n".join(yaml_lines(value)) + "\n"


def _verified(document: Document, text: str, expected: Any, path: KeyPath) -> str:
    try:
        root = read_document(text, document.file).root
        if _without_empty(plain(root) if root else {}) == _without_empty(expected):
            return text
    except SettingsError:
        pass
    raise EditRefused(
        f"{dotted(path)} cannot be changed here without touching other settings",
        where=document.file,
        hint="Change it by hand in an editor, then run: homebody config validate",
    )


def _without_empty(value: Any) -> Any:
    """Leave out sections that hold nothing: a key without a value means the same as no key."""
    if isinstance(value, dict):
        kept = {key: _without_empty(child_value) for key, child_value in value.items()}
        return {key: child_value for key, child_value in kept.items() if child_value is not None} or None
    if isinstance(value, list):
        return [_without_empty(item) for item in value] or None
    return value


def _steps(node: Node) -> list[str | int]:
    return (
        [entry.key for entry in node.value]
        if node.kind == "map"
        else list(range(len(node.value) if node.kind == "list" else 0))
    )
