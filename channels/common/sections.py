"""A long text as sections that are each parsed by themselves, so that neither time nor memory grow faster than the text."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from channels.common.breaks import whole_letter
from channels.common.stream_splitter import fences

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST: Final = 16_000
"""Letters of a section: several messages of any platform."""


def sections(source: str) -> Iterator[str]:
    """Yield the text in parts of about ``LONGEST`` letters, cut between paragraphs, else lines; a code block is opened again."""
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
