"""Lines of a passage that are embedded by themselves: single lines, or short ones together."""

from __future__ import annotations

import re
from functools import lru_cache

from memory.text.chunks import HEADING
from memory.text.tokens import estimate

_SHORTEST = 28
"""Estimated tokens that a group has at least, where the lines beside it allow it: a vector is as large as the text of many short lines."""
MOST_GROUPS = 250
_REMEMBERED = 256
"""Passages whose groups are kept: those of the last searches."""
_WORD = re.compile(r"[^\W_]")


@lru_cache(_REMEMBERED)
def line_groups(text: str) -> tuple[tuple[int, int], ...]:
    """Return the first and last line of each group, 0-based; blank lines and headings are in none.

    The same text always gives the same groups. None are returned for a text that would be a single group: its own vector says as much.
    """
    lines = text.split("\n")
    groups: list[tuple[int, int]] = []
    size = 0.0
    for number, line in enumerate(lines):
        if not _WORD.search(line) or HEADING.match(line):
            continue
        first, last = groups[-1] if groups else (0, -2)
        if last == number - 1 and size < _SHORTEST:
            groups[-1] = first, number
            size += estimate(line)
        else:
            groups.append((number, number))
            size = estimate(line)
    if len(groups) > 1 and groups[-2][1] == groups[-1][0] - 1 and size < _SHORTEST:
        groups[-2:] = [(groups[-2][0], groups[-1][1])]
    return tuple(groups[:MOST_GROUPS]) if len(groups) > 1 else ()


def group_texts(text: str) -> list[str]:
    """Return the texts of the groups, as they are embedded."""
    lines = text.split("\n")
    return ["\n".join(lines[first : last + 1]) for first, last in line_groups(text)]
