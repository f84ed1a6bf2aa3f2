"""YAML as the settings are read: safe, YAML 1.2 words (``off`` is a word, ``22:30`` is not a number), every place known."""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

from gateway.base.errors import SettingsError
from gateway.base.problem import Problem
from gateway.config.node import Entry, Node, paired

_TAG = "tag:yaml.org,2002:"
_MERGE_KEY = "<<"


class _Loader(yaml.SafeLoader):
    """Resolves plain words as YAML 1.2's core schema does, but leaves numbers with a leading 0 or + as they are written."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 -- PyYAML's own declaration


_Loader.add_implicit_resolver(_TAG + "null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(_TAG + "bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver(_TAG + "int", re.compile(r"^-?(?:0|[1-9]\d{0,29})$"), list("-0123456789"))
_Loader.add_implicit_resolver(
    _TAG + "float", re.compile(r"^-?(?:(?:0|[1-9]\d{0,29})(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?$"), list("-.0123456789")
)


def read_yaml(text: str, file: str) -> Node | None:
    """Read one document; None when it is empty. Raises SettingsError."""
    reading = _Reading(file)
    try:
        root = yaml.compose(text, Loader=_Loader)
        node = reading.convert(root) if root is not None else None
    except yaml.MarkedYAMLError as error:
        raise SettingsError([_told(error, file)]) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        shown = f"U+{error.character:04X}"
        problem = Problem(f"holds {shown}, which YAML does not allow", file=file, line=line, hint="Delete that character.")
        raise SettingsError([problem]) from error
    except RecursionError as error:
        raise SettingsError([Problem("is nested too deeply", file=file)]) from error
    if reading.problems:
        raise SettingsError(reading.problems)
    return node


class _Reading:
    """Turns PyYAML's nodes into ours, collecting what is wrong with them."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self._open: set[int] = set()
        self._done: dict[int, Node] = {}

    def convert(self, node: yaml.Node) -> Node:
        known = self._done.get(id(node))
        if known is not None:
            return known
        if id(node) in self._open:
            return self._wrong(node, "refers to itself", "Write the value out instead of the alias.")
        self._open.add(id(node))
        converted = self._convert(node)
        self._open.discard(id(node))
        self._done[id(node)] = converted
        return converted

    def _convert(self, node: yaml.Node) -> Node:
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self._place(node, "map", self._entries(node))
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return self._place(node, "list", tuple(self.convert(child) for child in node.value))
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            try:
                return self._place(node, "scalar", _SCALARS[node.tag](node.value))
            except ValueError:
                wanted = "a whole number" if node.tag == _TAG + "int" else "a number"
                return self._wrong(
                    node, f"{node.value!r} is marked as {wanted} and is none", "Correct it, or take the tag away."
                )
        return self._wrong(
            node, f"the tag {node.tag.removeprefix(_TAG)!r} has no meaning in the settings", "Write a plain value."
        )

    def _entries(self, node: yaml.MappingNode) -> tuple[Entry, ...]:
        own: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._wrong(key_node, "a key must be a word, not a list or a section", "Write the key as text.")
                continue
            key, mark = paired(key_node.value), key_node.start_mark
            value = self.convert(value_node)
            if key == _MERGE_KEY and not key_node.style:
                for source in value.value if value.kind == "list" else (value,):
                    merged = {entry.key: entry for entry in (source.value if source.kind == "map" else ())} | merged
            elif key in own:
                self._wrong(key_node, f"the key {key!r} is there twice (first on line {own[key].line})", "Keep one of the two.")
            else:
                own[key] = Entry(key, value, mark.index, mark.line + 1)
        return tuple((merged | own).values())

    def _place(self, node: yaml.Node, kind: str, value: Any) -> Node:
        start, end = node.start_mark, node.end_mark
        block = isinstance(node, yaml.CollectionNode) and not node.flow_style
        return Node(kind, value, start.index, end.index, start.line + 1, block)

    def _wrong(self, node: yaml.Node, message: str, hint: str) -> Node:
        self.problems.append(Problem(message, file=self.file, line=node.start_mark.line + 1, hint=hint))
        return self._place(node, "scalar", None)


def _number(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


_SCALARS: dict[str, Any] = {
    _TAG + "null": lambda _: None,
    _TAG + "bool": lambda text: text.lower() == "true",
    _TAG + "int": int,
    _TAG + "float": _number,
    _TAG + "str": paired,
}


def _told(error: yaml.MarkedYAMLError, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 0
    message = " ".join(filter(None, (error.context, error.problem)))
    hint = "Look at this line and the one above: a missing quote, bracket or colon, or wrong indentation."
    if "'\\t'" in message:
        message, hint = "a tab stands where only spaces may", "Indent with spaces."
    elif "found undefined alias" in message or "found another document" in message or "but found another" in message:
        hint = "A settings file is one document; remove what is below the `---`." if "document" in message else ""
    elif "<stream end>" in message or "unexpected end" in message:
        hint = "The file seems to end too early: something was opened and never closed."
    return Problem(f"is not valid YAML: {message}", file=file, line=line, hint=hint)
