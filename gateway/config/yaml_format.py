"""Reads and writes YAML with PyYAML: as in YAML 1.2, ``off`` is text, and tags have no meaning.

ruamel.yaml would not make this shorter: it reads 007, 1_000 and 2001-12-14 as numbers and dates too unless its rules are replaced.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml
from msgspec.structs import replace

from gateway.base.errors import Problem, SettingsError
from gateway.config.syntax_tree import Node, join_surrogates

_TAG = "tag:yaml.org,2002:"
_MERGE_KEY = "<<"
_FLOAT = re.compile(r"^-?(?:(?:0|[1-9]\d{0,29})(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?$")


class _Loader(yaml.SafeLoader):
    """Recognises the words of YAML 1.2's core schema; numbers with a leading 0 or + (ids, phone numbers) stay text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 -- PyYAML's own declaration


_Loader.add_implicit_resolver(_TAG + "null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(_TAG + "bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Loader.add_implicit_resolver(_TAG + "int", re.compile(r"^-?(?:0|[1-9]\d{0,29})$"), list("-0123456789"))
_Loader.add_implicit_resolver(_TAG + "float", _FLOAT, list("-.0123456789"))


def read_yaml(text: str, file: str) -> Node | None:
    """Parse one document; None when it is empty. Raises SettingsError."""
    converter = _Converter(file)
    try:
        root = yaml.compose(text, Loader=_Loader)
        node = converter.convert(root) if root is not None else None
    except yaml.MarkedYAMLError as error:
        raise SettingsError([_syntax_problem(error, file)]) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"holds U+{error.character:04X}, which YAML does not allow"
        raise SettingsError([Problem(message, file=file, line=line, hint="Delete that character.")]) from error
    except RecursionError as error:
        raise SettingsError([Problem("is nested too deeply", file=file)]) from error
    if converter.problems:
        raise SettingsError(converter.problems)
    return node


class _Converter:
    """Converts PyYAML's nodes, each once however many aliases it has, and collects what is wrong with them."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self._converted: dict[int, Node | None] = {}
        """By the id of a PyYAML node; None while it is being converted."""

    def convert(self, node: yaml.Node) -> Node:
        if id(node) in self._converted:
            known = self._converted[id(node)]
            return known or self._reject(node, "refers to itself", "Write the value out instead of the alias.")
        self._converted[id(node)] = None
        converted = self._converted[id(node)] = self._convert(node)
        return converted

    def _convert(self, node: yaml.Node) -> Node:
        kind = node.tag.removeprefix(_TAG)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._node(node, self._entries(node))
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return self._node(node, [self.convert(child) for child in node.value])
        if isinstance(node, yaml.ScalarNode) and kind in _SCALARS:
            try:
                return self._node(node, _SCALARS[kind](node.value))
            except ValueError:
                wanted = "a whole number" if kind == "int" else "a number"
                return self._reject(node, f"{node.value!r} is marked as {wanted} and is none", "Correct it, or remove the tag.")
        return self._reject(node, f"the tag {kind!r} has no meaning in the settings", "Write a plain value.")

    def _entries(self, node: yaml.MappingNode) -> dict[str, Node]:
        """Return the values by key; keys taken over by ``<<`` come first and give way to the section's own."""
        own: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._reject(key_node, "a key must be a word, not a list or a section", "Write the key as text.")
                continue
            key, mark = join_surrogates(key_node.value), key_node.start_mark
            value = self.convert(value_node)
            if key == _MERGE_KEY and not key_node.style:
                for source in value.value if isinstance(value.value, list) else [value]:
                    merged = (source.value if isinstance(source.value, dict) else {}) | merged
            elif key in own:
                self._reject(
                    key_node, f"the key {key!r} is there twice (first on line {own[key].line})", "Keep one of the two."
                )
            else:
                own[key] = replace(value, entry_start=mark.index, line=mark.line + 1)
        return merged | own

    def _node(self, node: yaml.Node, value: Any) -> Node:
        start, end = node.start_mark, node.end_mark
        block = isinstance(node, yaml.CollectionNode) and not node.flow_style
        return Node(value, start.index, end.index, start.line + 1, start.index, block)

    def _reject(self, node: yaml.Node, message: str, hint: str) -> Node:
        self.problems.append(Problem(message, file=self.file, line=node.start_mark.line + 1, hint=hint))
        return self._node(node, None)


def _float(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


_SCALARS: dict[str, Any] = {
    "null": lambda _: None,
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": _float,
    "str": join_surrogates,
}


def _syntax_problem(error: yaml.MarkedYAMLError, file: str) -> Problem:
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


class _Dumper(yaml.SafeDumper):
    """Writes lists indented below their key, and double quotes where a text needs quotes."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 -- PyYAML's signature
        super().increase_indent(flow, indentless=False)

    def choose_scalar_style(self) -> str:
        return super().choose_scalar_style().replace("'", '"')

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- PyYAML's signature
        return True


_Dumper.add_implicit_resolver(
    _TAG + "bool", re.compile(r"^[yYnN]$"), list("yYnN")
)  # true and false in YAML 1.1, but not in PyYAML
_Dumper.add_implicit_resolver(_TAG + "float", _FLOAT, list("-.0123456789"))  # 1e3 is text in YAML 1.1


def yaml_lines(value: Any) -> list[str]:
    """Return a value as the lines of YAML's indented form, which readers of YAML 1.1 and 1.2 understand alike."""
    text: str = yaml.dump(value, Dumper=_Dumper, width=math.inf, allow_unicode=True, sort_keys=False, default_flow_style=False)
    return text.removesuffix("\n").removesuffix("\n...").split("\n")
