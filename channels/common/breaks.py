"""Where text and Markdown may be split: at paragraphs, lines, sentences and words, never inside a grapheme; and where code blocks are."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

_BREAKS = (
    re.compile(r"\n+"),
    re.compile(r"(?<=[.!?…])[\"')\]”’»]*\s+|(?<=[。！？])"),
    re.compile(r"\s+"),
)
_JOINERS = "\u200d\ufe0e\ufe0f\u20e3"
EARLIEST = 0.4
"""A break before this share of the limit would waste the message."""
TRIED = 100
"""How many breaks of a kind are tried for one outside of all marks, the last ones first."""

_FENCE = re.compile(
    r"(?:[ \t]*>)*(?P<indent>[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*)(?P<mark>`{3,20}(?!`)|~{3,20}(?!~))(?P<info>[^\n]*)"
)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
LONGEST_INFO = 60
"""A longer info string of a code block is not repeated when the block is opened again."""
LONGEST: Final = 16_000
"""Characters of a section: several messages of any platform."""


class Fence(Struct, frozen=True):
    """A code block. ``start`` is where its first line begins; ``end`` is behind its last one, None while it is open."""

    start: int
    end: int | None
    opening: str
    mark: str


def best_break(text: str, room: int, *, levels: int = len(_BREAKS)) -> int:
    """Return where to split so that 1 to ``room`` characters stand before the split.

    The first ``levels`` kinds of break are tried; a break inside bold, code or a link is used only if there is no other.
    """
    if room >= len(text):
        return len(text)
    window = text[:room]
    earliest = max(1, int(room * EARLIEST))
    found = [[match.end() for match in kind.finditer(window) if match.end() >= earliest] for kind in _BREAKS[:levels]]
    for ends in found:
        for end in ends[: -TRIED - 1 : -1]:
            if closed(window[:end]):
                return end
    for ends in found:
        if ends:
            return ends[-1]
    return whole_letter(text, room)


def closed(text: str) -> bool:
    """Return whether no inline mark is left open."""
    return (
        text.count("`") % 2 == 0
        and text.count("**") % 2 == 0
        and text.rfind("](") <= text.rfind(")")
        and text.count("[") <= text.count("]")
    )


def whole_letter(text: str, end: int) -> int:
    """Move a split back to a grapheme boundary, unless that would leave nothing."""
    here = end
    while here > 0 and _joined(text[here - 1], text[here], text[:here]):
        here -= 1
    return here or end


def _joined(before: str, after: str, head: str) -> bool:
    """Return whether two characters belong to one grapheme (the common rules of Unicode's annex 29)."""
    if after in _JOINERS or before == "\u200d" or unicodedata.category(after).startswith("M"):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or (before, after) == ("\r", "\n"):
        return True
    if _flag(before) and _flag(after):
        flags = len(head) - len(head.rstrip("".join(map(chr, range(0x1F1E6, 0x1F200)))))
        return flags % 2 == 1
    return False


def _flag(letter: str) -> bool:
    return "\U0001f1e6" <= letter <= "\U0001f1ff"


def fences(text: str) -> Iterator[Fence]:
    """Yield the code blocks of a text, also one that is not closed yet."""
    found: Fence | None = None
    for line in _LINE.finditer(text):
        match = _FENCE.match(line[0])
        if match is None:
            continue
        mark, info = match["mark"], match["info"].strip()
        if found is None:
            if mark[0] == "~" or "`" not in info:
                found = Fence(line.start(), None, f"{mark}{info if len(info) <= LONGEST_INFO else ''}\n", mark)
        elif mark.startswith(found.mark) and not info and line[0].endswith("\n"):
            yield Fence(found.start, line.end(), found.opening, found.mark)
            found = None
    if found is not None:
        yield found


def sections(source: str) -> Iterator[str]:
    """Yield the text in sections of about ``LONGEST`` characters, each parsed by itself, so that time and memory grow with the text alone.

    Sections are split between paragraphs, else lines; a code block is closed and opened again.
    """
    if len(source) <= LONGEST:
        yield source
        return
    code = list(fences(source))
    starts = [fence.start for fence in code]
    start, opening = 0, ""
    while len(source) - start > LONGEST:
        place = _place(source, start)
        at = bisect_left(starts, place) - 1
        inside = code[at] if at >= 0 and place < (code[at].end or len(source)) else None
        if inside is not None and inside.start > start + LONGEST // 2:
            place, inside = inside.start, None
        closing = "" if inside is None else ("" if source[place - 1] == "\n" else "\n") + inside.mark + "\n"
        yield opening + source[start:place] + closing
        start, opening = place, "" if inside is None else inside.opening
    yield opening + source[start:]


def _place(source: str, start: int) -> int:
    end = start + LONGEST
    for mark in ("\n\n", "\n", " "):
        found = source.rfind(mark, start + LONGEST // 2, end)
        if found >= 0:
            return found + len(mark)
    return start + whole_letter(source[start : end + 1], LONGEST)
