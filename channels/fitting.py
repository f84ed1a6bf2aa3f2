"""Pieces of Markdown that fit a platform's message once they are written in the platform's own notation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from channels.chunking import SMALLEST, cut
from channels.markdown import styled
from channels.styled import plain

if TYPE_CHECKING:
    from collections.abc import Callable


def fitted(markdown: str, limit: int, written: Callable[[str], str], *, lines: int | None = None) -> list[str]:
    """Cut a reply so that no piece is longer than ``limit`` once ``written``, nor shows more than ``lines`` lines.

    Marks and escapes make a text longer, so a piece that is over is cut again with less room until it fits.
    """
    return [piece for part in _cut(markdown, limit, lines) for piece in _fitting(part, limit, limit, written, lines)]


def _fitting(piece: str, room: int, limit: int, written: Callable[[str], str], lines: int | None) -> list[str]:
    fits = len(written(piece)) <= limit and (lines is None or lines_of(piece) <= lines)
    if fits or room <= SMALLEST:
        return [piece]
    room = max(SMALLEST, room * 3 // 4)
    return [small for part in _cut(piece, room, lines) for small in _fitting(part, room, limit, written, lines)]


def _cut(markdown: str, room: int, lines: int | None) -> list[str]:
    def length(text: str) -> int:
        return len(text) if lines is None else max(len(text), math.ceil((text.count("\n") + 1) * room / lines))

    return cut(markdown, room, length)


def lines_of(piece: str) -> int:
    """Return how many lines a reader sees, those that only mark a code block left out."""
    return plain(styled(piece)).count("\n") + 1
