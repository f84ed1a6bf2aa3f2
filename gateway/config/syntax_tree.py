"""Syntax tree of a settings file: every value with its key path and its position, the same for YAML and JSON5."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

MAX_VALUES = 50_000  # a settings file has hundreds; a YAML alias bomb has billions
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class TooManyValues(ValueError):
    """Raised for a file with more than MAX_VALUES values."""


class Node(Struct, frozen=True):
    """A value and where it stands: ``start`` and ``end`` are character offsets of the value in the text.

    ``value`` is a scalar, a list of nodes or a dict of nodes. For a value below a key, ``line`` (from 1) and ``entry_start`` are
    those of the key; otherwise those of the value. ``block`` tells YAML's indented form from everything else.
    """

    value: dict[str, Node] | list[Node] | str | float | bool | None
    start: int
    end: int
    line: int
    entry_start: int
    block: bool = False

    def children(self) -> Iterator[tuple[str | int, Node]]:
        """Yield each key or index with its value; nothing for a scalar."""
        if isinstance(self.value, dict):
            yield from self.value.items()
        elif isinstance(self.value, list):
            yield from enumerate(self.value)

    def child(self, step: str | int) -> Node | None:
        """Return the value below a key or index, or None."""
        return next((node for name, node in self.children() if name == step), None)


def plain(node: Node | None) -> Any:
    """Return the values without positions, as dict, list and scalars; an empty dict for None. Raises TooManyValues."""
    return {} if node is None else _plain(node, [MAX_VALUES])


def _plain(node: Node, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0:
        raise TooManyValues(f"more than {MAX_VALUES} values")
    if isinstance(node.value, dict):
        return {key: _plain(child, left) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [_plain(child, left) for child in node.value]
    return node.value


def lines(node: Node) -> dict[KeyPath, int]:
    """Return the line of every key and list item. Call ``plain`` first: it limits the size."""
    found: dict[KeyPath, int] = {}
    open_nodes: list[tuple[KeyPath, Node]] = [((), node)]
    while open_nodes:
        path, parent = open_nodes.pop()
        for step, child in parent.children():
            found[(*path, step)] = child.line
            open_nodes.append(((*path, step), child))
    return found


def join_surrogates(text: str) -> str:
    r"""Replace each escaped pair such as ``\ud83d\ude00`` by its one character; a lone surrogate stays."""
    return _SURROGATE_PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)


KeyPath = tuple[str | int, ...]

_STEP = re.compile(r"""\[(\d+)\] | \["((?:[^"\\]|\\.)*)"\] | (?:^|(?<!^)\.)([^.\[\]"]+)""", re.VERBOSE)
_PLAIN = re.compile(r"""[^.\[\]"]+""")


def parse_key(text: str) -> KeyPath:
    """Parse a dotted key. In ``list.0`` the 0 stays text: only the models tell whether it is an index. Raises ValueError."""
    path: list[str | int] = []
    position = 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None or step.end() == position:
            raise ValueError(f"{text!r} is not the name of a setting (at {text[position:]!r})")
        index, quoted, plain = step.groups()
        if index is not None:
            path.append(int(index))
        else:
            path.append(plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        position = step.end()
    if not path:
        raise ValueError("the name of a setting is empty")
    return tuple(path)


def dotted_key(path: KeyPath) -> str:
    """Return a path as text that ``parse_key`` reads back."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _PLAIN.fullmatch(step):
            parts.append(f".{step}" if parts else step)
        else:
            escaped = step.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'["{escaped}"]')
    return "".join(parts)
