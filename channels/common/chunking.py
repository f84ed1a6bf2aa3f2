"""Splits a finished reply, in Markdown, into pieces that each fit one message of a platform.

Blocks are kept whole while they fit. A block that does not fit is split by its kind: a code block is closed and opened again, a list
is split between items, a table repeats its header, a quote stays a quote, and text is split at a line, a sentence or a word, in this
order, and where possible not inside bold, code or a link. ``cut`` counts the text that a reader sees, in the platform's own unit;
``fitted`` counts the text as the platform's notation writes it.

Any text that a model writes is split: long texts section by section, with work in proportion to their length, and to a fixed
depth. A text that would take more work is split between lines and words, without a look at its blocks.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, field

from channels.common.breaks import LONGEST, best_break, sections
from channels.common.markdown import parsed, plain, styled

if TYPE_CHECKING:
    from markdown_it.token import Token


log = logging.getLogger(__name__)

SMALLEST = 16
"""The smallest limit in units; a lower one is raised to this, so that a bullet fits."""
DEEPEST = 4
"""Nested blocks are split by their kind to this depth; deeper ones as text."""
NESTED = 16
"""A block nested deeper than this is split as text: by its kind, each level would become a message of its own."""
WORK = 12
WORK_AT_LEAST = 60_000
"""Characters that may be parsed to split one section: ``WORK`` for each of its own, or ``WORK_AT_LEAST``."""
WIDEST = 4
"""A text of more than this many times the limit is split without being measured whole."""
_MARKER = re.compile(r" {0,3}([-+*]|\d{1,9}[.)])( {1,4}(?! )|\t|(?=\s|$))")
_QUOTE = re.compile(r"^ {0,3}> ?", re.MULTILINE)


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as Telegram counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(markdown: str, limit: int, length: Callable[[str], int] = utf16_length, *, apart: bool = False) -> list[str]:
    """Return the text in Markdown pieces of at most ``limit`` units once rendered; none if nothing would be visible.

    ``apart``: each paragraph, list, table or code block is a piece of its own; a heading stays with the block below it.
    """
    limit = max(limit, SMALLEST)
    unified = markdown.replace("\r\n", "\n").replace("\r", "\n")
    if not apart and len(unified) <= min(limit, LONGEST):  # nearly every reply: it is parsed once, also for what is sent
        shown = plain(styled(unified))
        if length(shown) <= limit:
            return [unified.strip("\n")] if shown.strip() else []
    pieces = [piece.strip("\n") for section in sections(unified) for piece in _section(section, limit, length, apart=apart)]
    return [piece for piece in pieces if plain(styled(piece)).strip()]


def as_written(source: str, limit: int, length: Callable[[str], int]) -> list[str]:
    """Split a text between lines and words only, in linear time. Pieces fit once rendered, as those of ``cut``."""
    pieces: list[str] = []
    rest = source.strip("\n")
    while rest:
        window = rest[: 2 * limit]
        end = best_break(window, reach(window, limit, length))
        while end > 1 and length(plain(styled(window[:end]))) > limit:
            end = best_break(window, max(1, end // 2))
        pieces.append(window[:end].rstrip())
        rest = rest[end:].lstrip("\n")
    return pieces


def reach(text: str, limit: int, length: Callable[[str], int]) -> int:
    """Return how many characters fit the limit, at least one."""
    end = min(len(text), max(limit, 1))
    while end > 1 and (over := length(text[:end]) - limit) > 0:
        end = max(1, end - max(1, over // 2))
    return end


class _TooMuchWork(Exception):
    """Splitting by blocks took more work than a text of this length may take."""


class _Work(Struct):
    """The characters that may still be parsed, and a cache of sizes: parsing is what costs, so nothing is measured twice."""

    left: int
    sizes: dict[str, int] = field(default_factory=dict)

    def spend(self, letters: int) -> None:
        self.left -= letters
        if self.left < 0:
            raise _TooMuchWork


def _section(source: str, limit: int, length: Callable[[str], int], *, apart: bool) -> list[str]:
    """Split one section by its blocks; as plain text if it is too dense, too deep or cannot be parsed."""
    cutter = _Cutter(limit, length, _Work(max(WORK * len(source), WORK_AT_LEAST)))
    try:
        if (
            not apart and len(source) <= limit and cutter.fits(source)
        ):  # nearly every reply: it is parsed once, also for what is sent
            return [source]
        if parsed(source) is not None:
            parts = cutter.apart(source) if apart else [source]
            return [piece for part in parts for piece in cutter.sure(cutter.pieces(part))]
    except _TooMuchWork:
        pass
    except Exception:  # a parser failure must not keep a reply from being sent
        log.warning("a reply could not be split by its blocks and is split as plain text", exc_info=True)
    return as_written(source, limit, length)


class _Cutter:
    def __init__(self, limit: int, length: Callable[[str], int], work: _Work, depth: int = 0) -> None:
        self._limit = limit
        self._length = length
        self._work = work
        self._depth = depth

    def pieces(self, source: str) -> list[str]:
        """Split any source."""
        if self.fits(source):
            return [source]
        if self._depth > DEEPEST:
            return self._text(source)
        lines = _lines(source)
        blocks, slices = self._sliced(source, lines)
        if not blocks:
            return self._text(source)
        parts = self._packed(zip(slices, [partial(self._block, block) for block in blocks], strict=True))
        return self._linked(parts, _definitions(blocks, lines))

    def apart(self, source: str) -> list[str]:
        """Return each block by itself; a heading stays with the block below it."""
        lines = _lines(source)
        blocks, slices = self._sliced(source, lines)
        if not blocks:
            return [source]
        parts: list[str] = []
        headed = False
        for block, one in zip(blocks, slices, strict=True):
            parts[-1:] = [parts[-1] + one] if headed else [*parts[-1:], one]
            headed = block.type == "heading_open"
        return self._linked(parts, _definitions(blocks, lines))

    def sure(self, parts: Iterable[str]) -> list[str]:
        """Split as text what is still too long."""
        return [piece for part in parts for piece in ([part] if self.fits(part) else self._text(part))]

    def _size(self, source: str) -> int:
        """Return the rendered length."""
        size = self._work.sizes.get(source)
        if size is None:
            self._work.spend(len(source))
            size = self._work.sizes[source] = self._length(plain(styled(source)))
        return size

    def _tokens(self, source: str) -> list[Token]:
        """Return the tokens of a source; none if it must not be split by its blocks."""
        self._work.spend(len(source))
        tokens = parsed(source) or []
        return [] if any(token.level > NESTED for token in tokens) else tokens

    def _sliced(self, source: str, lines: list[str]) -> tuple[list[Token], list[str]]:
        """Return the outermost blocks of a text, and the lines of each."""
        blocks = [token for token in self._tokens(source) if token.level == 0 and token.map and token.nesting >= 0]
        starts = [0, *(token.map[0] for token in blocks[1:] if token.map)]
        return blocks, ["".join(lines[start:end]) for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]

    def _deeper(self, limit: int) -> _Cutter:
        return _Cutter(limit, self._length, self._work, self._depth + 1)

    def fits(self, source: str) -> bool:
        return self._size(source) <= self._limit

    def _packed(self, slices: Iterable[tuple[str, Callable[[str], list[str]]]], *, loose: bool = False) -> list[str]:
        """Join neighbouring slices while they fit; each comes with a function that splits it if it alone does not fit.

        ``loose``: joining may add an empty line after each line of a slice, so these are counted.
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
        """Split one block that is too long."""
        match token.type:
            case "fence" | "code_block":
                parts = self._code(token)
            case "bullet_list_open" | "ordered_list_open":
                parts = self._list(source)
            case "blockquote_open":
                inside = self._deeper(self._limit).pieces(_QUOTE.sub("", source))
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
        """Split a line of code that is longer than a message."""
        bits = []
        while self._length(line) > self._limit:
            end = best_break(line, reach(line, self._limit, self._length), levels=1)
            bits.append(line[:end])
            line = line[end:]
        return [*bits, line]

    def _list(self, source: str) -> list[str]:
        lines = _lines(source)
        items = [
            token.map[0] for token in self._tokens(source) if token.type == "list_item_open" and token.level == 1 and token.map
        ]
        ends = [*items[1:], len(lines)]
        slices = ["".join(lines[start:end]) for start, end in zip([0, *items[1:]], ends, strict=True)]
        first = re.match(r" {0,3}(\d+)", source)
        if first is not None:
            slices = [_numbered(one, number) for number, one in enumerate(slices, int(first[1]))]
        return self._packed(((one, self._item) for one in slices), loose=True)

    def _item(self, source: str) -> list[str]:
        """Split a list item: its first piece keeps the mark, the others follow as ordinary text."""
        mark = _MARKER.match(source)
        if mark is None:
            return self._text(source)
        indent = " " * (len(mark[1]) + 1)
        offset = len(mark[0].expandtabs(4))
        first, *rest = _lines(source[mark.end() :]) or [""]
        inside = first + "".join(line[min(offset, len(line) - len(line.lstrip(" "))) :] for line in rest)
        limit = self._limit - self._length(indent)
        while limit >= SMALLEST:
            head, *tail = self._deeper(limit).pieces(inside)
            marked = f"{mark[1]} " + re.sub(r"\n(?!\n|$)", "\n" + indent, head.lstrip())
            if self.fits(marked):
                return [marked, *tail]
            limit = limit * 3 // 4
        return self._text(source)

    def _table(self, head: str, rows: list[str]) -> list[str]:
        """Split a table between rows, with the header above each part. One row that is too long becomes text."""
        table = "\n".join([head, *rows])
        if self.fits(table + "\n"):
            return [table + "\n"]
        if len(rows) < 2:  # noqa: PLR2004 - one row cannot be halved
            return self._text(table)
        half = len(rows) // 2
        return self._table(head, rows[:half]) + self._table(head, rows[half:])

    def _text(self, source: str) -> list[str]:
        """Split text at its best breaks."""
        parts: list[str] = []
        rest = source.rstrip()
        while len(rest) > WIDEST * self._limit or not self.fits(rest):
            limit = self._limit
            while True:
                end = best_break(rest, reach(rest, limit, self._length))
                if self.fits(rest[:end]) or end == 1:
                    break
                limit = min(limit, self._length(rest[:end])) // 2
            parts.append(rest[:end].rstrip())
            following = rest[end:].lstrip()
            escaped = _as_text(following)
            rest = escaped if len(escaped) < len(rest) else following  # escaping again and again would never end
        return [*parts, rest]

    def _linked(self, parts: list[str], definitions: str) -> list[str]:
        """Append the link definitions to each piece that may need them; they are not visible in a message."""
        if not definitions:
            return parts
        linked = [
            f"{part.rstrip()}\n\n{definitions}\n\n" if "[" in part and definitions not in part else part for part in parts
        ]
        return [new if self.fits(new) else old for new, old in zip(linked, parts, strict=True)]


def _lines(source: str) -> list[str]:
    """Return the lines as the parser counts them, with their ends."""
    return [line for line in re.split(r"(?<=\n)", source) if line]


def _numbered(item: str, number: int) -> str:
    """Number an item of an ordered list by its position, for it may begin a piece."""
    mark = re.match(r"( {0,3})(\d+)", item)
    if mark is None or mark[2] == str(number):
        return item
    wider = " " * max(0, len(str(number)) - len(mark[2]))
    return f"{mark[1]}{number}" + re.sub(r"\n(?= )", "\n" + wider, item[mark.end() :])


def _definitions(blocks: list[Token], lines: list[str]) -> str:
    """Return the lines that belong to no block: link definitions."""
    covered = {number for token in blocks if token.map for number in range(*token.map)}
    return "".join(line for number, line in enumerate(lines) if number not in covered and line.strip()).strip("\n")


def _as_text(text: str) -> str:
    """Escape the second half of a text so that it is not read as a list, heading or quote."""
    escaped = re.sub(r"\A(\d{1,9})([.)])(?=\s|\Z)", r"\1\\\2", text)
    return re.sub(r"\A(?=(?:[-+*]|#{1,6}|=+|-+)(?:\s|\Z)|>)", r"\\", escaped)


def fitted(
    markdown: str, limit: int, written: Callable[[str], str], *, lines: int | None = None, apart: bool = False
) -> list[str]:
    """Split a reply so that no piece is longer than ``limit`` once ``written``, nor shows more than ``lines`` lines.

    Marks and escapes make a text longer, and short lines make it taller, so a piece over the limit is split again with a lower one
    until it fits. ``apart`` is that of ``cut``. The smallest limit, 16 characters, may hold 16 lines, so fewer lines may be exceeded.
    """
    return [piece for part in cut(markdown, limit, len, apart=apart) for piece in _fitting(part, limit, limit, written, lines)]


def _fitting(piece: str, room: int, limit: int, written: Callable[[str], str], lines: int | None) -> list[str]:
    tall = lines_of(piece)
    too_tall = lines is not None and tall > lines
    if room <= SMALLEST or (not too_tall and len(written(piece)) <= limit):
        return [piece]
    room = room * 3 // 4
    if lines is not None and too_tall:
        room = min(room, len(plain(styled(piece))) * lines // tall)
    room = max(SMALLEST, room)
    return [small for part in cut(piece, room, len) for small in _fitting(part, room, limit, written, lines)]


def lines_of(piece: str) -> int:
    """Return how many lines a reader sees, without the lines that only mark a code block."""
    return plain(styled(piece)).count("\n") + 1
