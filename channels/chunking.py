"""Cutting Markdown into pieces that each fit one message of a platform.

Blocks are kept whole while they fit. One that does not is cut by its kind: a code block is closed and opened again, a list
goes item by item, a table repeats its header, a quote stays a quote, and text is cut at a line, a sentence or a word, in this order,
and where possible not inside bold, code or a link. What counts is the text that a reader sees, in the platform's own unit.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from channels.breaks import best_break
from channels.markdown import parser, styled
from channels.styled import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from markdown_it.token import Token

SMALLEST = 16
"""Limits below this many units are not honoured: they are a mistake, and a bullet must fit."""
_MARKER = re.compile(r" {0,3}([-+*]|\d{1,9}[.)])( {1,4}(?! )|\t|(?=\s|$))")
_QUOTE = re.compile(r"^ {0,3}> ?", re.MULTILINE)


def utf16_length(text: str) -> int:
    """Return how long Telegram says a text is: in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(markdown: str, limit: int, length: Callable[[str], int] = utf16_length, *, apart: bool = False) -> list[str]:
    """Return the text in Markdown pieces of at most ``limit`` units once rendered; none when there is nothing to read.

    ``apart``: each paragraph, list, table or code block is a piece of its own; a heading stays with what it is above.
    """
    cutter = _Cutter(max(limit, SMALLEST), length)
    unified = markdown.replace("\r\n", "\n").replace("\r", "\n")
    parts = cutter.apart(unified) if apart else [unified]
    pieces = [piece.strip("\n") for part in parts for piece in cutter.sure(cutter.pieces(part))]
    return [piece for piece in pieces if plain(styled(piece)).strip()]


class _Cutter:
    def __init__(self, limit: int, length: Callable[[str], int], sizes: dict[str, int] | None = None) -> None:
        self._limit = limit
        self._length = length
        self._sizes = {} if sizes is None else sizes

    def pieces(self, source: str) -> list[str]:
        """Cut any source."""
        if self._fits(source):
            return [source]
        lines = _lines(source)
        blocks, slices = _sliced(source, lines)
        if not blocks:
            return self._text(source)
        parts = self._packed(zip(slices, [partial(self._block, block) for block in blocks], strict=True))
        return self._linked(parts, _definitions(blocks, lines))

    def apart(self, source: str) -> list[str]:
        """Return each block by itself, but for headings, which stay with the one below."""
        lines = _lines(source)
        blocks, slices = _sliced(source, lines)
        if not blocks:
            return [source]
        parts: list[str] = []
        headed = False
        for block, one in zip(blocks, slices, strict=True):
            parts[-1:] = [parts[-1] + one] if headed else [*parts[-1:], one]
            headed = block.type == "heading_open"
        return self._linked(parts, _definitions(blocks, lines))

    def sure(self, parts: Iterable[str]) -> list[str]:
        """Cut as text what is still too long."""
        return [piece for part in parts for piece in ([part] if self._fits(part) else self._text(part))]

    def _size(self, source: str) -> int:
        """Return the rendered length; parsing is what costs here, so nothing is measured twice."""
        size = self._sizes.get(source)
        if size is None:
            size = self._sizes[source] = self._length(plain(styled(source)))
        return size

    def _fits(self, source: str) -> bool:
        return self._size(source) <= self._limit

    def _packed(self, slices: Iterable[tuple[str, Callable[[str], list[str]]]], *, loose: bool = False) -> list[str]:
        """Join neighbouring slices while they fit; each comes with the way to cut it when it alone does not.

        ``loose``: company may set a slice's lines apart, so each line is counted with the one it may add.
        """
        packed: list[str] = []
        room = 0
        for source, divide in slices:
            size = self._size(source)
            taken = size + 2 + (source.count("\n") if loose else 0)
            if taken <= room:
                packed[-1] += source
                room -= taken
                continue
            packed += [source] if size <= self._limit else [part.rstrip("\n") + "\n\n" for part in divide(source)]
            room = self._limit - self._size(packed[-1])
        return packed

    def _block(self, token: Token, source: str) -> list[str]:
        """Cut one block that is too long."""
        match token.type:
            case "fence" | "code_block":
                parts = self._code(token)
            case "bullet_list_open" | "ordered_list_open":
                parts = self._list(source)
            case "blockquote_open":
                inside = self.pieces(_QUOTE.sub("", source))
                parts = ["".join(f"> {line}" for line in _lines(piece.strip("\n"))) for piece in inside]
            case "table_open":
                lines = source.strip("\n").split("\n")
                parts = self._table("\n".join(lines[:2]), lines[2:])
            case _:
                parts = [source]
        return self.sure(parts)

    def _code(self, token: Token) -> list[str]:
        runs = re.findall(r"`+", token.content)
        fence = token.markup or "`" * max(3, 1 + max(map(len, runs), default=0))
        bodies: list[str] = []
        room = 0
        for line in token.content.removesuffix("\n").split("\n"):
            for bit in self._bits(line):
                size = self._length(bit) + 1
                if size > room:
                    bodies.append("")
                    room = self._limit + 1
                bodies[-1] += bit + "\n"
                room -= size
        return [f"{fence}{token.info}\n{body}{fence}\n" for body in bodies]

    def _bits(self, line: str) -> list[str]:
        """Cut a line of code that is longer than a message."""
        bits = []
        while self._length(line) > self._limit:
            end = best_break(line, self._reach(line, self._limit), levels=1)
            bits.append(line[:end])
            line = line[end:]
        return [*bits, line]

    def _list(self, source: str) -> list[str]:
        lines = _lines(source)
        items = [token.map[0] for token in _tokens(source) if token.type == "list_item_open" and token.level == 1 and token.map]
        ends = [*items[1:], len(lines)]
        slices = ["".join(lines[start:end]) for start, end in zip([0, *items[1:]], ends, strict=True)]
        first = re.match(r" {0,3}(\d+)", source)
        if first is not None:
            slices = [_numbered(one, number) for number, one in enumerate(slices, int(first[1]))]
        return self._packed(((one, self._item) for one in slices), loose=True)

    def _item(self, source: str) -> list[str]:
        """Cut a list item: its first piece keeps the mark, the others follow as ordinary text."""
        mark = _MARKER.match(source)
        if mark is None:
            return self._text(source)
        indent = " " * (len(mark[1]) + 1)
        offset = len(mark[0].expandtabs(4))
        first, *rest = _lines(source[mark.end() :]) or [""]
        inside = first + "".join(line[min(offset, len(line) - len(line.lstrip(" "))) :] for line in rest)
        limit = self._limit - self._length(indent)
        while limit >= SMALLEST:
            head, *tail = _Cutter(limit, self._length, self._sizes).pieces(inside)
            marked = f"{mark[1]} " + re.sub(r"\n(?!\n|$)", "\n" + indent, head.lstrip())
            if self._fits(marked):
                return [marked, *tail]
            limit = limit * 3 // 4
        return self._text(source)

    def _table(self, head: str, rows: list[str]) -> list[str]:
        """Cut a table between rows, header above each part. One row that is too long is shown as it was written."""
        table = "\n".join([head, *rows])
        if self._fits(table + "\n"):
            return [table + "\n"]
        if len(rows) < 2:  # noqa: PLR2004 - one row cannot be halved
            return self._text(table)
        half = len(rows) // 2
        return self._table(head, rows[:half]) + self._table(head, rows[half:])

    def _text(self, source: str) -> list[str]:
        """Cut text at its best breaks."""
        parts: list[str] = []
        rest = source.rstrip()
        while not self._fits(rest):
            limit = self._limit
            while True:
                end = best_break(rest, self._reach(rest, limit))
                if self._fits(rest[:end]) or end == 1:
                    break
                limit = min(limit, self._length(rest[:end])) // 2
            parts.append(rest[:end].rstrip())
            following = rest[end:].lstrip()
            escaped = _as_text(following)
            rest = escaped if len(escaped) < len(rest) else following  # an escape put back for ever would never end
        return [*parts, rest]

    def _reach(self, text: str, limit: int) -> int:
        """Return how many letters fit the limit, at least one."""
        end = min(len(text), max(limit, 1))
        while end > 1 and (over := self._length(text[:end]) - limit) > 0:
            end = max(1, end - max(1, over // 2))
        return end

    def _linked(self, parts: list[str], definitions: str) -> list[str]:
        """Give each piece that may need them the link definitions, which take no room in a message."""
        if not definitions:
            return parts
        linked = [
            f"{part.rstrip()}\n\n{definitions}\n\n" if "[" in part and definitions not in part else part for part in parts
        ]
        return [new if self._fits(new) else old for new, old in zip(linked, parts, strict=True)]


def _lines(source: str) -> list[str]:
    """Return the lines as the parser counts them, with their ends."""
    return [line for line in re.split(r"(?<=\n)", source) if line]


def _sliced(source: str, lines: list[str]) -> tuple[list[Token], list[str]]:
    """Return the outermost blocks of a text, and the lines of each."""
    blocks = [token for token in _tokens(source) if token.level == 0 and token.map and token.nesting >= 0]
    starts = [0, *(token.map[0] for token in blocks[1:] if token.map)]
    return blocks, ["".join(lines[start:end]) for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]


def _numbered(item: str, number: int) -> str:
    """Give an item of an ordered list the number that its place gives it, for it may begin a piece."""
    mark = re.match(r"( {0,3})(\d+)", item)
    if mark is None or mark[2] == str(number):
        return item
    wider = " " * max(0, len(str(number)) - len(mark[2]))
    return f"{mark[1]}{number}" + re.sub(r"\n(?= )", "\n" + wider, item[mark.end() :])


def _tokens(source: str) -> list[Token]:
    return parser().parse(source)


def _definitions(blocks: list[Token], lines: list[str]) -> str:
    """Return the lines that belong to no block: link definitions."""
    covered = {number for token in blocks if token.map for number in range(*token.map)}
    return "".join(line for number, line in enumerate(lines) if number not in covered and line.strip()).strip("\n")


def _as_text(text: str) -> str:
    """Keep the second half of a text from being read as a list, heading or quote that it was not."""
    escaped = re.sub(r"\A(\d{1,9})([.)])(?=\s|\Z)", r"\1\\\2", text)
    return re.sub(r"\A(?=(?:[-+*]|#{1,6}|=+|-+)(?:\s|\Z)|>)", r"\\", escaped)
