"""A settings file as a tree that remembers where everything stands, whichever notation it was written in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.config.key import KeyPath

Scalar = str | int | float | bool | None
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
MAX_VALUES = 50_000  # a settings file has hundreds; an alias bomb has billions


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place: ``start`` and ``end`` are character offsets into the text, ``line`` counts from 1.

    ``value`` is a scalar, a tuple of entries (a section) or a tuple of nodes (a list); ``kind`` says which. ``block`` says
    that it is written one line below the other (YAML's indented form) and not within brackets.
    """

    kind: str
    value: Any
    start: int
    end: int
    line: int
    block: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its value. ``start`` and ``line`` are those of the key."""

    key: str
    value: Node
    start: int
    line: int


class TooMuch(ValueError):
    """Raised for a tree that is larger than any settings are."""


def children(node: Node) -> Iterator[tuple[str | int, Node, int]]:
    """Yield step, child and the line of its key or of the list item."""
    if node.kind == "map":
        yield from ((entry.key, entry.value, entry.line) for entry in node.value)
    elif node.kind == "list":
        yield from ((index, child, child.line) for index, child in enumerate(node.value))


def plain(node: Node) -> Any:
    """Return the values alone, as dict, list and scalars. Raises TooMuch."""
    return _plain(node, [MAX_VALUES])


def _plain(node: Node, left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0:
        raise TooMuch(f"more than {MAX_VALUES} values")
    if node.kind == "map":
        return {entry.key: _plain(entry.value, left) for entry in node.value}
    if node.kind == "list":
        return [_plain(child, left) for child in node.value]
    return node.value


def lines(node: Node) -> dict[KeyPath, int]:
    """Return the line of every key and list item. The tree must have passed ``plain``."""
    found: dict[KeyPath, int] = {}
    open_nodes: list[tuple[KeyPath, Node]] = [((), node)]
    while open_nodes:
        path, parent = open_nodes.pop()
        for step, child, line in children(parent):
            found[(*path, step)] = line
            open_nodes.append(((*path, step), child))
    return found


def child(node: Node, step: str | int) -> Node | None:
    """Return the value under a key or index, or None."""
    return next((value for name, value, _ in children(node) if name == step), None)


def paired(text: str) -> str:
    """Join surrogates that were escaped one by one into the character that each pair stands for; a lone half stays."""
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
