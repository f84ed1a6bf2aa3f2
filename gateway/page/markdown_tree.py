"""Markdown as a small tree of JSON values, of which the page makes elements. No HTML comes of it, whatever the text holds.

A node is a text, or a list: the name of its element, then a dictionary of attributes where it has any, then its children.
Raw HTML stays text. Pictures become links, so that reading an answer asks no other machine for anything.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from channels.common.markdown import DEEPEST, LINKS, TooDense, allowance, metered

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

Node: TypeAlias = "str | list[Any]"

LONGEST: Final = 100_000
"""A longer text is shown as it was written."""
_PLAIN: Final = {
    "paragraph": "p",
    "blockquote": "blockquote",
    "bullet_list": "ul",
    "list_item": "li",
    "em": "em",
    "strong": "strong",
    "s": "s",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
}
_ADDRESS: Final = re.compile(r"(?<![\w/])https?://[^\s<>\"`“”«»]{1,2000}", re.IGNORECASE)
_PUNCTUATION: Final = ".,;:!?'*_~…]}"
_BREAKS: Final = {"hardbreak": ["br"], "softbreak": "\n", "hr": ["hr"]}

log = logging.getLogger(__name__)


def tree_of(text: str) -> list[Node]:
    """Return the tree of a text. Never fails: what cannot be parsed is shown as it was written."""
    if len(text) > LONGEST:
        return [["pre", text]]
    try:
        from markdown_it.tree import SyntaxTreeNode

        root = SyntaxTreeNode(_parser().parse(text, allowance(text)))
        return _children(root, 0)
    except (TooDense, RecursionError):
        return [["pre", text]]
    except Exception:  # whatever a parser does with a text that somebody made up, its words are shown
        log.exception("a text of %d characters could not be parsed", len(text))
        return [["pre", text]]


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return metered(MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST}).enable(["table", "strikethrough"]))


def _children(node: SyntaxTreeNode, depth: int) -> list[Node]:
    if depth > DEEPEST:
        raise TooDense
    found: list[Node] = []
    for child in node.children:
        found.extend(_nodes(child, depth + 1))
    return found


def _nodes(node: SyntaxTreeNode, depth: int) -> Sequence[Node]:
    kind = node.type
    if kind == "text":
        return list(_with_addresses(node.content))
    if kind in {"html_inline", "html_block"}:
        return [node.content] if node.content else []
    if kind in _BREAKS:
        return [_BREAKS[kind]]  # type: ignore[list-item]  # mypy joins the values' types
    if kind in {"code_block", "fence"}:
        words = node.info.split() if kind == "fence" else []
        return [["pre", *([{"lang": words[0][:40]}] if words else []), node.content]]
    if kind == "code_inline":
        return [["code", node.content]]
    return _element(node, depth)


def _element(node: SyntaxTreeNode, depth: int) -> Sequence[Node]:
    kind = node.type
    below = _children(node, depth)
    if kind in _PLAIN or kind == "heading":
        return below if kind == "paragraph" and node.hidden else [[_PLAIN.get(kind, node.tag), *below]]
    if kind == "ordered_list":
        start = node.attrs.get("start", 1)
        return [["ol", *([{"start": start}] if start != 1 else []), *below]]
    if kind in {"th", "td"}:
        align = str(node.attrs.get("style", "")).removeprefix("text-align:")
        return [[kind, *([{"align": align}] if align in {"left", "right", "center"} else []), *below]]
    if kind == "link":
        return _link(str(node.attrs.get("href", "")), below)
    if kind == "image":
        return _link(str(node.attrs.get("src", "")), [node.content or str(node.attrs.get("src", ""))])
    return below


def _link(target: str, below: list[Node]) -> Sequence[Node]:
    """Return a link, if it is of a kind that opens a page or writes a mail; otherwise its text."""
    return [["a", {"href": target}, *_without_links(below)]] if target.lower().startswith(LINKS) else below


def _without_links(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        if isinstance(node, str):
            yield node
        elif node[0] == "a":
            yield from _without_links(node[2:])
        else:
            yield [node[0], *(one if isinstance(one, dict) else next(_without_links([one])) for one in node[1:])]


def _with_addresses(text: str) -> Iterator[Node]:
    """Yield a text with the addresses in it as links, without the punctuation of the sentence that they stand in."""
    shown = 0
    for found in _ADDRESS.finditer(text):
        address = found[0].rstrip(_PUNCTUATION)
        while address.endswith(")") and address.count(")") > address.count("("):
            address = address[:-1].rstrip(_PUNCTUATION)
        if len(address) <= address.index("/") + 2:
            continue
        if before := text[shown : found.start()]:
            yield before
        yield ["a", {"href": address}, address]
        shown = found.start() + len(address)
    if rest := text[shown:]:
        yield rest
