"""A list of things to do as Markdown (GitHub task lists), which its owner edits by hand too: reading items, and changes of single lines.

Only lines ``- [ ] text`` and ``- [x] text`` are items; bullets ``*``, ``+`` and ``1.`` count as well. Whatever else a file holds is kept
byte for byte, and so is every item that a change does not name. What looks like an item within a code block, an HTML comment or front
matter is none. Headings divide a list into sections.
"""

from __future__ import annotations

import bisect
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from typing import Final

from msgspec import Struct

from agent.errors import AmbiguousItem, WorkspaceFileError

HEADING: Final = "To do"
"""The heading that a new list begins with. Items without a section stand under it."""
_ITEM: Final = re.compile(
    r"^(?P<indent>[ \t]*)(?P<bullet>[-*+]|\d{1,9}[.)])(?P<gap>[ \t]+)\[(?P<mark>[ xX])\][ \t]+(?P<text>\S.*)$"
)
_BULLET: Final = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_HEADING: Final = re.compile(r"^ {0,3}(?P<level>#{1,6})[ \t]+(?P<name>.*?)(?:[ \t]+#+)?[ \t]*$")
_FENCE: Final = re.compile(r"^[ \t]*(?P<marks>`{3,}|~{3,})(?P<rest>.*)$")
_DUE: Final = re.compile(r"(?:\(due:?[ ]*|📅[ ]*|\bdue:[ ]*|\(fällig:?[ ]*)(?P<day>\d{4}-\d{2}-\d{2})\b\)?", re.IGNORECASE)
"""How people write when something is due: ``(due 2026-12-01)``, ``due:2026-12-01`` as in todo.txt, 📅 as in Obsidian."""
_LETTERS: Final = "bcdfghjklmnpqrstvwxz"
"""Of ids: no vowels, so that an id is no word."""
_FRONT: Final = "---"
_SHORTEST: Final = 4
_LONGEST: Final = 12
_CODE: Final = 4
"""Columns of indentation that make a line code where no list is open, by CommonMark."""


class Item(Struct, frozen=True):
    """One thing to do. ``number`` counts all items of the file from 1; ``line`` and ``end`` are the lines of it, with what is nested below.

    ``id`` is derived from the text and stays while the text does, wherever the item stands and whether or not it is done.
    """

    number: int
    id: str
    text: str
    done: bool
    section: str
    depth: int
    line: int
    end: int
    digest: str

    @property
    def due(self) -> date | None:
        """The day on which it is due, where the text says one."""
        found = _DUE.search(self.text)
        try:
            return date.fromisoformat(found["day"]) if found else None
        except ValueError:  # such as the 31st of February
            return None


class _Span(Struct, frozen=True):
    """A heading with the lines up to the next one; the lines before the first heading have no name and level 0."""

    name: str
    level: int
    first: int
    end: int


class TodoList(Struct, frozen=True):
    """A list as it stands in a file. Changes return the new text."""

    text: str
    lines: tuple[str, ...]
    items: tuple[Item, ...]
    spans: tuple[_Span, ...]
    limit: int
    """The number of lines up to a code block or comment that is never ended: behind it nothing is an item."""

    @classmethod
    def of(cls, text: str) -> TodoList:
        """Read a list. Any text is one."""
        lines = tuple(re.findall(r"[^\n]*\n|[^\n]+$", text))
        plain, inner, limit = _plain(lines)
        spans = _spans(plain)
        return cls(text, lines, tuple(_items(lines, plain, inner, spans)), tuple(spans), limit)

    def sections(self) -> tuple[str, ...]:
        """Return the names of the sections that hold items, in order."""
        return tuple(dict.fromkeys(item.section for item in self.items))

    def in_section(self, wanted: str) -> tuple[Item, ...]:
        """Return the items of a section, compared without case; ``shopping`` also finds ``Shopping list``."""
        name = self._section(wanted)
        return tuple(item for item in self.items if name is not None and item.section == name)

    def find(self, which: str, *, done: bool | None = None) -> Item:
        """Return the item that an id, the whole text or some words of it name. ``done``: which are meant where words fit several.

        Raises:
            AmbiguousItem: several are meant; the text lists them.
            WorkspaceFileError: none is meant.
        """
        wanted = " ".join(which.split()).casefold()
        if not wanted:
            raise WorkspaceFileError("item: name one by its id")
        by_id = [item for item in self.items if len(wanted) >= _SHORTEST and item.digest.startswith(wanted)]
        alike = [item for item in self.items if " ".join(item.text.split()).casefold() == wanted]
        words = re.compile(rf"(?<!\w){re.escape(wanted)}")  # a beginning of words: "-1" is not meant for "2026-10-12"
        found = by_id or alike or [item for item in self.items if words.search(" ".join(item.text.casefold().split()))]
        found = [item for item in found if done is None or item.done == done] or found
        if not found:
            raise WorkspaceFileError(f"there is no item {which[:60]!r} in the list (any more)", hint="list shows what there is")
        if len(found) > 1:
            items = "; ".join(f"{item.id} {item.text[:60]}" for item in found[:5])
            raise AmbiguousItem(
                f"{which[:60]!r} may be any of {len(found)} items: {items}",
                hint="name one by its id",
                lines=tuple(item.line for item in found[:5]),
            )
        return found[0]

    def with_mark(self, item: Item, *, done: bool) -> str:
        """Return the text with an item done or open: only the sign between its brackets changes."""
        found = _match(self.lines[item.line])
        place = found.start("mark")
        line = self.lines[item.line]
        return self._with_line(item, line[:place] + ("x" if done else " ") + line[place + 1 :])

    def with_text(self, item: Item, text: str) -> str:
        """Return the text with other words in an item; its mark, its place and what is nested below stay."""
        line = self.lines[item.line]
        found = _match(line)
        return self._with_line(item, line[: found.start("text")] + one_line(text) + line[found.end("text") :])

    def without(self, item: Item) -> str:
        """Return the text without an item and what is nested below it."""
        return "".join((*self.lines[: item.line], *self.lines[item.end :]))

    def with_item(self, text: str, section: str = "") -> str:
        """Return the text with another open item, behind the last one of its section; a section that does not exist comes last."""
        body = f"[ ] {one_line(text)}"
        newline = "\r\n" if sum(line.endswith("\r\n") for line in self.lines) * 2 > len(self.lines) else "\n"
        title = "" if self.text.strip() else f"# {HEADING}{newline}{newline}"
        name = self._section(section)
        if section and name is None:
            gap = newline if self.limit and self.lines[self.limit - 1].strip() else ""
            return self._put(self.limit, f"{title or gap}## {one_line(section)}{newline}{newline}- {body}{newline}", newline)
        if title:
            return self._put(self.limit, f"{title}- {body}{newline}", newline)
        span = next(one for one in self.spans if one.level and one.name == name) if section else self._first()
        return self._inserted(span, body, newline)

    def _inserted(self, span: _Span, body: str, newline: str) -> str:
        last = next((item for item in reversed(self.items) if span.first <= item.line < span.end and item.depth == 0), None)
        if last is not None:
            found = _match(self.lines[last.line])
            gap = found["gap"] if found["gap"] != "\t" else " "
            return self._put(last.end, f"{found['indent']}{_next_bullet(found['bullet'])}{gap}{body}{newline}", newline)
        used = [place for place in range(span.first, min(span.end, self.limit)) if self.lines[place].strip()]
        after = used[-1] + 1 if used else span.first
        blank_behind = after < self.limit and not any(line.strip() for line in self.lines[after:])
        if blank_behind:
            return self._put(self.limit, f"- {body}{newline}", newline)
        before = newline if used else ""
        behind = newline if after < len(self.lines) and self.lines[after].strip() else ""
        return self._put(after, f"{before}- {body}{newline}{behind}", newline)

    def _put(self, place: int, block: str, newline: str) -> str:
        place = min(place, self.limit)
        before = "".join(self.lines[:place])
        ended = before if before.endswith("\n") or not before else before + newline
        return "".join((ended, block, *self.lines[place:]))

    def _first(self) -> _Span:
        """Return where items without a section stand: before all sections, or under the title of the file."""
        top = [span for span in self.spans if span.level <= 1][:2]
        holding = [span for span in top if any(span.first <= item.line < span.end for item in self.items)]
        return (holding or top[::-1])[0]

    def _section(self, wanted: str) -> str | None:
        names = [span.name for span in self.spans if span.level]
        word = _bare_name(wanted)
        exact = next((name for name in names if name.casefold() == one_line(wanted).casefold()), None)
        return exact or next((name for name in names if word and _bare_name(name) == word), None)

    def _with_line(self, item: Item, line: str) -> str:
        return "".join((*self.lines[: item.line], line, *self.lines[item.line + 1 :]))


def one_line(text: str) -> str:
    """Return a text as one line that is an item's and nothing else: white space joined, and a mark that was written along taken off."""
    line = " ".join(text.split())
    return re.sub(r"^(?:[-*+]\s+)?\[[ xX]?\]\s*", "", line)


def _bare_name(name: str) -> str:
    """Return what a section is known by: ``Shopping list`` is ``shopping``."""
    return re.sub(r"[\s-]*(?:list|liste|zettel)$", "", one_line(name).casefold())


def _next_bullet(bullet: str) -> str:
    return f"{int(bullet[:-1]) + 1}{bullet[-1]}" if bullet[:-1].isdecimal() else bullet


def _match(line: str) -> re.Match[str]:
    found = _ITEM.match(line.rstrip("\r\n").rstrip())
    assert found is not None, "only lines of items are changed"
    return found


def _plain(lines: Sequence[str]) -> tuple[list[str], set[int], int]:
    """Return the lines without line ends, which of them go on with a block that began before, and where one begins that is never ended.

    Those of code blocks, comments and front matter are emptied.
    """
    kept: list[str] = []
    inner: set[int] = set()
    within, began = "", 0
    for number, whole in enumerate(lines):
        line = whole.rstrip("\r\n")
        if within:
            inner.add(number)
            within = "" if _ends(within, line) else within
            kept.append("")
            continue
        within, began = _begins(line), number
        if number == 0 and line.rstrip() == _FRONT and any(_ends(_FRONT, one.rstrip("\r\n")) for one in lines[1:]):
            within = _FRONT
        kept.append("" if within or line.lstrip().startswith("<!--") else line)
    return kept, inner, began if within else len(lines)


def _begins(line: str) -> str:
    """Return by what the block is ended that a line begins: the marks of a fence or the end of a comment; "" where it begins none."""
    fence = _FENCE.match(line)
    if fence is not None and not (fence["marks"][0] == "`" and "`" in fence["rest"]):
        return fence["marks"]
    return "-->" if line.lstrip().startswith("<!--") and "-->" not in line else ""


def _ends(within: str, line: str) -> bool:
    if within == "-->":
        return within in line
    if within == _FRONT:
        return line.rstrip() in {_FRONT, "..."}
    fence = _FENCE.match(line)
    return fence is not None and not fence["rest"].strip() and fence["marks"].startswith(within)


def _spans(plain: Sequence[str]) -> list[_Span]:
    heads = [(number, found) for number, line in enumerate(plain) if (found := _HEADING.match(line))]
    ends = [*(number for number, _ in heads[1:]), len(plain)][: len(heads)]
    first = heads[0][0] if heads else len(plain)
    return [
        _Span("", 0, 0, first),
        *(_Span(found["name"], len(found["level"]), number, end) for (number, found), end in zip(heads, ends, strict=True)),
    ]


def _items(lines: Sequence[str], plain: Sequence[str], inner: AbstractSet[int], spans: Sequence[_Span]) -> list[Item]:
    nested = _nested(plain)
    rows = [(number, found) for number, line in enumerate(plain) if number in nested and (found := _ITEM.match(line.rstrip()))]
    digests = _digests([found["text"] for _, found in rows])
    ids = _shortest(digests)
    firsts = [span.first for span in spans]
    items = []
    for place, (number, found) in enumerate(rows):
        span = spans[bisect.bisect_right(firsts, number) - 1]
        items.append(
            Item(
                number=place + 1,
                id=ids[place],
                text=found["text"],
                done=found["mark"] != " ",
                section=span.name,
                depth=int(nested[number]),
                line=number,
                end=_end(lines, inner, number, span.end),
                digest=digests[place],
            )
        )
    return items


def _nested(plain: Sequence[str]) -> dict[int, bool]:
    """Return of each line that begins with a bullet whether it lies within another one. Indented code is left out."""
    found: dict[int, bool] = {}
    inner, blank, code = 0, True, False
    for number, line in enumerate(plain):
        if not line.strip():
            blank = True
            continue
        indent = _columns(line)
        bullet = _BULLET.match(line)
        code = indent >= _CODE and not inner and (blank or code)
        if bullet and not code:
            found[number] = bool(inner) and indent >= inner
            inner = inner if found[number] else indent + len(bullet[0].strip()) + 1
        elif indent == 0 and (blank or _HEADING.match(line)):
            inner = 0  # a list ends with what is not indented, but for the rest of a paragraph
        blank = False
    return found


def _end(lines: Sequence[str], inner: AbstractSet[int], number: int, most: int) -> int:
    """Return the line behind an item and all that is indented below it; blank lines at the end are not part of it."""
    indent, end = _columns(lines[number]), number + 1
    for place in range(number + 1, most):
        if not lines[place].strip() and place not in inner:
            continue
        if _columns(lines[place]) <= indent and place not in inner:
            break
        end = place + 1
    return end


def _columns(line: str) -> int:
    white = line[: len(line) - len(line.lstrip(" \t"))]
    return len(white.expandtabs(_CODE))


def _digests(texts: Sequence[str]) -> list[str]:
    seen: Counter[str] = Counter()
    found = []
    for text in texts:
        plain = " ".join(text.split())
        known = f"{plain}\0{seen[plain]}".encode("utf-8", "surrogateescape")
        seen[plain] += 1
        number = int.from_bytes(hashlib.blake2b(known, digest_size=16).digest(), "big")
        letters = ""
        for _ in range(_LONGEST):
            number, letter = divmod(number, len(_LETTERS))
            letters += _LETTERS[letter]
        found.append(letters)
    return found


def _shortest(digests: Sequence[str]) -> list[str]:
    """Return for each digest the shortest beginning that no other one has."""
    counted = {length: Counter(one[:length] for one in digests) for length in range(_SHORTEST, _LONGEST + 1)}
    return [next(one[:length] for length in counted if counted[length][one[:length]] == 1) for one in digests]
