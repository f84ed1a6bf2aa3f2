"""What models are told of the skills: one line each, the same bytes while nothing changes, within a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from agent.models.token_estimate import Calibration, weigh
from agent.taint import neutralised

BUDGET: Final = 1000
"""Tokens that the list may take; in small windows a fortieth of the window."""
_SHARE: Final = 40
_LENGTHS: Final = (160, 80, 40, 0)
"""Characters of a description, tried in this order until the list is short enough."""
_HEAD: Final = """\
## Skills
Instructions for certain work. Before such work `read` the skill's SKILL.md; paths in it are relative to its folder.
"""


class Listed(Struct, frozen=True, order=True):
    """A skill as a model is told of it. ``around`` is the folder in which the skill's folder lies, as tools take it."""

    around: str
    name: str
    description: str


def listing(skills: Sequence[Listed], window: int) -> str:
    """Return the list for a window of that many tokens; "" where there are no skills or no room.

    Descriptions are shortened where it would be too long, and then skills are left out, the last ones first.
    """
    most = min(BUDGET, window // _SHARE)
    ordered = sorted(skills)
    for length in _LENGTHS if ordered else ():
        if _tokens(text := _text(ordered, length)) <= most:
            return text
    low, high = 0, len(ordered)
    while low < high:  # the most that fit
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _tokens(_text(ordered, 0, middle)) <= most else (low, middle - 1)
    return _text(ordered, 0, low) if low else ""


def _text(skills: Sequence[Listed], length: int, shown: int | None = None) -> str:
    lines, around = [_HEAD], ""
    for skill in skills[:shown]:
        if skill.around != around:
            around = skill.around
            lines.append(f"In {around}/:\n")
        cut = _cut(neutralised(skill.description), length)
        lines.append(f"- {skill.name}/SKILL.md{f': {cut}' if cut else ''}\n")
    left = 0 if shown is None else len(skills) - shown
    if left:
        lines.append(f"and {left} more, which do not fit here (homebody skills list)\n")
    return "".join(lines)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…" if length else ""


def _tokens(text: str) -> int:
    return Calibration().apply(weigh(text))
