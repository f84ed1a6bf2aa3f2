"""Writes a parsed page as Markdown, with absolute links; navigation and other page furniture can be left out."""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias
from urllib.parse import urljoin

Node: TypeAlias = Any
"""A node of justhtml: ``name``, ``attrs``, ``children``, ``parent``, ``data``."""

DEEPEST: Final = 120
"""Elements nested deeper than this are written as plain text."""
MAX_LINK: Final = 1000
_BLOCK_NAMES: Final = (
    "address article aside blockquote body center dd details dialog dir div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 "
    "header hgroup hr html legend li main menu nav ol p pre search section summary table tbody td tfoot th thead tr ul "
    "#document #document-fragment"
)
_BLOCKS: Final = frozenset(_BLOCK_NAMES.split())
_FURNITURE: Final = frozenset({"nav", "footer", "aside", "menu", "search"})
_FURNITURE_ROLES: Final = frozenset({"navigation", "banner", "contentinfo", "search", "complementary", "menu", "menubar"})
_MARKS: Final = {"b": "**", "strong": "**", "i": "*", "em": "*", "del": "~~", "s": "~~", "strike": "~~"}
_CODE: Final = frozenset({"code", "kbd", "samp", "tt"})
_LISTS: Final = frozenset({"ul", "ol", "menu", "dir"})
_HEADING: Final = re.compile("h[1-6]")
_BLANKS: Final = re.compile(r"[ \t\n\r\f]+")
_ENOUGH: Final = 200
_SHARE: Final = 0.25
"""A part counts as the page's content when it has this many characters and this share of the page's text."""


def main_part(root: Node) -> Node:
    """Return the element that holds the page's content: ``main``, or the longest ``article``; else the whole page without furniture."""
    everything = len(plain_text(root))
    parts = [node for node in _walk(root) if node.name == "main" or (node.attrs or {}).get("role") == "main"]
    articles = [node for node in _walk(root) if node.name == "article"]
    for candidates in (parts, articles):
        best = max(candidates, key=lambda node: len(plain_text(node)), default=None)
        if best is not None and (length := len(plain_text(best))) >= _ENOUGH and length >= _SHARE * everything:
            root = best
            break
    _drop_furniture(root, whole=root.name not in {"main", "article"})
    return root


def markdown_of(root: Node, base: str, *, links: bool = True) -> str:
    """Write a page. ``links``: as Markdown, with headings, emphasis and link targets; otherwise as text alone."""
    blocks = _Writer(base, marked=links).blocks(root, 0)
    return "\n\n".join(blocks)


def plain_text(node: Node) -> str:
    """Return the text of an element, with single blanks."""
    waiting, found = [node], list[str]()
    while waiting:
        one = waiting.pop()
        if one.name == "#text":
            found.append(one.data or "")
        else:
            if one.name in _BLOCKS or one.name == "br":
                found.append(" ")
            waiting.extend(reversed(one.children or ()))
    return _BLANKS.sub(" ", "".join(found)).strip()


class _Writer:
    """Writes elements as blocks: strings between which there is an empty line."""

    def __init__(self, base: str, *, marked: bool) -> None:
        self._base = base
        self._marked = marked

    def blocks(self, node: Node, depth: int) -> list[str]:
        if depth > DEEPEST:
            return [text] if (text := plain_text(node)) else []
        found: list[str] = []
        line: list[str] = []
        for child in node.children or ():
            if child.name in _BLOCKS or self._holds_blocks(child):
                _close(line, found)
                found += self._block(child, depth + 1)
            else:
                line.append(self._inline(child, depth + 1))
        _close(line, found)
        return found

    def _holds_blocks(self, node: Node) -> bool:
        """Whether an inline element, such as a link around a card, has block elements as children."""
        return node.name not in {"#text", "br"} and any(child.name in _BLOCKS for child in node.children or ())

    def _block(self, node: Node, depth: int) -> list[str]:
        writers = {"pre": self._code_block, "hr": self._rule, "blockquote": self._quote, "dt": self._term, "table": self._table}
        writer = (
            self._heading if _HEADING.fullmatch(node.name) else self._list if node.name in _LISTS else writers.get(node.name)
        )
        return writer(node, depth) if writer is not None else self.blocks(node, depth)

    def _heading(self, node: Node, depth: int) -> list[str]:
        text = " ".join(self.line(node, depth).split("\n"))
        return [f"{'#' * int(node.name[1])} {text}" if self._marked else text] if text else []

    def _rule(self, _: Node, __: int) -> list[str]:
        return ["---"] if self._marked else []

    def _quote(self, node: Node, depth: int) -> list[str]:
        inner = "\n\n".join(self.blocks(node, depth))
        return ["\n".join(f"> {line}".rstrip() for line in inner.split("\n"))] if inner else []

    def _term(self, node: Node, depth: int) -> list[str]:
        inner = self.blocks(node, depth)
        return [f"**{inner[0]}**", *inner[1:]] if inner and self._marked else inner

    def line(self, node: Node, depth: int) -> str:
        """Write what is in an element as one paragraph."""
        return _tidy("".join(self._inline(child, depth + 1) for child in node.children or ()))

    def _inline(self, node: Node, depth: int) -> str:
        if node.name in {"#text", "br", "img"}:
            return _leaf(node)
        if depth > DEEPEST:
            return plain_text(node)
        inner = "".join(self._inline(child, depth + 1) for child in node.children or ())
        return f" {inner} " if node.name in _BLOCKS else self._with_marks(node, inner) if self._marked else inner

    def _with_marks(self, node: Node, inner: str) -> str:
        if node.name == "a":
            return self._link(node, inner)
        mark = "`" if node.name in _CODE and "`" not in inner else _MARKS.get(node.name, "")
        return _around(inner, mark) if mark and "\n" not in inner.strip() else inner

    def _link(self, node: Node, text: str) -> str:
        href = ((node.attrs or {}).get("href") or "").strip()
        words = " ".join(text.split())
        if not words or not href or href.startswith("#"):
            return text
        try:
            target = re.sub(r"[\x00-\x20]", "", urljoin(self._base, href))
        except ValueError:
            return text
        if not target.lower().startswith(("http://", "https://")) or len(target) > MAX_LINK:
            return text
        lead, tail = text[: len(text) - len(text.lstrip())][:1], text[len(text.rstrip()) :][:1]
        return f"{lead}[{words.replace('[', '(').replace(']', ')')}]({target.replace('(', '%28').replace(')', '%29')}){tail}"

    def _code_block(self, node: Node, _: int) -> list[str]:
        code = "".join(_raw(node)).strip("\n").rstrip()
        if not code.strip():
            return []
        if not self._marked:
            return [code]
        named = " ".join(
            (one.attrs or {}).get("class") or "" for one in (node, *(node.children or ())) if one.name in {"pre", "code"}
        )
        language = re.search(r"(?:^|\s)(?:language|lang)-([\w+#-]{1,20})", named)
        fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", code)), 3)
        return [f"{fence}{language[1] if language else ''}\n{code}\n{fence}"]

    def _list(self, node: Node, depth: int) -> list[str]:
        start = (node.attrs or {}).get("start") or "1"
        number = int(start) if re.fullmatch(r"-?\d{1,6}", start) else 1
        items: list[str] = []
        for child in node.children or ():
            inner = (
                self.blocks(child, depth + 1)
                if child.name != "#text"
                else [text]
                if (text := (child.data or "").strip())
                else []
            )
            if not inner:
                continue
            if child.name != "li" and child.name in {"ul", "ol"} and items:
                items[-1] += "\n" + _indented("\n".join(self._block(child, depth)), 2)
                continue
            mark = f"{number}." if node.name == "ol" else "-"
            number += 1
            loose = any("\n\n" in part or part.startswith(("```", "|", ">")) for part in inner)
            items.append(f"{mark} " + _indented(("\n\n" if loose else "\n").join(inner), len(mark) + 1).lstrip())
        return ["\n".join(items)] if items else []

    def _table(self, node: Node, depth: int) -> list[str]:
        rows = [[cell for cell in row.children or () if cell.name in {"td", "th"}] for row in _own_rows(node)]
        rows = [row for row in rows if row]
        caption = [text for child in node.children or () if child.name == "caption" and (text := self.line(child, depth))]
        layout = (node.attrs or {}).get("role") in {"presentation", "none"} or max((len(row) for row in rows), default=0) < 2  # noqa: PLR2004
        if layout or any(child.name == "table" for row in rows for cell in row for child in _walk(cell)):
            return caption + [block for row in rows for cell in row for block in self.blocks(cell, depth + 1)]
        written = [[" ".join(self.line(cell, depth).replace("|", "\\|").split()) for cell in row] for row in rows]
        written = [row for row in written if any(row)]
        if not written:
            return caption
        width = max(len(row) for row in written)
        if not self._marked:
            return [*caption, "\n".join("\t".join(row) for row in written)]
        lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in written]
        lines.insert(1, "|" + " --- |" * width)
        return [*caption, "\n".join(lines)]


def _drop_furniture(root: Node, *, whole: bool) -> None:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        inside = node.name in {"main", "article", "section", "blockquote"}
        dropped = _FURNITURE | ({"header"} if whole and not inside else frozenset[str]())
        if node.children:
            node.children[:] = [
                child
                for child in node.children
                if child.name not in dropped and (getattr(child, "attrs", None) or {}).get("role") not in _FURNITURE_ROLES
            ]
            waiting.extend(child for child in node.children if child.name not in {"#text", "header"})


def _own_rows(table: Node) -> list[Node]:
    groups = [child for child in table.children or () if child.name in {"thead", "tbody", "tfoot"}]
    return [row for group in (table, *groups) for row in group.children or () if row.name == "tr"]


def _walk(root: Node) -> list[Node]:
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        if node.name != "#text":
            found.append(node)
            waiting.extend(reversed(node.children or ()))
    return found


def _raw(node: Node) -> list[str]:
    waiting, found = [node], list[str]()
    while waiting:
        one = waiting.pop()
        if one.name == "#text":
            found.append(one.data or "")
        elif one.name == "br":
            found.append("\n")
        else:
            waiting.extend(reversed(one.children or ()))
    return found


def _leaf(node: Node) -> str:
    if node.name == "#text":
        return _BLANKS.sub(" ", node.data or "")
    alt = _BLANKS.sub(" ", (node.attrs or {}).get("alt") or "").strip()
    return "\n" if node.name == "br" else f"[image: {alt}]" if alt else ""


def _close(line: list[str], found: list[str]) -> None:
    text = _tidy("".join(line))
    line.clear()
    if text:
        found.append(text)


def _tidy(text: str) -> str:
    lines = (re.sub(" {2,}", " ", line).strip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _around(text: str, mark: str) -> str:
    words = text.strip()
    if not words:
        return text
    lead, tail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    return f"{lead}{mark}{words}{mark}{tail}"


def _indented(text: str, by: int) -> str:
    return "\n".join(f"{' ' * by}{line}" if line else "" for line in text.split("\n"))
