"""Styled text (nested styles, which every platform writes in its own notation), and CommonMark converted to it.

markdown-it-py parses (with tables and strike-through); blocks are laid out as lines: headings bold, lists with bullets
and indents, tables as aligned code. Raw HTML is text like any other. Nothing here knows a platform.

The parser looks ahead from each ``[`` for its end, and tries nested quotes and lists again at every line, so a text full of such
marks would cost the square of its length. Its steps are counted, and a text that takes too many is shown as it was written.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from channels.common.kept_text import keep_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode


Style = Literal["bold", "italic", "strike", "code", "pre", "quote", "link"]


class Span(Struct, frozen=True):
    """Text in one style. ``detail`` is a link's address or a code block's language. Code holds one plain string."""

    style: Style
    parts: Styled
    detail: str = ""


Styled = tuple["str | Span", ...]


def plain(styled: Styled) -> str:
    """Return the text without styles, which is what platforms count."""
    return "".join(part if isinstance(part, str) else plain(part.parts) for part in styled)


def prefixed(styled: Styled, prefix: str) -> Styled:
    """Return the text with a prefix on every further non-empty line, except inside code blocks."""
    return tuple(
        re.sub(r"\n(?!\n)", "\n" + prefix, part)
        if isinstance(part, str)
        else part
        if part.style == "pre"
        else Span(part.style, prefixed(part.parts, prefix), part.detail)
        for part in styled
    )


STEPS: Final = 500
STEPS_A_LETTER: Final = 1.5
"""How often the parser may try to begin a block or skip a mark. Prose takes a tenth of a step per character, the shortest lists one."""
_LEFT: Final = "steps left"


class TooDense(Exception):
    """A text took too many parser steps for its length; it is shown as it was written."""


def metered(parser: MarkdownIt) -> MarkdownIt:
    """Make a parser keep all that is written and count its steps; it raises TooDense when the steps of ``allowance`` are used up."""

    def tries_a_block(state: StateBlock, _start: int, _end: int, _silent: bool) -> bool:
        _step(state.env)
        return False

    skip = parser.inline.skipToken

    def looks_past(state: StateInline) -> None:
        _step(state.env)
        skip(state)

    parser.block.ruler.before("table", "meter", tries_a_block, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    parser.inline.skipToken = looks_past  # type: ignore[method-assign]
    return keep_text(parser)


def allowance(text: str) -> dict[str, Any]:
    """Return the environment in which a metered parser parses ``text``."""
    return {_LEFT: STEPS + STEPS_A_LETTER * len(text)}


def _step(env: Any) -> None:
    left = env.get(_LEFT)
    if left is not None:
        if left < 0:
            raise TooDense
        env[_LEFT] = left - 1


log = logging.getLogger(__name__)

LINKS = ("http://", "https://", "mailto:")
"""The only URL schemes that become links; others are shown as text, for a platform's own may notify people: ``tg://user?id=7``."""
_ADDRESS = re.compile(
    r"([a-z][a-z0-9+.-]*://)?(?:[^\s/?#@]*@)?([a-z0-9-]+(?:\.[a-z0-9-]+)+)(?:[:/?#].*)?", re.IGNORECASE | re.DOTALL
)
_ENDINGS = frozenset({"com", "net", "org", "info", "gov", "edu", "io", "de", "at", "ch", "eu", "uk", "fr", "nl"})
"""Top-level domains by which a label counts as an address; ``README.md`` does not."""
DEEPEST = 60
"""A text with deeper nesting is shown as it was written."""
RULE = "———"
_MARKS: dict[str, Style] = {"strong": "bold", "em": "italic", "s": "strike"}


@cache
def parser() -> MarkdownIt:
    """Return the shared parser; markdown-it is imported when the first text is rendered."""
    from markdown_it import MarkdownIt

    return metered(MarkdownIt("commonmark", {"html": False, "maxNesting": 2 * DEEPEST}).enable(["table", "strikethrough"]))


def parsed(markdown: str) -> list[Token] | None:
    """Return a text's tokens, or None for a text that is nested too deeply or takes too many parser steps."""
    try:
        tokens = parser().parse(markdown, allowance(markdown))
    except TooDense:
        return None
    return None if _depth(tokens) > DEEPEST else tokens


LONGEST_KEPT: Final = 8000
"""Longer texts are not kept by ``styled``, in characters."""


def styled(markdown: str) -> Styled:
    """Return the text with its styles. Never raises, whatever the text. A text is measured, cut and sent, so the last ones are kept."""
    return _recently_styled(markdown) if len(markdown) <= LONGEST_KEPT else _styled(markdown)


def _styled(markdown: str) -> Styled:
    from markdown_it.tree import SyntaxTreeNode

    clean = markdown if markdown.isascii() else markdown.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        tokens = parsed(clean)
        return (clean,) if tokens is None else _blocks(SyntaxTreeNode(tokens).children)
    except Exception:  # a parser failure must not hide a text
        log.warning("a text could not be laid out and is shown as it was written", exc_info=True)
        return (clean,)


_recently_styled = lru_cache(maxsize=32)(_styled)


def _depth(tokens: Sequence[Token]) -> int:
    deepest = here = 0
    for token in tokens:
        here += token.nesting
        deepest = max(deepest, here + (_depth(token.children) if token.children else 0))
    return deepest


def _blocks(nodes: Sequence[SyntaxTreeNode], *, tight: bool = False) -> Styled:
    """Lay out blocks below each other: with an empty line between them, or none in a tight list."""
    laid: list[str | Span] = []
    for node in nodes:
        block = _block(node)
        if block:
            tight_here = tight or (node.type == "paragraph" and node.hidden)
            laid += (("\n" if tight_here else "\n\n") if laid else "", *block)
    return tuple(laid)


def _block(node: SyntaxTreeNode) -> Styled:
    laid: Styled
    match node.type:
        case "heading":
            laid = _spanned("bold", _inlines(node.children))
        case "paragraph":
            laid = _inlines(node.children)
        case "fence" | "code_block":
            words = node.info.split(maxsplit=1)
            laid = _spanned("pre", (node.content.removesuffix("\n"),), words[0] if words else "")
        case "blockquote":
            laid = _spanned("quote", _blocks(node.children))
        case "bullet_list" | "ordered_list":
            laid = _list(node)
        case "table":
            laid = _spanned("pre", (_table(node),))
        case _:
            laid = (RULE if node.type == "hr" else node.content,)
    return laid


def _spanned(style: Style, parts: Styled, detail: str = "") -> Styled:
    """Return one span, or nothing for empty content."""
    return (Span(style, parts, detail),) if plain(parts) else ()


def _list(node: SyntaxTreeNode) -> Styled:
    number = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
    tight = all(child.hidden for item in node.children for child in item.children if child.type == "paragraph")
    laid: list[str | Span] = []
    for item in node.children:
        mark = "• " if number is None else f"{number}. "
        number = None if number is None else number + 1
        body = prefixed(_blocks(item.children, tight=tight), " " * len(mark))
        laid += ((("\n" if tight else "\n\n") if laid else "") + mark, *body)
    return tuple(laid)


def _inlines(nodes: Sequence[SyntaxTreeNode]) -> Styled:
    return tuple(part for node in nodes for part in _inline(node))


def _inline(node: SyntaxTreeNode) -> Styled:
    laid: Styled
    match node.type:
        case "inline":
            laid = _inlines(node.children)
        case "strong" | "em" | "s":
            laid = _spanned(_MARKS[node.type], _inlines(node.children))
        case "code_inline":
            laid = _spanned("code", (node.content,))
        case "link" | "image":
            laid = _link(_inlines(node.children), str(node.attrs.get("href") or node.attrs.get("src") or ""))
        case _:
            laid = ("\n" if node.type.endswith("break") else node.content,)
    return laid


def _link(label: Styled, address: str) -> Styled:
    """Return a link, or the label and the address as text if the address may not be a link."""
    text = plain(label)
    if not text.strip():
        return (address,)
    if address.lower().startswith(LINKS) and not misleads(text, address):
        return (Span("link", label, address),)
    return label if not address or address == text else (*label, f" ({address})")


def misleads(label: str, address: str) -> bool:
    """Return whether a label looks like an address of another host than the link's."""
    named = _ADDRESS.fullmatch(label.strip())
    if named is None:
        return False
    host = named[2].lower()
    if not (named[1] or host.startswith("www.") or host.rpartition(".")[2] in _ENDINGS):
        return False
    meant = _ADDRESS.fullmatch(address.removeprefix("mailto:"))
    return meant is None or host.removeprefix("www.") != meant[2].lower().removeprefix("www.")


def _table(node: SyntaxTreeNode) -> str:
    """Return a table as lines of equal width, columns aligned as their header says."""
    rows = [
        [plain(_inlines(cell.children)).replace("\n", " ") for cell in row.children]
        for part in node.children
        for row in part.children
    ]
    sides = [str(cell.attrs.get("style", "")) for cell in node.children[0].children[0].children]
    widths = [max(_width(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [" │ ".join(_padded(*cell) for cell in zip(row, widths, sides, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "─┼─".join("─" * width for width in widths), *lines[1:]])


def _padded(text: str, width: int, side: str) -> str:
    room = width - _width(text)
    if "right" in side:
        return " " * room + text
    before = room // 2 if "center" in side else 0
    return " " * before + text + " " * (room - before)


def _width(text: str) -> int:
    """Return the columns a text takes in a fixed-width font: wide letters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text
    )
