"""Detects lines without content: unchanged template lines, empty headings and punctuation."""

from __future__ import annotations

import re
from calendar import day_name, month_name
from collections.abc import Sequence

HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_WORD = re.compile(r"[^\W_]|[^\x00-\x7f]")
_DAY = re.compile(rf"[\W\d_]|\b(?:{'|'.join([*day_name, *filter(None, month_name)])})\b", re.IGNORECASE)


def heading_levels(lines: Sequence[str]) -> list[int]:
    """Return the heading level of every line, 1 to 6; 0 for other lines and inside code blocks."""
    found: list[int] = []
    fence = ""
    for line in lines:
        mark = FENCE.match(line)
        level = 0
        if mark and (not fence or (mark[1][0] == fence[0] and len(mark[1]) >= len(fence))):
            fence = "" if fence else mark[1]
        elif not fence and line.lstrip(" ").startswith("#") and (heading := HEADING.match(line)):
            level = len(heading[1])
        found.append(level)
    return found


def informative_lines(lines: Sequence[str], template: frozenset[str]) -> list[bool]:
    """Return for every line whether it has content.

    Lines of ASCII punctuation only have none. Lines of ``template`` (stripped) and headings that are only a date have none
    either, except headings with content below them. The title of a template never has content.
    """
    depth = heading_levels(lines)
    said = [bool(_WORD.search(line)) and line.strip() not in template for line in lines]
    for number, level in enumerate(depth):
        if level and said[number]:
            said[number] = bool(_DAY.sub("", lines[number]))
    below = [False] * 8  # whether something was said below a heading of each level, from the end
    for number in range(len(lines) - 1, -1, -1):
        level = depth[number]
        if not level:
            below = [one or said[number] for one in below]
            continue
        if below[level] and not said[number]:
            said[number] = bool(_WORD.search(lines[number])) and not (level == 1 and lines[number].strip() in template)
        below = [one or said[number] if at < level else False for at, one in enumerate(below)]
    return said


def is_only_headings(text: str) -> bool:
    """Return whether a text consists of headings only."""
    return all(not line.strip() or line.lstrip(" ").startswith("#") for line in text.split("\n"))
