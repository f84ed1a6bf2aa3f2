"""Lines that are read together: an item of a list, a row, or a paragraph that is broken over several lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from memory.text.chunks import heading_levels
from memory.text.tokens import estimate

_LARGEST = 80
"""Estimated tokens from which on a statement takes up no more lines."""
_REMEMBERED = 256
"""Passages whose statements are kept: those of the last searches."""
_BROKEN = 60
"""Characters from which on a line may go on in the next one."""
_BEGINS = re.compile(r"\s*(?:[-*+•>|]|\d{1,3}[.)]\s)")
_ENDS = tuple(".!?:;。！？…|")


class Statement(NamedTuple):
    """First and last line, 0-based, and the line of the nearest heading above, or None."""

    first: int
    last: int
    heading: int | None


@lru_cache(_REMEMBERED)
def statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of a text, in order. Every line with text is in one, except headings that have text below them."""
    lines = text.split("\n")
    levels = heading_levels(lines)
    found: list[Statement] = []
    size, heading = 0.0, None
    for number, line in enumerate(lines):
        above, heading = heading, number if levels[number] else heading
        if not line.strip() or (levels[number] and _says_more(lines, levels, number)):
            continue
        before = found[-1] if found else None
        if (
            before
            and before.last == number - 1
            and size < _LARGEST
            and not levels[number]
            and _goes_on(lines[number - 1], line)
        ):
            found[-1] = before._replace(last=number)
            size += estimate(line)
        else:
            found.append(Statement(number, number, above))
            size = estimate(line)
    return tuple(found)


def _says_more(lines: Sequence[str], levels: Sequence[int], heading: int) -> bool:
    """Return whether the next line with text below a heading is no heading."""
    return next((not levels[n] for n in range(heading + 1, len(lines)) if lines[n].strip()), False)


def _goes_on(before: str, line: str) -> bool:
    """Return whether ``line`` continues the one before it."""
    if _BEGINS.match(line) or before.lstrip(" ").startswith("#"):
        return False
    return line[:1] in (" ", "\t") or (len(before.rstrip()) >= _BROKEN and not before.rstrip().endswith(_ENDS))
